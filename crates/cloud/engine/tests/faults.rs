//! Faults: what they hit, how often, and what they leave alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nephele_engine::{
    ActiveEffect, Config, Cursor, Effect, Engine, Entry, Fault, Hit, Journal, Latency, Line, NamespaceQuotas,
    Notice, Operation, Outcome, Record, Replay, Request, ResourceSpec, Seed,
};
use nephele_model::{
    Budget, Caller, CloudError, ErrorClass, FailureReason, FaultPhase, FaultRecord, Market, Matches, Odds,
    Requirement, ResourceId, ResourceKind, Schedule, SeedKey, Selector, SimTime, Verb, VisibleEffect,
};
use proptest::prelude::*;

use crate::{
    cloud::{Watched, ask, at, deregister, engine, id, load_balancer, machine, operation, register},
    lags::put_cloud,
};

pub(crate) fn fault(name: &str) -> ResourceId {
    ResourceId::fault("default", name)
}

fn fails(reason: FailureReason) -> Effect {
    Effect::Fail {
        reason,
        message: String::new(),
        retry_after: Duration::from_secs(5),
    }
}

/// Fails every operation that it matches.
fn failing(matches: Matches) -> Fault {
    Fault {
        matches,
        effect: fails(FailureReason::Throttled),
        budget: Budget::default(),
    }
}

pub(crate) fn put(name: &str, fault_of: Fault) -> Request {
    Request::PutFault {
        id: fault(name),
        fault: Box::new(fault_of),
        record: began(SimTime::from_millis(u64::MAX)),
        affected_ids: Vec::new(),
        notices: Vec::new(),
        is_cut: false,
        skipped: Vec::new(),
        leaked: Vec::new(),
        paused: false,
    }
}

fn began(began: SimTime) -> FaultRecord {
    FaultRecord {
        began,
        ..FaultRecord::default()
    }
}

fn create(name: &str) -> Request {
    Request::Create(machine(name, &Latency::ZERO))
}

fn refused(fault: &str, reason: FailureReason) -> CloudError {
    CloudError::Fault {
        fault: fault.into(),
        reason,
        message: String::new(),
        retry_after: Duration::from_secs(5),
    }
}

fn names<T: Ord, const N: usize>(values: [T; N]) -> BTreeSet<T> {
    BTreeSet::from(values)
}

#[test]
fn a_fault_fails_what_it_matches_until_it_is_deleted() {
    let mut engine = engine();
    ask(&mut engine, at(1), put("f", failing(Matches::default()))).unwrap();
    let error = ask(&mut engine, at(2), create("m")).unwrap_err();
    assert_eq!(error, refused("f", FailureReason::Throttled));
    assert_eq!(error.class(), ErrorClass::RetryAfter(Duration::from_secs(5)));
    assert_eq!(
        (error.category(), error.to_string()),
        ("Throttled", "the account calls too often (Fault f)".into())
    );
    let state = engine.fault(&fault("f")).unwrap();
    assert_eq!(
        state.decisions.record,
        FaultRecord {
            began: at(1),
            matched: 1,
            hits: 1,
            windows: 0
        }
    );
    let hit = Hit {
        at: at(2),
        operation: Some(Verb::CreateInstance),
        target: id("m"),
    };
    assert_eq!(state.last_hits.newest_first().collect::<Vec<_>>(), [&hit]);
    assert_eq!(
        ask(&mut engine, at(3), Request::Delete(fault("f"))),
        Ok(Outcome::Accepted)
    );
    assert_eq!(ask(&mut engine, at(4), create("m")), Ok(Outcome::Accepted));
    assert_eq!(
        ask(&mut engine, at(5), Request::Delete(fault("f"))),
        Ok(Outcome::AlreadyDone)
    );
}

