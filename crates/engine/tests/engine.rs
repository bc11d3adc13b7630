//! The rules of the cloud, one by one, and the properties that hold whatever happens.

use std::collections::BTreeMap;
use std::time::Duration;

use nephele_engine::{
    Command, Config, Engine, ErrorClass, Event, EventKind, Latency, Odds, Operation, Outcome, Quota,
    Rejected, ResourceId, ResourceKind, ResourceSpec, Seed, SimTime, StageName, StageSpec, StageState, Zone,
};
use proptest::prelude::*;

fn id(name: &str) -> ResourceId {
    ResourceId {
        account: "default".into(),
        group: "demo".into(),
        kind: ResourceKind::Instance,
        name: name.into(),
    }
}

fn stage(name: &str, after: &[&str], latency: Latency) -> StageSpec {
    StageSpec {
        name: name.into(),
        after: after.iter().map(|&name| name.into()).collect(),
        latency,
        failure: Odds::NEVER,
    }
}

fn jittered(seconds: u64) -> Latency {
    Latency::Jittered { base: Duration::from_secs(seconds), fraction: 0.5 }
}

/// A machine: vm, then node, then etcd and api-server side by side.
fn machine(name: &str, latency: &Latency) -> ResourceSpec {
    ResourceSpec {
        id: id(name),
        zone: None,
        instance_type: None,
        owner: None,
        labels: BTreeMap::new(),
        stages: vec![
            stage("vm", &[], latency.clone()),
            stage("node", &["vm"], latency.clone()),
            stage("etcd", &["node"], latency.clone()),
            stage("api-server", &["node"], latency.clone()),
        ],
        deletion: latency.clone(),
    }
}

fn engine() -> Engine {
    Engine::new(Config::default(), Seed::new("amber-otter-lamp"))
}

fn at(seconds: u64) -> SimTime {
    SimTime::from_millis(seconds * 1000)
}

fn ask(engine: &mut Engine, now: SimTime, command: Command) -> Result<Outcome, Rejected> {
    engine.apply(now, Operation { caller: "test".into(), command })
}

fn reached(event: &Event) -> (u64, &str) {
    match &event.kind {
        EventKind::StageReached(stage) => (event.at.as_millis(), stage.as_str()),
        other => panic!("expected a stage reached, got {other:?}"),
    }
}

