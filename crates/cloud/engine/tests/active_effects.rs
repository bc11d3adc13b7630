//! What faults do to running resources, and that it heals.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nephele_engine::{
    ActiveEffect, Effect, Engine, EventKind, Fault, Journal, Latency, Outcome, Previous, Record, Request,
    ResourceSpec, StageState,
};
use nephele_model::{
    Budget, CloudError, EtcdAlarm, FailureReason, FaultRecord, Matches, Odds, ResourceId, ResourceKind,
    SeedKey, SimTime, VisibleEffect,
};
use proptest::prelude::*;

use crate::{
    cloud::{Watched, ask, at, engine, id, load_balancer, machine, register, stage},
    faults::{fault, put, script},
};

/// Nothing is wrong yet.
fn odd() -> ActiveEffect {
    ActiveEffect::new(ResourceKind::Instance, VisibleEffect::NotReady)
}

fn affecting(active_effect: ActiveEffect) -> Fault {
    let matches = Matches::default();
    let budget = Budget::default();
    Fault {
        matches,
        effect: Effect::Affect(active_effect),
        budget,
    }
}

/// A machine with a number in a set, whose name says nothing about the number.
fn numbered(ordinal: u32, prefix: &str) -> ResourceSpec {
    let seed_key = Some(SeedKey {
        owner_set: "md".into(),
        ordinal,
    });
    ResourceSpec {
        seed_key,
        ..machine(&format!("{prefix}{}", (ordinal * 7) % 10), &Latency::ZERO)
    }
}

/// The numbers of the machines that are affected.
fn affected_ids(engine: &Engine) -> Vec<u32> {
    let affected_ids = engine
        .resources()
        .filter(|resource| !resource.active_effects.is_empty());
    let mut numbers: Vec<_> = affected_ids
        .filter_map(|resource| Some(resource.spec.seed_key.as_ref()?.ordinal))
        .collect();
    numbers.sort_unstable();
    numbers
}

fn in_service(engine: &Engine) -> Vec<&str> {
    engine.in_service(&load_balancer("lb")).collect()
}

/// Journals have the symptom as a text in JSON, and digests are made of this text, so neither may change.
#[test]
fn a_symptom_is_written_as_its_text() {
    let full = ActiveEffect::new(
        ResourceKind::Instance,
        VisibleEffect::EtcdAlarm(EtcdAlarm::NoSpace),
    );
    let text = r#"{"of":"Instance","among":null,"before":null,"symptom":"{\"EtcdAlarm\":\"NoSpace\"}","holds":[],"is_down":false,"is_final":false}"#;
    assert_eq!(serde_json::to_string(&full).unwrap(), text);
    assert_eq!(serde_json::from_str::<ActiveEffect>(text).unwrap(), full);
    let mut engine = engine();
    ask(&mut engine, at(0), Request::Create(machine("m", &Latency::ZERO))).unwrap();
    ask(&mut engine, at(1), put("f", affecting(full))).unwrap();
    let digest: String = engine.digest()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(digest, "59128a8d50910010");
}

#[test]
fn a_machine_that_is_down_gets_no_requests_until_the_fault_is_deleted() {
    let mut engine = engine();
    let balancer = Request::Create(ResourceSpec::new(load_balancer("lb")));
    for request in [
        Request::Create(machine("m", &Latency::ZERO)),
        balancer,
        register("lb", "m", "api-server"),
    ] {
        ask(&mut engine, at(0), request).unwrap();
    }
    assert_eq!(
        in_service(&{
            engine.poll(at(1));
            engine.clone()
        }),
        ["m"]
    );
    let down = ActiveEffect {
        is_down: true,
        ..odd()
    };
    ask(&mut engine, at(2), put("f", affecting(down.clone()))).unwrap();
    assert_eq!(
        engine.get(&id("m")).unwrap().active_effects,
        BTreeMap::from([("f".to_owned(), down.clone())])
    );
    assert_eq!(in_service(&engine), [""; 0]);
    ask(&mut engine, at(3), Request::Delete(fault("f"))).unwrap();
    assert_eq!(in_service(&engine), ["m"]);
    let kinds: Vec<_> = engine
        .poll(at(3))
        .into_iter()
        .map(|event| (event.at, event.kind))
        .collect();
    let changed = |active_effect| EventKind::BecameAffected {
        fault: "f".into(),
        active_effect,
    };
    assert_eq!(
        kinds,
        [
            (at(2), changed(Some(down))),
            (at(2), EventKind::BackendOutOfService("m".into())),
            (at(3), changed(None)),
            (at(3), EventKind::BackendInService("m".into())),
        ]
    );
}

