//! The clocks of catalogs: rates, pauses, steps and leaps.

use std::time::Duration;

use nephele_engine::{
    ClockRecord, ClockSetting, CloudSpec, Engine, Entry, Event, EventKind, Latency, Line, MistakesByCaller,
    Previous, Rate, Record, Replay, Request, ResourceSpec, StageState, UpdateSpec,
};
use nephele_model::{ResourceId, SimTime};
use proptest::prelude::*;

use crate::cloud::{Watched, ask, at, engine, id, machine, reached_stages};

const END: SimTime = SimTime::from_millis(100_000_000_000);

fn put(name: &str, clock: ClockSetting, previous: Option<ClockRecord>) -> Request {
    let id = ResourceId::cloud(id("m").namespace, name);
    Request::PutCloud {
        id,
        cloud_spec: Box::new(CloudSpec {
            clock,
            ..CloudSpec::default()
        }),
        clock: previous,
        leaked: Vec::new(),
        cost: None,
        caller_mistakes: MistakesByCaller::new(),
    }
}

fn paused() -> ClockSetting {
    ClockSetting {
        is_paused: true,
        ..ClockSetting::default()
    }
}

/// A machine of a catalog. Its stages take from 1 to 40 s, drawn.
fn of(cloud_spec: &str, name: &str) -> ResourceSpec {
    let latency = Latency::Uniform {
        min: Duration::from_secs(1),
        max: Duration::from_secs(40),
    };
    ResourceSpec {
        cloud_spec: cloud_spec.into(),
        ..machine(name, &latency)
    }
}

/// Two clouds with three machines each, at second 1. One machine of each has an update, and one is being deleted.
fn two_clouds() -> Watched {
    let mut engine = engine();
    for cloud_spec in ["north", "south"] {
        ask(&mut engine, at(1), put(cloud_spec, ClockSetting::default(), None)).expect("it is accepted");
        for number in 0..3 {
            let spec = of(cloud_spec, &format!("{cloud_spec}-{number}"));
            ask(&mut engine, at(1), Request::Create(spec)).expect("it is accepted");
        }
        let latency = Latency::Uniform {
            min: Duration::from_secs(1),
            max: Duration::from_secs(90),
        };
        let update = UpdateSpec {
            name: "u".into(),
            to: "v2".into(),
            since: at(1),
            latency,
        };
        ask(
            &mut engine,
            at(1),
            Request::Update(id(&format!("{cloud_spec}-0")), update),
        )
        .expect("it is accepted");
        ask(
            &mut engine,
            at(1),
            Request::Delete(id(&format!("{cloud_spec}-2"))),
        )
        .expect("it is accepted");
    }
    engine
}

/// The events of a cloud in the order of the journal, without their times.
fn order(engine: &Engine, cloud_spec: &str) -> Vec<(String, EventKind)> {
    let entries = engine.journal().since(1);
    let events = entries.filter_map(|entry| match &entry.record {
        Record::Event(Event { id, kind, .. }) if id.name.starts_with(cloud_spec) => {
            Some((id.name.clone(), kind.clone()))
        }
        _ => None,
    });
    events.collect()
}

/// Changes of a clock, each some milliseconds after the one before, with leaps that add up.
fn script() -> impl Strategy<Value = Vec<(u64, ClockSetting)>> {
    let rate = prop_oneof![
        Just(1_000_000),
        10_000..10_000_000u64,
        10_000_000..1_000_000_000u64
    ];
    let step = (
        0..20_000u64,
        rate,
        prop::bool::weighted(0.3),
        prop_oneof![3 => Just(0), 1 => 0..60_000u64],
    );
    prop::collection::vec(step, 0..12).prop_map(|steps| {
        let mut ahead = Duration::ZERO;
        let setting = |(wait, rate, is_paused, more)| {
            ahead += Duration::from_millis(more);
            (
                wait,
                ClockSetting {
                    rate: Rate::from_millionths(rate),
                    is_paused,
                    steps: 0,
                    ahead,
                },
            )
        };
        steps.into_iter().map(setting).collect()
    })
}

/// Whether the journal replays to the same answers, events, digest and state.
fn replays(engine: &Engine, from: Line) -> bool {
    let records = engine
        .journal()
        .since(1)
        .map(|entry| Line::Record(Entry::clone(entry)));
    let lines = [from].into_iter().chain(records).chain([Line::digest(engine)]);
    let mut replay = Replay::default();
    let played = lines.into_iter().try_for_each(|line| {
        let text = serde_json::to_string(&line).expect("it is JSON");
        replay.play(&serde_json::from_str(&text).expect("it was a line"))
    });
    played
        .and_then(|()| replay.play(&Line::State(engine.state())))
        .is_ok()
}