/// Callers repeat their requests all the time. Only those count that would change something.
#[test]
fn a_repetition_that_changes_nothing_is_not_hit() {
    let mut engine = engine();
    let balancer = || Request::Create(ResourceSpec::new(load_balancer("lb")));
    for request in [create("m"), balancer(), register("lb", "m", "vm")] {
        ask(&mut engine, at(0), request).unwrap();
    }
    ask(&mut engine, at(1), put("f", failing(Matches::default()))).unwrap();
    let repeated = [
        create("m"),
        balancer(),
        register("lb", "m", "vm"),
        deregister("lb", "n"),
        Request::Delete(id("n")),
    ];
    let answers = repeated.map(|request| ask(&mut engine, at(2), request));
    assert_eq!(answers, [const { Ok(Outcome::AlreadyDone) }; 5]);
    // Reads are hit only by a fault that names them.
    assert_eq!(
        ask(&mut engine, at(2), Request::Describe(id("m"))),
        Ok(Outcome::Accepted)
    );
    for request in [
        register("lb", "m", "node"),
        deregister("lb", "m"),
        Request::Delete(id("m")),
        Request::Delete(load_balancer("lb")),
    ] {
        assert_eq!(
            ask(&mut engine, at(3), request),
            Err(refused("f", FailureReason::Throttled))
        );
    }
    let hits = engine
        .fault(&fault("f"))
        .unwrap()
        .last_hits
        .newest_first()
        .filter_map(|hit| hit.operation)
        .collect::<Vec<_>>();
    use Verb::{DeleteInstance, DeleteLoadBalancer, DeregisterBackend, RegisterBackend};
    assert_eq!(
        hits,
        [
            DeleteLoadBalancer,
            DeleteInstance,
            DeregisterBackend,
            RegisterBackend
        ]
    );
}

#[test]
fn every_field_of_a_match_has_to_fit() {
    let label = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let has = |key: &str, value: &str| Selector(vec![Requirement::In(key.into(), names([value.to_owned()]))]);
    let subject = ResourceSpec {
        zone: Some("a".into()),
        region: Some("north".into()),
        instance_type: Some("m.large".into()),
        labels: label("role", "worker"),
        ..machine("m", &Latency::ZERO)
    };
    let answer = |matches: Matches, request: Request| {
        let mut engine = engine();
        let balancer = ResourceSpec {
            labels: label("team", "blue"),
            ..ResourceSpec::new(load_balancer("lb"))
        };
        ask(&mut engine, at(0), Request::Create(balancer)).unwrap();
        ask(&mut engine, at(0), put("f", failing(matches))).unwrap();
        let caller = Caller::Machine.as_str().to_owned();
        let outcome = engine.apply(Operation {
            caller,
            ..operation(at(1), request)
        });
        matches!(outcome, Outcome::Refused(_))
    };
    let fitting = Matches {
        operations: names([Verb::CreateInstance]),
        callers: names([Caller::Machine]),
        pools: BTreeSet::new(),
        names: names(["m".into()]),
        zones: names(["a".into()]),
        regions: names(["north".into()]),
        instance_types: names(["m.large".into()]),
        markets: names([Market::OnDemand]),
        cluster: has("team", "blue"),
        instance: has("role", "worker"),
    };
    assert!(answer(fitting.clone(), Request::Create(subject.clone())));
    let others = [
        Matches {
            operations: names([Verb::DeleteInstance]),
            ..fitting.clone()
        },
        Matches {
            callers: names([Caller::Cluster]),
            ..fitting.clone()
        },
        Matches {
            names: names(["n".into()]),
            ..fitting.clone()
        },
        Matches {
            zones: names(["b".into()]),
            ..fitting.clone()
        },
        Matches {
            regions: names(["south".into()]),
            ..fitting.clone()
        },
        Matches {
            instance_types: names(["m.small".into()]),
            ..fitting.clone()
        },
        Matches {
            cluster: has("team", "red"),
            ..fitting.clone()
        },
        Matches {
            instance: has("role", "control-plane"),
            ..fitting.clone()
        },
    ];
    for other in others {
        assert!(
            !answer(other.clone(), Request::Create(subject.clone())),
            "{other:?}"
        );
    }
    // A load balancer has no zone, type or labels of an instance.
    let second = || {
        Request::Create(ResourceSpec {
            labels: label("team", "blue"),
            ..ResourceSpec::new(load_balancer("second"))
        })
    };
    assert!(answer(
        Matches {
            cluster: has("team", "blue"),
            ..Matches::default()
        },
        second()
    ));
    for instances in [
        Matches {
            zones: names(["a".into()]),
            ..Matches::default()
        },
        Matches {
            instance_types: names(["m.large".into()]),
            ..Matches::default()
        },
        Matches {
            instance: Selector(vec![Requirement::DoesNotExist("role".into())]),
            ..Matches::default()
        },
    ] {
        assert!(!answer(instances.clone(), second()), "{instances:?}");
    }
}

