//! Notices: after a while, something else is wrong with a resource.

use std::{collections::BTreeMap, time::Duration};

use nephele_engine::{
    ActiveEffect, ClockSetting, CloudSpec, Effect, Engine, EventKind, Fault, Latency, MistakesByCaller,
    Notice, NoticeEnd, Previous, Rate, Request, ResourceSpec,
};
use nephele_model::{Budget, Market, Matches, ResourceId, ResourceKind, SimTime, VisibleEffect};
use proptest::prelude::*;

use crate::{
    cloud::{Watched, ask, at, engine, id, machine, reached_stages},
    faults::{fault, put},
};

const TOLD: VisibleEffect = VisibleEffect::SpotReclaim(Duration::from_secs(120));

fn showing(visible_effect: VisibleEffect) -> ActiveEffect {
    ActiveEffect::new(ResourceKind::Instance, visible_effect)
}

fn gone() -> ActiveEffect {
    ActiveEffect {
        is_final: true,
        ..showing(VisibleEffect::Vanished)
    }
}

/// Spot instances are told that they are taken back in two minutes.
fn reclaim() -> Fault {
    let notice = Some(Box::new(Notice {
        lasts: Duration::from_secs(120),
        then: gone(),
    }));
    let told = ActiveEffect {
        market: Some(Market::Spot),
        notice,
        ..showing(TOLD)
    };
    Fault {
        matches: Matches::default(),
        effect: Effect::Affect(told),
        budget: Budget::default(),
    }
}

fn spot(name: &str) -> ResourceSpec {
    ResourceSpec {
        market: Market::Spot,
        cloud_spec: "north".into(),
        ..machine(name, &Latency::ZERO)
    }
}

fn put_clock(clock: ClockSetting) -> Request {
    Request::PutCloud {
        id: ResourceId::cloud("default", "north"),
        cloud_spec: Box::new(CloudSpec {
            clock,
            ..CloudSpec::default()
        }),
        clock: None,
        leaked: Vec::new(),
        cost: None,
        caller_mistakes: MistakesByCaller::new(),
    }
}

/// What is wrong with a machine.
fn wrong(engine: &Engine, name: &str) -> Option<VisibleEffect> {
    let active_effects = &engine.get(&id(name)).expect("it exists").active_effects;
    active_effects
        .get("f")
        .map(|active_effect| active_effect.visible_effect.clone())
}

fn started() -> Watched {
    let mut engine = engine();
    ask(&mut engine, at(0), put_clock(ClockSetting::default())).expect("a catalog");
    ask(&mut engine, at(0), Request::Create(spot("m"))).expect("a machine");
    engine.poll(at(1));
    engine
}

#[test]
fn a_spot_instance_is_taken_back_when_its_notice_is_over_and_others_do_not_count() {
    let mut engine = started();
    let other = ResourceSpec {
        market: Market::OnDemand,
        ..spot("n")
    };
    ask(&mut engine, at(1), Request::Create(other)).unwrap();
    let budget = Budget {
        count: Some(1),
        ..Budget::default()
    };
    ask(&mut engine, at(10), put("f", Fault { budget, ..reclaim() })).unwrap();
    assert_eq!(["m", "n"].map(|name| wrong(&engine, name)), [Some(TOLD), None]);
    assert_eq!(engine.fault(&fault("f")).unwrap().decisions.record.matched, 1);
    engine.poll(at(129));
    assert_eq!(wrong(&engine, "m"), Some(TOLD));
    let events = engine.poll(at(130));
    let kinds: Vec<_> = events.into_iter().map(|event| (event.at, event.kind)).collect();
    assert_eq!(
        kinds.last(),
        Some(&(
            at(130),
            EventKind::BecameAffected {
                fault: "f".into(),
                active_effect: Some(gone())
            }
        ))
    );
    // It is gone for good.
    ask(&mut engine, at(140), Request::Delete(fault("f"))).unwrap();
    assert_eq!(wrong(&engine, "m"), Some(VisibleEffect::Vanished));
}

#[test]
fn a_notice_is_called_off_with_its_fault() {
    let mut engine = started();
    ask(&mut engine, at(10), put("f", reclaim())).unwrap();
    ask(&mut engine, at(129), Request::Delete(fault("f"))).unwrap();
    engine.poll(at(999));
    assert_eq!((wrong(&engine, "m"), engine.next_deadline()), (None, None));
    // Another one begins afresh.
    ask(&mut engine, at(1000), put("f", reclaim())).unwrap();
    assert_eq!(engine.next_deadline(), Some(at(1120)));
}

#[test]
fn a_notice_lasts_as_long_in_the_time_of_the_cloud() {
    let mut engine = started();
    ask(&mut engine, at(10), put("f", reclaim())).unwrap();
    let fast = ClockSetting {
        rate: Rate::from_millionths(10_000_000),
        ..ClockSetting::default()
    };
    ask(&mut engine, at(70), put_clock(fast)).unwrap();
    assert_eq!(engine.next_deadline(), Some(at(76)));
    let still = ClockSetting {
        is_paused: true,
        ..fast
    };
    ask(&mut engine, at(71), put_clock(still)).unwrap();
    assert_eq!(engine.next_deadline(), None);
    ask(&mut engine, at(99), put_clock(ClockSetting { steps: 1, ..still })).unwrap();
    engine.poll(at(99));
    assert_eq!(wrong(&engine, "m"), Some(VisibleEffect::Vanished));
}