proptest! {
    /// Whatever the clock does, the same happens in the same order, and nothing of it in another cloud.
    #[test]
    fn a_clock_changes_when_things_happen_and_not_in_which_order(script in script()) {
        let mut plain = two_clouds();
        plain.poll(END);
        let start = Line::State(engine().state());
        let mut clocked = two_clouds();
        let mut now = at(1);
        let mut last = ClockSetting::default();
        for (wait, setting) in script {
            now = now + Duration::from_millis(wait);
            ask(&mut clocked, now, put("north", setting, None)).unwrap();
            clocked.poll(now);
            last = setting;
        }
        // The end is reached at any rate, once no pause holds it.
        ask(&mut clocked, now, put("north", ClockSetting { is_paused: false, ..last }, None)).unwrap();
        clocked.poll(END);
        for cloud in ["north", "south"] {
            prop_assert_eq!(order(&clocked, cloud), order(&plain, cloud));
        }
        let times = |engine: &Engine| -> Vec<_> {
            let records = engine.journal().since(1).filter_map(|entry| match &entry.record {
                Record::Event(event) if event.id.name.starts_with("south") => Some(event.clone()),
                _ => None,
            });
            records.collect()
        };
        prop_assert_eq!(times(&clocked), times(&plain));
        prop_assert!(replays(&clocked, start));
    }

    /// A change of the clock moves its time by what it leaps and by nothing else, also while the wall clock is set
    /// back.
    #[test]
    fn a_changed_clock_continues_from_its_time(
        script in script(), is_set_back in prop::collection::vec(any::<bool>(), 12),
    ) {
        let north = ResourceId::cloud(id("m").namespace, "north");
        let mut engine = two_clouds();
        let mut millis = 10_000_000;
        let mut leapt = Duration::ZERO;
        for ((wait, setting), is_set_back) in script.into_iter().zip(is_set_back) {
            millis = if is_set_back { millis - wait } else { millis + wait };
            let now = SimTime::from_millis(millis);
            let micros = |engine: &Engine| {
                let time = engine.clock(&north).map_or_else(|| now.into(), |clock| clock.time(now));
                u128::from(time.as_micros())
            };
            let before = micros(&engine);
            ask(&mut engine, now, put("north", setting, None)).unwrap();
            let more = setting.ahead - leapt;
            leapt = setting.ahead;
            // One microsecond more, so that what ends exactly then ends.
            let leap = if more.is_zero() { 0 } else { more.as_micros() + 1 };
            prop_assert_eq!(micros(&engine), before + leap);
        }
    }

    /// A paused cloud passes nothing. Each step passes exactly one thing, in the order of the clock.
    #[test]
    fn a_step_passes_exactly_one_thing_while_nothing_else_passes(
        pause in 1_000..60_000u64, steps in prop::collection::vec((0..30_000u64, 0..4u64), 0..12),
    ) {
        let start = Line::State(engine().state());
        let mut engine = two_clouds();
        let mut now = SimTime::from_millis(pause);
        ask(&mut engine, now, put("north", paused(), None)).unwrap();
        let mut seen = order(&engine, "north").len();
        let mut total = 0;
        for (wait, more) in steps {
            now = now + Duration::from_millis(wait);
            engine.poll(now);
            prop_assert_eq!(order(&engine, "north").len(), seen, "nothing passes by itself");
            let is_pending = engine.resources().filter(|found| found.spec.cloud_spec == "north").map(|found| {
                let running = found.stages().filter(|(_, state)| matches!(state, StageState::Running { .. }));
                if found.deleting.is_some() { 1 } else { running.count() }
            });
            let is_pending = is_pending.sum::<usize>() > 0;
            total += more;
            ask(&mut engine, now, put("north", ClockSetting { steps: total, ..paused() }, None)).unwrap();
            engine.poll(now);
            let after = order(&engine, "north").len();
            let more = usize::try_from(more).unwrap();
            prop_assert!(after - seen <= more);
            if is_pending && more > 0 {
                // The last of several steps may find nothing left.
                prop_assert!(after > seen);
                prop_assert!(more > 1 || after == seen + 1);
            }
            seen = after;
        }
        engine.poll(END);
        prop_assert_eq!(order(&engine, "north").len(), seen);
        prop_assert!(replays(&engine, start));
    }

    /// A machine that was created after the last change of the clock is due when it would have been without a restart.
    #[test]
    fn restart_keeps_the_deadlines_of_what_began_after_the_last_change(
        rate in 10_000..1_000_000_000u64, paused: bool, created in 0..5_000u64, stop in 0..50_000u64,
    ) {
        let setting = ClockSetting { rate: Rate::from_millionths(rate), is_paused: paused, ..ClockSetting::default() };
        let mut before = engine();
        let created = at(10) + Duration::from_millis(created);
        let stop = created + Duration::from_millis(stop);
        ask(&mut before, at(5), put("north", setting, None)).unwrap();
        ask(&mut before, created, Request::Create(of("north", "m"))).unwrap();
        before.poll(stop);
        let north = ResourceId::cloud(id("m").namespace, "north");
        let record = before.clock(&north).map(|clock| ClockRecord { setting, since: clock.since, time: clock.time });
        let mut after = engine();
        ask(&mut after, stop, put("north", setting, record)).unwrap();
        let reached = reached_stages(&before, &id("m"));
        let adopt = Request::Adopt { spec: of("north", "m"), previous: Box::new(Previous { created, reached, ..Previous::default() }) };
        ask(&mut after, stop, adopt).unwrap();
        after.poll(stop);
        // At a high rate a stage passes within a millisecond: the time of the cloud within it is not published.
        let near = |one: Option<SimTime>, other: Option<SimTime>| match (one, other) {
            (Some(one), Some(other)) => one.as_millis().abs_diff(other.as_millis()) <= 3,
            (one, other) => one == other,
        };
        prop_assert!(near(before.next_deadline(), after.next_deadline()), "{:?} {:?}", before.next_deadline(), after.next_deadline());
        let end = |engine: &mut Watched| engine.poll(END).last().map(|event| event.at);
        prop_assert!(near(end(&mut before), end(&mut after)));
    }
}