#[test]
fn a_region_fits_its_instances_and_its_load_balancers_and_nothing_without_a_region() {
    let refused = |spec: ResourceSpec, region: Option<&str>| {
        let mut engine = engine();
        let matches = Matches {
            regions: names(["north".into()]),
            ..Matches::default()
        };
        ask(&mut engine, at(0), put("f", failing(matches))).unwrap();
        let create = Request::Create(ResourceSpec {
            region: region.map(str::to_owned),
            ..spec
        });
        ask(&mut engine, at(1), create).is_err()
    };
    for spec in [
        machine("m", &Latency::ZERO),
        ResourceSpec::new(load_balancer("lb")),
    ] {
        let answers = [Some("north"), Some("south"), None].map(|region| refused(spec.clone(), region));
        assert_eq!(answers, [true, false, false], "{:?}", spec.id.kind);
    }
}

#[test]
fn another_account_is_left_alone() {
    let mut engine = engine();
    ask(&mut engine, at(0), put("f", failing(Matches::default()))).unwrap();
    for namespace in ["a", "z"] {
        let spec = ResourceSpec::new(ResourceId {
            namespace: namespace.into(),
            ..id("m")
        });
        assert_eq!(
            ask(&mut engine, at(1), Request::Create(spec)),
            Ok(Outcome::Accepted)
        );
    }
}

#[test]
fn a_budget_skips_counts_and_ends() {
    let mut engine = engine();
    let budget = Budget {
        skip: 1,
        count: Some(2),
        lasts: Some(Duration::from_secs(60)),
        ..Budget::default()
    };
    ask(
        &mut engine,
        at(1),
        put(
            "f",
            Fault {
                budget: budget.clone(),
                ..failing(Matches::default())
            },
        ),
    )
    .unwrap();
    let answers = ["a", "b", "c", "d"].map(|name| ask(&mut engine, at(2), create(name)).is_ok());
    assert_eq!(answers, [true, false, false, true]);
    let phase = |engine: &Engine, now| engine.fault(&fault("f")).unwrap().phase(now);
    assert_eq!(
        (phase(&engine, at(60)), phase(&engine, at(61))),
        (FaultPhase::Exhausted, FaultPhase::Expired)
    );
    // More hits are allowed, and those that were made count.
    let budget = Budget {
        count: Some(3),
        ..budget
    };
    ask(
        &mut engine,
        at(3),
        put(
            "f",
            Fault {
                budget,
                ..failing(Matches::default())
            },
        ),
    )
    .unwrap();
    assert_eq!(phase(&engine, at(3)), FaultPhase::Active);
    let answers = ["e", "f"].map(|name| ask(&mut engine, at(4), create(name)).is_ok());
    assert_eq!(answers, [false, true]);
    engine.poll(at(5));
    assert_eq!(engine.next_deadline(), Some(at(61)));
    engine.poll(at(70));
    let ended = Record::FaultEnded {
        at: at(61),
        fault: fault("f"),
    };
    assert_eq!(
        engine.journal().since(1).last().map(|entry| entry.record.clone()),
        Some(ended)
    );
    assert_eq!(
        (engine.next_deadline(), phase(&engine, at(70))),
        (None, FaultPhase::Expired)
    );
}