#[test]
fn a_stage_that_is_held_ends_when_the_fault_is_over() {
    let mut engine = engine();
    let budget = Budget {
        lasts: Some(Duration::from_secs(60)),
        ..Budget::default()
    };
    let held = ActiveEffect {
        holds: BTreeSet::from(["node".into()]),
        ..odd()
    };
    ask(
        &mut engine,
        at(0),
        put(
            "f",
            Fault {
                budget,
                ..affecting(held)
            },
        ),
    )
    .unwrap();
    ask(
        &mut engine,
        at(0),
        Request::Create(machine("m", &Latency::Fixed(Duration::from_secs(10)))),
    )
    .unwrap();
    engine.poll(at(50));
    let state = |engine: &Watched| {
        let stages = engine.get(&id("m")).unwrap().stages();
        stages
            .map(|(name, state)| (name.as_str().to_owned(), state.clone()))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(state(&engine)["vm"], StageState::Reached { at: at(10) });
    assert_eq!(
        state(&engine)["node"],
        StageState::Running {
            since: at(10),
            due: Some(at(20))
        }
    );
    engine.poll(at(100));
    assert_eq!(state(&engine)["node"], StageState::Reached { at: at(60) });
    assert_eq!(state(&engine)["etcd"], StageState::Reached { at: at(70) });
}

#[test]
fn a_hold_passes_over_machines_that_have_come_further() {
    let mut engine = engine();
    let budget = Budget {
        count: Some(1),
        ..Budget::default()
    };
    let held = ActiveEffect {
        holds: BTreeSet::from(["node".into()]),
        ..odd()
    };
    ask(&mut engine, at(0), Request::Create(numbered(0, "old"))).unwrap();
    engine.poll(at(10));
    ask(
        &mut engine,
        at(20),
        put(
            "f",
            Fault {
                budget,
                ..affecting(held)
            },
        ),
    )
    .unwrap();
    for ordinal in [1, 2] {
        ask(&mut engine, at(30), Request::Create(numbered(ordinal, "new"))).unwrap();
    }
    // A change of the old machine lets the fault look at it again.
    let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    let changed = ResourceSpec {
        labels,
        ..numbered(0, "old")
    };
    ask(&mut engine, at(40), Request::Create(changed)).unwrap();
    let record = engine.fault(&fault("f")).unwrap().decisions.record;
    assert_eq!(
        (affected_ids(&engine), record.matched, record.hits),
        (vec![1], 1, 1)
    );
}

#[test]
fn a_fault_that_has_to_come_before_a_stage_passes_over_machines_that_have_reached_it() {
    let mut engine = engine();
    let budget = Budget {
        count: Some(2),
        ..Budget::default()
    };
    let early = ActiveEffect {
        before: Some("node".into()),
        ..odd()
    };
    let slow = |ordinal| ResourceSpec {
        seed_key: Some(SeedKey {
            owner_set: "md".into(),
            ordinal,
        }),
        ..machine(
            &format!("slow{ordinal}"),
            &Latency::Fixed(Duration::from_secs(10)),
        )
    };
    ask(&mut engine, at(0), Request::Create(numbered(0, "old"))).unwrap();
    ask(&mut engine, at(0), Request::Create(slow(1))).unwrap();
    engine.poll(at(5));
    ask(
        &mut engine,
        at(5),
        put(
            "f",
            Fault {
                budget,
                ..affecting(early)
            },
        ),
    )
    .unwrap();
    ask(&mut engine, at(6), Request::Create(slow(2))).unwrap();
    let record = engine.fault(&fault("f")).unwrap().decisions.record;
    assert_eq!(
        (affected_ids(&engine), record.matched, record.hits),
        (vec![1, 2], 2, 2)
    );
    // Those that were hit stay so when they reach the stage.
    engine.poll(at(100));
    assert_eq!(affected_ids(&engine), [1, 2]);
}

#[test]
fn a_fault_that_has_to_come_after_a_stage_hits_machines_when_they_reach_it() {
    let mut engine = engine();
    let budget = Budget {
        count: Some(2),
        ..Budget::default()
    };
    let late = ActiveEffect {
        after: Some("node".into()),
        ..odd()
    };
    let slow = |ordinal| ResourceSpec {
        seed_key: Some(SeedKey {
            owner_set: "md".into(),
            ordinal,
        }),
        ..machine(
            &format!("slow{ordinal}"),
            &Latency::Fixed(Duration::from_secs(10)),
        )
    };
    ask(&mut engine, at(0), Request::Create(numbered(0, "old"))).unwrap();
    ask(&mut engine, at(1), Request::Create(slow(1))).unwrap();
    ask(
        &mut engine,
        at(5),
        put(
            "f",
            Fault {
                budget,
                ..affecting(late.clone())
            },
        ),
    )
    .unwrap();
    ask(&mut engine, at(6), Request::Create(slow(2))).unwrap();
    assert_eq!(affected_ids(&engine), [0]);
    engine.poll(at(20));
    assert_eq!(affected_ids(&engine), [0], "neither has its Node");
    let events = engine
        .poll(at(22))
        .into_iter()
        .map(|event| (event.at, event.id.name, event.kind));
    let hit = EventKind::BecameAffected {
        fault: "f".into(),
        active_effect: Some(late),
    };
    let expected = [
        (at(21), "slow1".to_owned(), EventKind::StageReached("node".into())),
        (at(21), "slow1".to_owned(), hit),
    ];
    assert_eq!(events.collect::<Vec<_>>(), expected);
    engine.poll(at(100));
    let record = engine.fault(&fault("f")).unwrap().decisions.record;
    assert_eq!(
        (affected_ids(&engine), record.matched, record.hits),
        (vec![0, 1], 2, 2),
        "two is the most"
    );
}

#[test]
fn an_outage_refuses_new_machines_and_lets_the_old_ones_be_deleted() {
    let mut engine = engine();
    let in_zone = |name: &str, zone: &str| ResourceSpec {
        zone: Some(zone.into()),
        ..machine(name, &Latency::ZERO)
    };
    for (name, zone) in [("a1", "a"), ("b1", "b")] {
        ask(&mut engine, at(0), Request::Create(in_zone(name, zone))).unwrap();
    }
    let down = ActiveEffect {
        is_down: true,
        ..odd()
    };
    let effect = Effect::Outage {
        active_effect: down,
        retry_after: Duration::from_secs(7),
    };
    let matches = Matches {
        zones: BTreeSet::from(["a".into()]),
        ..Matches::default()
    };
    ask(
        &mut engine,
        at(1),
        put(
            "f",
            Fault {
                matches,
                effect,
                budget: Budget::default(),
            },
        ),
    )
    .unwrap();
    let refused = ask(&mut engine, at(1), Request::Create(in_zone("a2", "a"))).unwrap_err();
    let expected = CloudError::Fault {
        fault: "f".into(),
        reason: FailureReason::Unavailable,
        message: String::new(),
        retry_after: Duration::from_secs(7),
    };
    assert_eq!(
        (refused.to_string(), refused),
        ("the cloud is not available (Fault f)".into(), expected)
    );
    ask(&mut engine, at(1), Request::Create(in_zone("b2", "b"))).unwrap();
    let down = |name| !engine.get(&id(name)).unwrap().active_effects.is_empty();
    assert_eq!(["a1", "b1", "b2"].map(down), [true, false, false]);
    assert_eq!(
        ask(&mut engine, at(2), Request::Delete(id("a1"))),
        Ok(Outcome::Accepted)
    );
}

#[test]
fn a_load_balancer_that_changes_its_region_changes_the_faults_that_it_has() {
    let mut engine = engine();
    let balancer = |region: Option<&str>| {
        let region = region.map(str::to_owned);
        Request::Create(ResourceSpec {
            region,
            ..ResourceSpec::new(load_balancer("lb"))
        })
    };
    ask(&mut engine, at(0), balancer(Some("north"))).unwrap();
    for region in ["north", "south"] {
        let matches = Matches {
            regions: BTreeSet::from([region.into()]),
            ..Matches::default()
        };
        let effect = Effect::Affect(ActiveEffect::new(
            ResourceKind::LoadBalancer,
            VisibleEffect::NotReady,
        ));
        ask(
            &mut engine,
            at(1),
            put(
                region,
                Fault {
                    matches,
                    effect,
                    budget: Budget::default(),
                },
            ),
        )
        .unwrap();
    }
    let faults = |engine: &Engine| {
        let found = engine.get(&load_balancer("lb")).unwrap();
        found.active_effects.keys().cloned().collect::<Vec<_>>()
    };
    let mut seen = vec![faults(&engine)];
    for region in [Some("south"), None, Some("north")] {
        assert_eq!(ask(&mut engine, at(2), balancer(region)), Ok(Outcome::Accepted));
        seen.push(faults(&engine));
    }
    assert_eq!(seen, [vec!["north"], vec!["south"], vec![], vec!["north"]]);
}

#[test]
fn a_fault_that_becomes_one_of_operations_heals_what_it_had_hit() {
    let mut engine = engine();
    ask(&mut engine, at(0), Request::Create(machine("m", &Latency::ZERO))).unwrap();
    ask(&mut engine, at(1), put("f", affecting(odd()))).unwrap();
    let slow = Fault {
        effect: Effect::Delay(Latency::ZERO),
        ..affecting(odd())
    };
    ask(&mut engine, at(2), put("f", slow)).unwrap();
    assert_eq!(engine.get(&id("m")).unwrap().active_effects, BTreeMap::new());
    assert_eq!(engine.fault(&fault("f")).unwrap().affected_ids, BTreeSet::new());
}

#[test]
fn only_resources_with_the_stage_are_asked() {
    let mut engine = engine();
    let worker = ResourceSpec {
        stages: vec![stage("vm", &[], &Latency::ZERO)],
        ..machine("a", &Latency::ZERO)
    };
    for spec in [worker, machine("b", &Latency::ZERO)] {
        ask(&mut engine, at(0), Request::Create(spec)).unwrap();
    }
    let once = Budget {
        count: Some(1),
        ..Budget::default()
    };
    let of_etcd = ActiveEffect {
        among: Some("etcd".into()),
        ..odd()
    };
    ask(
        &mut engine,
        at(1),
        put(
            "f",
            Fault {
                budget: once,
                ..affecting(of_etcd)
            },
        ),
    )
    .unwrap();
    let is_odd = |name| !engine.get(&id(name)).unwrap().active_effects.is_empty();
    assert_eq!(["a", "b"].map(is_odd), [false, true]);
}

#[test]
fn what_is_final_stays() {
    let mut engine = engine();
    let gone = ActiveEffect {
        is_final: true,
        ..odd()
    };
    ask(&mut engine, at(0), put("f", affecting(gone.clone()))).unwrap();
    ask(&mut engine, at(0), Request::Create(machine("m", &Latency::ZERO))).unwrap();
    ask(&mut engine, at(1), Request::Delete(fault("f"))).unwrap();
    assert_eq!(
        engine.get(&id("m")).unwrap().active_effects,
        BTreeMap::from([("f".to_owned(), gone)])
    );
}

/// As after a restart of the manager: the status of the Fault says which machines it hit.
#[test]
fn after_a_restart_the_same_machines_are_affected() {
    let budget = Budget {
        skip: 1,
        count: Some(2),
        ..Budget::default()
    };
    let fault_of = Fault {
        budget,
        ..affecting(odd())
    };
    let mut engine = engine();
    for ordinal in 0..5 {
        ask(&mut engine, at(0), Request::Create(numbered(ordinal, "m"))).unwrap();
    }
    ask(&mut engine, at(1), put("f", fault_of.clone())).unwrap();
    assert_eq!(affected_ids(&engine), [1, 2]);
    let state = engine.fault(&fault("f")).unwrap();
    assert_eq!(
        state.decisions.record,
        FaultRecord {
            began: at(1),
            matched: 3,
            hits: 2,
            windows: 0
        }
    );
    let mut after = self::engine();
    let affected_before = state.affected_ids.iter().cloned().collect();
    let put = Request::PutFault {
        id: fault("f"),
        fault: Box::new(fault_of),
        record: state.decisions.record,
        affected_ids: affected_before,
        notices: Vec::new(),
        is_cut: false,
        skipped: Vec::new(),
        leaked: Vec::new(),
        paused: false,
    };
    ask(&mut after, at(9), put).unwrap();
    // Adopted in another order.
    for ordinal in [4, 2, 0, 3, 1] {
        let spec = numbered(ordinal, "m");
        let reached = BTreeMap::new();
        ask(
            &mut after,
            at(9),
            Request::Adopt {
                spec,
                previous: Box::new(Previous {
                    created: at(0),
                    reached,
                    ..Previous::default()
                }),
            },
        )
        .unwrap();
    }
    assert_eq!(affected_ids(&after), [1, 2]);
    assert_eq!(
        after.fault(&fault("f")).unwrap().decisions.record,
        state.decisions.record,
        "nothing is counted twice"
    );
    // A new machine is not hit: the fault is exhausted.
    ask(&mut after, at(9), Request::Create(numbered(5, "m"))).unwrap();
    assert_eq!(affected_ids(&after), [1, 2]);
}

proptest! {
    /// The machines are hit by their set and number, whatever their names are and in whatever order they came.
    #[test]
    fn the_same_machines_are_affected_in_any_order(
        odds in 0.0..1.0f64, skip in 0..3u64, count in prop::option::of(0..4u64),
        order in Just((0u32..10).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let hit = |order: &[u32], prefix: &str| {
            let mut engine = engine();
            for ordinal in order {
                ask(&mut engine, at(0), Request::Create(numbered(*ordinal, prefix))).unwrap();
            }
            let budget = Budget { probability: Odds::new(odds), skip, count, ..Budget::default() };
            ask(&mut engine, at(1), put("f", Fault { budget, ..affecting(odd()) })).unwrap();
            affected_ids(&engine)
        };
        let ordered: Vec<_> = (0..10).collect();
        prop_assert_eq!(hit(&ordered, "x"), hit(&order, "y"));
    }

    /// Readers of the journal know what is wrong with each resource and which backends are in service.
    #[test]
    fn the_journal_says_everything_that_is_wrong(script in script()) {
        let mut engine = engine();
        let mut wrong: BTreeMap<ResourceId, BTreeMap<String, ActiveEffect>> = BTreeMap::new();
        let mut serving: BTreeSet<String> = BTreeSet::new();
        let mut cursor = engine.journal().end();
        for (now, request) in script.into_iter().chain([(SimTime::from_millis(200_000), Request::Describe(id("x")))]) {
            let _ = ask(&mut engine, now, request);
            let mut batch = Vec::with_capacity(Journal::CAPACITY);
            engine.journal().read(&mut cursor, &mut batch).expect("tests make fewer records");
            for entry in batch {
                match &entry.record {
                    Record::Event(event) => match &event.kind {
                        EventKind::BecameAffected { fault, active_effect } => {
                            let wrong = wrong.entry(event.id.clone()).or_default();
                            match active_effect {
                                Some(active_effect) => drop(wrong.insert(fault.clone(), active_effect.clone())),
                                None => prop_assert!(wrong.remove(fault).is_some(), "healed twice"),
                            }
                        }
                        EventKind::BackendInService(name) => {
                            prop_assert!(serving.insert(name.clone()), "in service twice");
                        }
                        EventKind::BackendOutOfService(name) => {
                            prop_assert!(serving.remove(name), "out of service twice");
                        }
                        EventKind::Leaked { is_replaced: true, .. } | EventKind::Deleted => {
                            drop(wrong.remove(&event.id));
                        }
                        _ => {}
                    },
                    Record::Operation { operation, outcome: Outcome::Accepted, .. }
                        if matches!(&operation.request, Request::Delete(id) if id.kind == ResourceKind::LoadBalancer) =>
                    {
                        serving.clear();
                    }
                    _ => {}
                }
            }
            let known: BTreeMap<_, _> = engine
                .resources()
                .filter(|resource| !resource.active_effects.is_empty())
                .map(|resource| (resource.spec.id.clone(), resource.active_effects.clone()))
                .collect();
            wrong.retain(|_, wrong| !wrong.is_empty());
            prop_assert_eq!(&known, &wrong);
            prop_assert_eq!(in_service(&engine), serving.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
}