/// Machines go down for a minute, and return changed.
fn reboot() -> Fault {
    let notice = Some(Box::new(Notice {
        lasts: Duration::from_secs(60),
        then: showing(VisibleEffect::NotReady),
    }));
    let down = ActiveEffect {
        is_down: true,
        after: Some("node".into()),
        notice,
        ..showing(VisibleEffect::Frozen)
    };
    Fault {
        effect: Effect::Affect(down),
        ..reclaim()
    }
}

#[test]
fn what_came_after_a_notice_stays_when_its_fault_decides_again() {
    let mut engine = started();
    ask(&mut engine, at(10), put("f", reboot())).unwrap();
    assert_eq!(wrong(&engine, "m"), Some(VisibleEffect::Frozen));
    engine.poll(at(70));
    assert_eq!(wrong(&engine, "m"), Some(VisibleEffect::NotReady));
    let labels = BTreeMap::from([("team".to_owned(), "blue".to_owned())]);
    ask(
        &mut engine,
        at(80),
        Request::Create(ResourceSpec { labels, ..spot("m") }),
    )
    .unwrap();
    assert_eq!(
        (wrong(&engine, "m"), engine.next_deadline()),
        (Some(VisibleEffect::NotReady), None)
    );
    let state = engine.fault(&fault("f")).unwrap().clone();

    let mut after = self::engine();
    let put_fault = Request::PutFault {
        id: fault("f"),
        fault: Box::new(reboot()),
        record: state.decisions.record,
        affected_ids: state.affected_ids.into_iter().collect(),
        notices: state
            .notices
            .into_iter()
            .map(|(id, ends)| NoticeEnd { id, ends })
            .collect(),
        is_cut: false,
        skipped: Vec::new(),
        leaked: Vec::new(),
        paused: false,
    };
    let adopt = Request::Adopt {
        spec: spot("m"),
        previous: Box::new(Previous {
            created: at(0),
            reached: reached_stages(&engine, &id("m")),
            ..Previous::default()
        }),
    };
    for request in [put_clock(ClockSetting::default()), put_fault, adopt] {
        ask(&mut after, at(90), request).unwrap();
    }
    assert_eq!(
        (wrong(&after, "m"), after.next_deadline()),
        (Some(VisibleEffect::NotReady), None)
    );
    ask(&mut after, at(91), Request::Delete(fault("f"))).unwrap();
    assert_eq!(wrong(&after, "m"), None, "it heals");
}

proptest! {
    /// A restart at any time, whatever the clock does, changes neither who is told nor when the notice is over.
    #[test]
    fn a_restart_changes_no_notice(
        created in 0_u64..50, began in 50_u64..100, stop in 100_u64..400, away in 0_u64..300,
        clocks in prop::collection::vec((0_u64..400, 1_u64..50_000_000, any::<bool>()), 0..3),
        fault_of in prop::sample::select(vec![reclaim(), reboot()]),
    ) {
        let mut engine = engine();
        let mut steps: Vec<(SimTime, Request)> = vec![
            (at(0), put_clock(ClockSetting::default())),
            (at(created), Request::Create(spot("m"))),
            (at(began), put("f", fault_of.clone())),
        ];
        steps.extend(clocks.iter().map(|(second, rate, is_paused)| {
            let clock = ClockSetting {
                rate: Rate::from_millionths(*rate),
                is_paused: *is_paused,
                ..ClockSetting::default()
            };
            (at(began + second % (stop - began)), put_clock(clock))
        }));
        steps.sort_by_key(|(now, _)| *now);
        for (now, request) in steps {
            let _ = ask(&mut engine, now, request);
        }
        let stop = at(stop);
        engine.poll(stop);
        let before = engine.fault(&fault("f")).unwrap().clone();
        let cloud_spec = ResourceId::cloud("default", "north");
        let clock = engine.clock(&cloud_spec).copied();
        let setting = engine.clock_setting(&cloud_spec).unwrap();

        let again = stop + Duration::from_secs(away);
        let mut after = self::engine();
        let mut put_cloud = put_clock(setting);
        if let Request::PutCloud { clock: previous, .. } = &mut put_cloud {
            *previous = clock.map(|clock| {
                nephele_engine::ClockRecord { setting, since: clock.since, time: clock.time }
            });
        }
        let put_fault = Request::PutFault {
            id: fault("f"),
            fault: Box::new(fault_of),
            record: before.decisions.record,
            affected_ids: before.affected_ids.iter().cloned().collect(),
            notices: before.notices.iter().map(|(id, ends)| NoticeEnd { id: id.clone(), ends: *ends }).collect(),
            is_cut: false,
            skipped: Vec::new(),
            leaked: Vec::new(),
            paused: false,
        };
        let adopt = Request::Adopt { spec: spot("m"), previous: Box::new(Previous { created: at(created), reached: reached_stages(&engine, &id("m")), ..Previous::default() }) };
        for request in [put_cloud, put_fault, adopt] {
            ask(&mut after, again, request).unwrap();
        }
        for now in [again, again + Duration::from_secs(1), again + Duration::from_secs(1_000_000)] {
            engine.poll(now);
            after.poll(now);
            prop_assert_eq!(wrong(&after, "m"), wrong(&engine, "m"));
            let notices = |engine: &Engine| engine.fault(&fault("f")).unwrap().notices.clone();
            prop_assert_eq!(notices(&after), notices(&engine));
        }
        prop_assert_eq!(before.notices.len(), 1);
    }
}