#[test]
fn the_first_fault_by_name_that_hits_decides() {
    let mut engine = engine();
    let fails = |reason| Fault {
        effect: fails(reason),
        ..failing(Matches::default())
    };
    let once = Budget {
        count: Some(1),
        ..Budget::default()
    };
    ask(&mut engine, at(0), put("b", fails(FailureReason::InternalError))).unwrap();
    ask(
        &mut engine,
        at(0),
        put(
            "a",
            Fault {
                budget: once,
                ..fails(FailureReason::Unauthorized)
            },
        ),
    )
    .unwrap();
    let reasons = [1, 6].map(|seconds| ask(&mut engine, at(seconds), create("m")).unwrap_err());
    assert_eq!(
        reasons,
        [
            refused("a", FailureReason::Unauthorized),
            refused("b", FailureReason::InternalError)
        ]
    );
    assert_eq!(
        engine.fault(&fault("b")).unwrap().decisions.record.matched,
        1,
        "it was not asked about the first call"
    );
}

#[test]
fn an_answer_that_is_lost_leaves_the_operation_done() {
    let mut engine = engine();
    let lost = Fault {
        effect: fails(FailureReason::LostAnswer),
        ..failing(Matches::default())
    };
    ask(&mut engine, at(0), put("f", lost)).unwrap();
    assert_eq!(
        ask(&mut engine, at(1), create("m")),
        Err(refused("f", FailureReason::LostAnswer))
    );
    assert!(engine.get(&id("m")).is_some());
    let recorded = engine.journal().since(2).next().map(|entry| entry.record.clone());
    let operation = Box::new(operation(at(1), create("m")));
    assert_eq!(
        recorded,
        Some(Record::Operation {
            operation,
            outcome: Outcome::Accepted,
            faults: vec!["f".into()],
            is_hit: true
        })
    );
    assert_eq!(ask(&mut engine, at(2), create("m")), Ok(Outcome::AlreadyDone));
}

#[test]
fn a_delayed_operation_waits_once() {
    let mut engine = engine();
    let slow = Fault {
        effect: Effect::Delay(Latency::Fixed(Duration::from_secs(10))),
        ..failing(Matches::default())
    };
    ask(&mut engine, at(0), put("f", slow)).unwrap();
    let until = Outcome::Delayed { until: at(11) };
    assert_eq!(ask(&mut engine, at(1), create("m")), Ok(until.clone()));
    assert_eq!(ask(&mut engine, at(10), create("m")), Ok(until));
    assert_eq!(ask(&mut engine, at(11), create("m")), Ok(Outcome::Accepted));
    assert_eq!(engine.fault(&fault("f")).unwrap().decisions.record.hits, 1);
    // The next call of another operation waits on its own.
    assert_eq!(
        ask(&mut engine, at(20), Request::Delete(id("m"))),
        Ok(Outcome::Delayed { until: at(30) })
    );
    ask(&mut engine, at(21), Request::Delete(fault("f"))).unwrap();
    assert_eq!(
        ask(&mut engine, at(21), Request::Delete(id("m"))),
        Ok(Outcome::Accepted)
    );
}

/// Otherwise each event of a machine, which lets its reconciler ask again, would use up a part of the budget.
#[test]
fn a_caller_that_asks_earlier_than_it_was_told_gets_the_same_answer_and_does_not_count() {
    let mut engine = engine();
    ask(&mut engine, at(0), put("f", failing(Matches::default()))).unwrap();
    let tell_retry = |error: CloudError| match error.class() {
        ErrorClass::RetryAfter(after) => after.as_secs(),
        _ => 0,
    };
    let mut told = |seconds, name| tell_retry(ask(&mut engine, at(seconds), create(name)).unwrap_err());
    assert_eq!([1, 1, 4, 5].map(|seconds| told(seconds, "m")), [5, 5, 2, 1]);
    assert_eq!(told(5, "other"), 5);
    assert_eq!([6, 7].map(|seconds| told(seconds, "m")), [5, 4]);
    let record = engine.fault(&fault("f")).unwrap().decisions.record;
    assert_eq!((record.matched, record.hits), (3, 3));
    let journaled = engine.journal().since(1).filter(|entry| {
        let Record::Operation { operation, .. } = &entry.record else {
            return false;
        };
        matches!(operation.request, Request::Create(_))
    });
    assert_eq!(journaled.count(), 3);
    // Another reason is another answer, and without the fault there is none.
    let other = Fault {
        effect: fails(FailureReason::QuotaExceeded),
        ..failing(Matches::default())
    };
    ask(&mut engine, at(8), put("f", other)).unwrap();
    assert_eq!(
        ask(&mut engine, at(8), create("m")),
        Err(refused("f", FailureReason::QuotaExceeded))
    );
    ask(&mut engine, at(9), Request::Delete(fault("f"))).unwrap();
    assert_eq!(ask(&mut engine, at(9), create("m")), Ok(Outcome::Accepted));
}