#[test]
fn stages_are_passed_in_order_and_siblings_side_by_side() {
    let mut engine = engine();
    let spec = machine("m", &Latency::Fixed(Duration::from_secs(2)));
    assert_eq!(ask(&mut engine, at(10), Command::Create(spec)), Ok(Outcome::Accepted));
    assert_eq!(engine.next_deadline(), Some(at(12)));
    let events = engine.poll(at(100));
    let seen: Vec<_> = events.iter().map(reached).collect();
    assert_eq!(seen, [(12_000, "vm"), (14_000, "node"), (16_000, "etcd"), (16_000, "api-server")]);
    assert_eq!(events.iter().map(|event| event.generation).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert_eq!(engine.next_deadline(), None);
}

#[test]
fn stages_without_latency_are_all_passed_by_one_poll() {
    let mut engine = engine();
    ask(&mut engine, at(1), Command::Create(machine("m", &Latency::ZERO))).unwrap();
    assert_eq!(engine.poll(at(1)).len(), 4);
}

#[test]
fn creating_twice_is_already_done_and_another_shape_is_a_conflict() {
    let mut engine = engine();
    let spec = machine("m", &Latency::ZERO);
    ask(&mut engine, at(1), Command::Create(spec.clone())).unwrap();
    assert_eq!(ask(&mut engine, at(2), Command::Create(spec.clone())), Ok(Outcome::AlreadyDone));
    let moved = ResourceSpec { zone: Some("b".into()), ..spec };
    let rejected = ask(&mut engine, at(3), Command::Create(moved)).unwrap_err();
    assert_eq!(rejected, Rejected::Conflict(id("m")));
    assert_eq!(rejected.class(), ErrorClass::GiveUp);
}

#[test]
fn deletion_takes_its_time_and_ends_everything_else() {
    let mut engine = engine();
    let spec = machine("m", &Latency::Fixed(Duration::from_secs(5)));
    ask(&mut engine, at(0), Command::Create(spec.clone())).unwrap();
    assert_eq!(ask(&mut engine, at(1), Command::Delete(id("m"))), Ok(Outcome::Accepted));
    assert_eq!(ask(&mut engine, at(2), Command::Delete(id("m"))), Ok(Outcome::AlreadyDone));
    assert_eq!(ask(&mut engine, at(2), Command::Create(spec)), Err(Rejected::Deleting(id("m"))));
    let events = engine.poll(at(60));
    assert_eq!(events, [Event { at: at(6), id: id("m"), generation: 3, kind: EventKind::Deleted }]);
    assert_eq!(engine.get(&id("m")), None);
    assert_eq!(ask(&mut engine, at(61), Command::Delete(id("m"))), Ok(Outcome::AlreadyDone));
}

#[test]
fn failed_stage_blocks_its_successors_until_it_is_retried() {
    let mut engine = engine();
    let mut spec = machine("m", &Latency::ZERO);
    spec.stages[0].failure = Odds::new(1.0);
    ask(&mut engine, at(0), Command::Create(spec)).unwrap();
    let events = engine.poll(at(9));
    assert_eq!(events.len(), 1);
    assert!(matches!(&events[0].kind, EventKind::StageFailed { stage, .. } if stage.as_str() == "vm"));
    let resource = engine.get(&id("m")).unwrap();
    assert_eq!(resource.stage(&"node".into()), Some(&StageState::Blocked));
    assert_eq!(ask(&mut engine, at(10), Command::Retry(id("m"), "vm".into())), Ok(Outcome::Accepted));
    assert_eq!(ask(&mut engine, at(10), Command::Retry(id("m"), "vm".into())), Ok(Outcome::AlreadyDone));
    assert_eq!(
        ask(&mut engine, at(10), Command::Retry(id("m"), "gone".into())),
        Err(Rejected::InvalidStage(id("m")))
    );
}

#[test]
fn stages_that_cannot_be_walked_are_refused() {
    let cases = [
        vec![stage("a", &["b"], Latency::ZERO), stage("b", &["a"], Latency::ZERO)],
        vec![stage("a", &["missing"], Latency::ZERO)],
        vec![stage("a", &[], Latency::ZERO), stage("a", &[], Latency::ZERO)],
    ];
    for stages in cases {
        let spec = ResourceSpec { stages, ..machine("m", &Latency::ZERO) };
        assert_eq!(ask(&mut engine(), at(0), Command::Create(spec)), Err(Rejected::InvalidStage(id("m"))));
    }
}

#[test]
fn offer_of_the_cloud_is_what_can_be_had() {
    let config = Config {
        zones: BTreeMap::from([
            ("a".to_owned(), Zone { instances_max: Some(1) }),
            ("b".to_owned(), Zone::default()),
        ]),
        instance_types: vec!["m.large".into()],
        quota: Quota { instances_max: Some(2), load_balancers_max: None },
    };
    let mut engine = Engine::new(config, Seed::new("s"));
    let mut create = |name: &str, zone: &str, kind: &str| {
        let spec = ResourceSpec {
            zone: Some(zone.into()),
            instance_type: Some(kind.into()),
            ..machine(name, &Latency::ZERO)
        };
        ask(&mut engine, at(0), Command::Create(spec))
    };
    assert_eq!(create("1", "z", "m.large"), Err(Rejected::UnknownZone("z".into())));
    assert_eq!(create("1", "a", "huge"), Err(Rejected::UnknownInstanceType("huge".into())));
    assert_eq!(create("1", "a", "m.large"), Ok(Outcome::Accepted));
    assert_eq!(create("2", "a", "m.large"), Err(Rejected::InsufficientCapacity("a".into())));
    assert_eq!(create("2", "b", "m.large"), Ok(Outcome::Accepted));
    assert_eq!(create("3", "b", "m.large"), Err(Rejected::QuotaExceeded { what: "instances", limit: 2 }));
}

#[test]
fn absurd_durations_saturate() {
    let mut engine = engine();
    let forever = Latency::Jittered { base: Duration::MAX, fraction: f64::MAX };
    ask(&mut engine, SimTime::from_millis(u64::MAX), Command::Create(machine("m", &forever))).unwrap();
    assert_eq!(engine.next_deadline(), Some(SimTime::from_millis(u64::MAX)));
}

#[test]
fn journal_keeps_operations_and_events_in_one_order_and_leaves_repeats_out() {
    let mut engine = engine();
    let spec = machine("m", &Latency::ZERO);
    ask(&mut engine, at(0), Command::Create(spec.clone())).unwrap();
    ask(&mut engine, at(0), Command::Create(spec)).unwrap();
    engine.poll(at(0));
    let sequences: Vec<_> = engine.journal().since(1).map(|entry| entry.sequence).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5]);
    assert_eq!(engine.journal().since(4).count(), 2);
}