/// A machine that takes 10 s for each stage.
fn slow() -> ResourceSpec {
    let latency = Latency::Fixed(Duration::from_secs(10));
    ResourceSpec {
        cloud_spec: "north".into(),
        ..machine("m", &latency)
    }
}

fn told(engine: &mut Watched, millis: u64) -> Vec<u64> {
    engine
        .poll(SimTime::from_millis(millis))
        .iter()
        .map(|event| event.at.as_millis())
        .collect()
}

#[test]
fn rates_pauses_and_leaps_move_the_deadlines_at_once() {
    let mut engine = engine();
    let rate = |rate| ClockSetting {
        rate: Rate::from_millionths(rate),
        ..ClockSetting::default()
    };
    ask(&mut engine, at(0), put("north", ClockSetting::default(), None)).unwrap();
    ask(&mut engine, at(0), Request::Create(slow())).unwrap();
    // 5 s of ten are left: half a second at ten times the rate.
    ask(&mut engine, at(5), put("north", rate(10_000_000), None)).unwrap();
    assert_eq!(told(&mut engine, 5_999), [5_500]);
    // 5 s of ten are left again, and stay while the clock stands still.
    ask(&mut engine, at(6), put("north", paused(), None)).unwrap();
    assert_eq!(engine.next_deadline(), None);
    assert_eq!(told(&mut engine, 90_000), [0; 0]);
    let ahead = |ahead| ClockSetting {
        ahead: Duration::from_secs(ahead),
        ..paused()
    };
    ask(&mut engine, at(90), put("north", ahead(4), None)).unwrap();
    assert_eq!(told(&mut engine, 90_000), [0; 0]);
    ask(&mut engine, at(91), put("north", ahead(5), None)).unwrap();
    assert_eq!(told(&mut engine, 95_000), [91_000], "exactly then");
    // A total that is lower does nothing. Half the rate from then on.
    ask(&mut engine, at(100), put("north", rate(500_000), None)).unwrap();
    assert_eq!(told(&mut engine, 119_000), [0; 0]);
    assert_eq!(told(&mut engine, 121_000), [120_000, 120_000]);
    assert_eq!(engine.resources().count(), 1);
}

#[test]
fn what_takes_no_time_waits_in_a_paused_cloud_and_continues_without_it() {
    let mut engine = engine();
    ask(&mut engine, at(0), put("north", paused(), None)).unwrap();
    let spec = ResourceSpec {
        cloud_spec: "north".into(),
        ..machine("m", &Latency::ZERO)
    };
    ask(&mut engine, at(1), Request::Create(spec)).unwrap();
    assert_eq!(told(&mut engine, 5_000), [0; 0]);
    let steps = |steps| put("north", ClockSetting { steps, ..paused() }, None);
    ask(&mut engine, at(5), steps(1)).unwrap();
    assert_eq!(told(&mut engine, 6_000), [5_000]);
    ask(&mut engine, at(7), steps(3)).unwrap();
    assert_eq!(told(&mut engine, 8_000), [7_000, 7_000]);
    // Without its catalog time passes again.
    ask(
        &mut engine,
        at(9),
        Request::Delete(ResourceId::cloud(id("m").namespace, "north")),
    )
    .unwrap();
    assert_eq!(told(&mut engine, 9_000), [9_000]);
    ask(&mut engine, at(10), Request::Delete(id("m"))).unwrap();
    assert_eq!(told(&mut engine, 10_000), [10_000]);
    // A new catalog counts from what it is created with, unless a record says otherwise.
    let spec = slow();
    ask(&mut engine, at(20), Request::Create(spec)).unwrap_err();
    ask(&mut engine, at(20), steps(3)).unwrap();
    ask(&mut engine, at(20), Request::Create(slow())).unwrap();
    assert_eq!(told(&mut engine, 60_000), [0; 0]);
}