/// More calls than a fault remembers, beside another fault that stays.
#[test]
fn refused_calls_without_number_are_forgotten_with_their_fault() {
    let mut engine = Engine::new(Config::default(), Seed::new("amber-otter-lamp"));
    let mut ask = |seconds, request| engine.apply(operation(at(seconds), request));
    let slow = Fault {
        effect: Effect::Delay(Latency::Fixed(Duration::from_secs(1))),
        ..failing(Matches {
            names: names(["none".to_owned()]),
            ..Matches::default()
        })
    };
    ask(0, put("other", slow));
    ask(0, put("f", failing(Matches::default())));
    let create = |index: u32| create(&format!("m{index}"));
    // Each round begins when the answers of the one before are over, with other machines.
    for (seconds, indices) in [(1, 0..1500), (10, 476..1500), (20, 0..1)] {
        for index in indices {
            assert!(matches!(ask(seconds, create(index)), Outcome::Refused(_)));
        }
    }
    ask(21, Request::Delete(fault("f")));
    for index in 0..1500 {
        assert_eq!(ask(22, create(index)), Outcome::Accepted);
        assert_eq!(
            ask(23, Request::Delete(id(&format!("m{index}")))),
            Outcome::Accepted
        );
    }
}

/// Otherwise reads, which are repeated all the time, would push other records out of the journal for good.
#[test]
fn a_fault_that_cannot_hit_any_more_leaves_reads_out_of_the_journal() {
    let mut engine = engine();
    ask(&mut engine, at(0), create("m")).unwrap();
    let matches = Matches {
        operations: names([Verb::DescribeInstance]),
        ..Matches::default()
    };
    let budget = Budget {
        count: Some(1),
        ..Budget::default()
    };
    ask(
        &mut engine,
        at(0),
        put(
            "f",
            Fault {
                budget,
                ..failing(matches)
            },
        ),
    )
    .unwrap();
    engine.poll(at(0));
    let before = engine.journal().since(1).count();
    ask(&mut engine, at(1), Request::Describe(id("m"))).unwrap_err();
    for seconds in 6..9 {
        ask(&mut engine, at(seconds), Request::Describe(id("m"))).unwrap();
    }
    assert_eq!(engine.journal().since(1).count() - before, 1);
    assert_eq!(engine.fault(&fault("f")).unwrap().decisions.record.matched, 1);
}

#[test]
fn a_fault_does_not_cost_a_place_in_the_line_for_room() {
    let config = Config {
        quotas: NamespaceQuotas {
            instances_max: Some(1),
            ..NamespaceQuotas::default()
        },
        ..Config::default()
    };
    let mut engine = Watched::new(config, "amber-otter-lamp");
    for name in ["first", "second", "third"] {
        let _ = ask(&mut engine, at(0), create(name));
    }
    ask(&mut engine, at(1), put("f", failing(Matches::default()))).unwrap();
    ask(&mut engine, at(1), create("second")).unwrap_err();
    ask(&mut engine, at(2), Request::Delete(fault("f"))).unwrap();
    assert_eq!(
        engine.waiting().map(|id| id.name.as_str()).collect::<Vec<_>>(),
        ["second", "third"]
    );
}