/// What an earlier process would know of a machine: the stages it saw reached.
fn reached_stages(engine: &Engine, id: &ResourceId) -> BTreeMap<StageName, SimTime> {
    let resource = engine.get(id).expect("the machine was created");
    resource
        .stages()
        .filter_map(|(name, state)| match state {
            StageState::Reached { at } => Some((name.clone(), *at)),
            _ => None,
        })
        .collect()
}

fn names() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::btree_set("[a-z]{1,4}", 1..8).prop_map(|names| names.into_iter().collect())
}

proptest! {
    #[test]
    fn order_of_arrival_changes_no_result(names in names(), salt in any::<u64>()) {
        let mut shuffled = names.clone();
        shuffled.sort_by_key(|name| name.bytes().fold(salt, |hash, byte| hash.rotate_left(7) ^ u64::from(byte)));
        let run = |order: &[String]| {
            let mut engine = engine();
            for name in order {
                ask(&mut engine, at(1), Command::Create(machine(name, &jittered(3)))).unwrap();
            }
            let events = engine.poll(at(1000));
            (events, engine.digest())
        };
        prop_assert_eq!(run(&names), run(&shuffled));
    }

    #[test]
    fn extra_polls_and_repeated_creates_change_no_result(
        names in names(), polls in proptest::collection::vec(0u64..40, 0..30),
    ) {
        let mut once = engine();
        let mut often = engine();
        for name in &names {
            ask(&mut once, at(1), Command::Create(machine(name, &jittered(3)))).unwrap();
            ask(&mut often, at(1), Command::Create(machine(name, &jittered(3)))).unwrap();
        }
        let mut polls = polls;
        polls.sort_unstable();
        let mut seen = Vec::new();
        for poll in polls {
            seen.extend(often.poll(at(poll)));
            for name in &names {
                ask(&mut often, at(poll), Command::Create(machine(name, &jittered(3)))).unwrap();
            }
        }
        seen.extend(often.poll(at(1000)));
        prop_assert_eq!(once.poll(at(1000)), seen);
        prop_assert_eq!(once.digest(), often.digest());
    }

    #[test]
    fn restart_in_the_middle_changes_no_deadline(names in names(), stop in 0u64..20) {
        let mut before = engine();
        for name in &names {
            ask(&mut before, at(1), Command::Create(machine(name, &jittered(3)))).unwrap();
        }
        before.poll(at(stop));
        let mut after = engine();
        for name in names.iter().rev() {
            let command = Command::Adopt {
                spec: machine(name, &jittered(3)),
                created: at(1),
                reached: reached_stages(&before, &id(name)),
            };
            ask(&mut after, at(stop + 5), command).unwrap();
        }
        before.poll(at(1000));
        after.poll(at(1000));
        prop_assert_eq!(before.digest(), after.digest());
    }

    #[test]
    fn events_come_in_order_and_none_is_late(names in names(), polls in proptest::collection::vec(0u64..40, 1..20)) {
        let mut engine = engine();
        for name in &names {
            ask(&mut engine, at(0), Command::Create(machine(name, &jittered(4)))).unwrap();
        }
        let mut polls = polls;
        polls.sort_unstable();
        for poll in polls {
            let events = engine.poll(at(poll));
            let keys: Vec<_> = events.iter().map(|e| (e.at, e.id.clone(), e.generation)).collect();
            let mut sorted = keys.clone();
            sorted.sort();
            prop_assert_eq!(keys, sorted);
            prop_assert!(events.iter().all(|event| event.at <= at(poll)));
            prop_assert!(engine.next_deadline().is_none_or(|deadline| deadline > at(poll)));
        }
    }
}