/// As after a restart of the manager: what a fault has done is in the status of its object.
#[test]
fn a_fault_continues_where_an_earlier_process_left_it() {
    let budget = Budget {
        skip: 2,
        count: Some(3),
        lasts: Some(Duration::from_secs(60)),
        ..Budget::default()
    };
    let fault_of = Fault {
        budget,
        ..failing(Matches::default())
    };
    let mut engine = engine();
    let record = FaultRecord {
        began: at(10),
        matched: 4,
        hits: 2,
        windows: 0,
    };
    let put = Request::PutFault {
        id: fault("f"),
        fault: Box::new(fault_of),
        record,
        affected_ids: Vec::new(),
        notices: Vec::new(),
        is_cut: false,
        skipped: Vec::new(),
        leaked: Vec::new(),
        paused: false,
    };
    ask(&mut engine, at(50), put.clone()).unwrap();
    assert_eq!(ask(&mut engine, at(51), put), Ok(Outcome::AlreadyDone));
    let answers = ["a", "b"].map(|name| ask(&mut engine, at(52), create(name)).is_ok());
    engine.poll(at(53));
    assert_eq!((answers, engine.next_deadline()), ([false, true], Some(at(70))));
}

fn budget() -> impl Strategy<Value = Budget> {
    let probability = prop_oneof![Just(Odds::new(1.0)), (0.0..1.0f64).prop_map(Odds::new)];
    let lasts = prop::option::of((1u64..40).prop_map(Duration::from_secs));
    (
        probability,
        0u64..4,
        prop::option::of(0u64..5),
        lasts,
        prop::option::weighted(0.4, schedule()),
    )
        .prop_map(|(probability, skip, count, lasts, schedule)| Budget {
            probability,
            skip,
            count,
            lasts,
            schedule,
        })
}

fn schedule() -> impl Strategy<Value = Schedule> {
    (2u64..30, 1u64..15, 0u64..10).prop_map(|(every, lasts, offset)| {
        let [every, lasts, offset] = [every, lasts.min(every - 1), offset].map(Duration::from_secs);
        Schedule { every, lasts, offset }
    })
}

pub(crate) fn effect() -> impl Strategy<Value = Effect> {
    let reasons = vec![
        FailureReason::Throttled,
        FailureReason::LostAnswer,
        FailureReason::Timeout,
    ];
    prop_oneof![
        3 => prop::sample::select(reasons).prop_map(fails),
        3 => active_effect().prop_map(Effect::Affect),
        1 => active_effect().prop_map(|active_effect| Effect::Outage { active_effect, retry_after: Duration::from_secs(5) }),
        1 => (0u64..9_000).prop_map(|millis| Effect::Delay(Latency::Fixed(Duration::from_millis(millis)))),
        2 => Just(Effect::Leak),
        2 => (0u64..9_000).prop_map(|millis| Effect::Lag(Latency::Fixed(Duration::from_millis(millis)))),
        2 => Just(Effect::Duplicate { retry_after: Duration::from_secs(5) }),
    ]
}

/// Something that is wrong with a resource, and perhaps what comes after it.
fn active_effect() -> impl Strategy<Value = ActiveEffect> {
    let lasts = (0u64..40_000).prop_map(Duration::from_millis);
    (
        visible_effect(),
        prop::option::weighted(0.3, (lasts, visible_effect())),
    )
        .prop_map(|(active_effect, notice)| {
            let notice = notice.map(|(lasts, then)| Box::new(Notice { lasts, then }));
            ActiveEffect {
                notice,
                ..active_effect
            }
        })
}

fn visible_effect() -> impl Strategy<Value = ActiveEffect> {
    let holds = prop::collection::btree_set(prop::sample::select(vec!["vm".into(), "node".into()]), 0..2);
    (
        prop_oneof![3 => Just(ResourceKind::Instance), 1 => Just(ResourceKind::LoadBalancer)],
        holds,
        any::<bool>(),
        0..8u8,
        prop::option::weighted(0.2, prop::sample::select(vec!["vm".into(), "node".into()])),
        prop::option::weighted(0.2, prop::sample::select(vec!["vm".into(), "node".into()])),
        prop::option::weighted(0.2, prop::sample::select(Market::ALL.to_vec())),
    )
        .prop_map(
            |(of, holds, is_down, finals, before, after, market)| ActiveEffect {
                of,
                among: None,
                before,
                after,
                visible_effect: VisibleEffect::NotReady,
                holds,
                is_down,
                is_final: finals == 0,
                market,
                notice: None,
            },
        )
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn any_fault() -> impl Strategy<Value = Fault> {
    let operations = prop::collection::btree_set(prop::sample::select(Verb::ALL.to_vec()), 0..4);
    let named = prop::collection::btree_set(prop::sample::select(NAMES.map(str::to_owned).to_vec()), 0..3);
    (operations, named, effect(), budget()).prop_map(|(operations, names, effect, budget)| Fault {
        matches: Matches {
            operations,
            names,
            ..Matches::default()
        },
        effect,
        budget,
    })
}

/// Requests about four machines, a load balancer and two faults, in order of time.
pub(crate) fn script() -> impl Strategy<Value = Vec<(SimTime, Request)>> {
    let request =
        (prop::sample::select(NAMES.to_vec()), 0..12u8, any_fault()).prop_map(|(name, which, fault_of)| {
            let fault_name = if name < "c" { "one" } else { "two" };
            match which {
                0 | 1 => Request::Create(machine(name, &Latency::Fixed(Duration::from_secs(3)))),
                2 => Request::Delete(id(name)),
                3 => Request::Describe(id(name)),
                4 => Request::Create(ResourceSpec::new(load_balancer("lb"))),
                5 => register("lb", name, "vm"),
                6 => deregister("lb", name),
                7 => put(fault_name, fault_of),
                8 => Request::DeleteLeaked(ResourceId::cloud("default", "")),
                9 => put_cloud(Duration::from_secs(fault_of.budget.skip)),
                10 => Request::Delete(load_balancer("lb")),
                _ => Request::Delete(fault(fault_name)),
            }
        });
    prop::collection::vec((0u64..60_000, request), 1..60).prop_map(|mut script| {
        script.sort_by_key(|(millis, _)| *millis);
        script
            .into_iter()
            .map(|(millis, request)| (SimTime::from_millis(millis), request))
            .collect()
    })
}

/// Later than the end of every fault; a schedule has no end, so not much later.
const END: SimTime = SimTime::from_millis(200_000);

pub(crate) fn keep(engine: &Engine, cursor: &mut Cursor, lines: &mut Vec<Line>) {
    let mut batch = Vec::with_capacity(Journal::CAPACITY);
    engine
        .journal()
        .read(cursor, &mut batch)
        .expect("tests make fewer records");
    lines.extend(batch.iter().map(|entry| Line::Record(Entry::clone(entry))));
}

proptest! {
    /// A kept journal says what faults did, and a replay makes the same decisions, also from a state in the middle.
    #[test]
    fn a_journal_with_faults_is_replayed_without_a_difference(
        script in script(), middle in 0..60usize,
    ) {
        let mut engine = engine();
        let mut lines = vec![Line::State(engine.state())];
        let mut cursor = engine.journal().end();
        for (step, (now, request)) in script.into_iter().enumerate() {
            if step == middle {
                lines.push(Line::State(engine.state()));
            }
            let _ = ask(&mut engine, now, request);
            keep(&engine, &mut cursor, &mut lines);
        }
        engine.poll(END);
        keep(&engine, &mut cursor, &mut lines);
        lines.push(Line::digest(&engine));
        let mut replay = Replay::default();
        for line in &lines {
            let text = serde_json::to_string(line).unwrap();
            prop_assert_eq!(replay.play(&serde_json::from_str(&text).unwrap()), Ok(()));
        }
        prop_assert_eq!(replay.engine().map(Engine::state), Some(engine.state()));
    }

    /// The journal names the fault of each call that was hit, and a fault keeps to its budget.
    #[test]
    fn a_fault_keeps_to_its_budget(script in script(), fault_of in any_fault()) {
        let mut engine = engine();
        ask(&mut engine, at(0), put("f", fault_of.clone())).unwrap();
        for (now, request) in script {
            if request.target().kind != fault("f").kind {
                let _ = ask(&mut engine, now, request);
            }
        }
        let FaultRecord { matched, hits, .. } = engine.fault(&fault("f")).unwrap().decisions.record;
        let Budget { skip, count, lasts, .. } = fault_of.budget;
        prop_assert!(hits <= matched.saturating_sub(skip));
        prop_assert!(count.is_none_or(|count| hits <= count));
        let mut hit = 0;
        let waits = match &fault_of.effect {
            // Each window decides again.
            _ if fault_of.budget.schedule.is_some() => Duration::ZERO,
            Effect::Fail { reason: FailureReason::LostAnswer, .. } => Duration::ZERO,
            Effect::Fail { retry_after, .. } | Effect::Outage { retry_after, .. } => *retry_after,
            _ => Duration::ZERO,
        };
        let mut last_hits = BTreeMap::new();
        for entry in engine.journal().since(1) {
            let Record::Operation { operation, faults, outcome, is_hit } = &entry.record else { continue };
            // Calls about backends are about their instances.
            let subject = match &operation.request {
                Request::RegisterBackend { instance, .. } | Request::DeregisterBackend { instance, .. } => id(instance),
                request => request.target().clone(),
            };
            if *outcome == Outcome::Accepted {
                // A resource that is gone is forgotten.
                last_hits.retain(|(_, hit), _| *hit != subject);
            }
            if !is_hit {
                continue;
            }
            if let Some(last) = last_hits.insert((operation.verb(), subject), operation.at) {
                prop_assert!(operation.at.since(last) >= waits, "{:?} is hit again too soon", operation);
            }
            prop_assert_eq!(faults, &["f".to_owned()]);
            prop_assert!(lasts.is_none_or(|lasts| operation.at < at(0) + lasts));
            hit += 1;
        }
        let keeps = match fault_of.effect {
            Effect::Fail { .. } | Effect::Delay(_) | Effect::Lag(_) | Effect::Leak | Effect::Duplicate { .. } => {
                hits == hit
            }
            // Resources are hit, too.
            Effect::Affect(_) => hit == 0,
            Effect::Outage { .. } => hits >= hit,
        };
        prop_assert!(keeps);
    }

    /// Draws depend on what is decided, not on the order of arrival or on random names.
    #[test]
    fn the_same_machines_are_hit_in_any_order(
        odds in 0.0..1.0f64, order in Just((0u32..12).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let hit = |order: &[u32], prefix: &str| -> BTreeSet<(u32, u32)> {
            let mut engine = engine();
            let budget = Budget { probability: Odds::new(odds), ..Budget::default() };
            ask(&mut engine, at(0), put("f", Fault { budget, ..failing(Matches::default()) })).unwrap();
            let mut hit = BTreeSet::new();
            for attempt in 0..3 {
                for ordinal in order {
                    let mut spec = machine(&format!("{prefix}-{ordinal}"), &Latency::ZERO);
                    spec.seed_key = Some(SeedKey { owner_set: "md".into(), ordinal: *ordinal });
                    if ask(&mut engine, at(1 + 5 * u64::from(attempt)), Request::Create(spec)).is_err() {
                        hit.insert((*ordinal, attempt));
                    }
                }
            }
            hit
        };
        let ordered: Vec<_> = (0..12).collect();
        prop_assert_eq!(hit(&ordered, "x"), hit(&order, "y"));
    }

    /// A fault changes no answer about anything that it does not match.
    #[test]
    fn nothing_else_is_touched(script in script(), named in prop::sample::select(NAMES.to_vec()), effect in effect()) {
        let run = |fault_of: Option<Fault>| {
            let mut engine = engine();
            if let Some(fault_of) = fault_of {
                ask(&mut engine, at(0), put("f", fault_of)).unwrap();
            }
            let mut answers = Vec::new();
            for (now, request) in script.clone() {
                let about = match &request {
                    Request::RegisterBackend { instance, .. } | Request::DeregisterBackend { instance, .. } => instance.clone(),
                    other => other.target().name.clone(),
                };
                if request.target().kind != fault("f").kind {
                    // Its answer says whether something leaked.
                    let about_all = matches!(request, Request::DeleteLeaked(_));
                    let answer = ask(&mut engine, now, request);
                    answers.extend((about != named && !about_all).then_some(answer));
                }
            }
            answers
        };
        let matches = Matches { names: names([named.to_owned()]), operations: Verb::ALL.into(), ..Matches::default() };
        prop_assert_eq!(run(None), run(Some(Fault { matches, effect, budget: Budget::default() })));
    }
}
