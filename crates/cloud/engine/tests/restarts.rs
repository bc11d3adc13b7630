//! The law of restarts: a cloud that is put back from objects is the cloud that it was. Nothing counts, is refused or begins
//! again, and those who repeat their operations change nothing. [`Loss`] lists what may differ.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nephele_engine::{
    ActiveEffect, ApiLimits, ClockRecord, CloudSpec, Config, Effect, Engine, EventKind, Fault, FaultState,
    Latency, Loss, MistakesByCaller, Notice, NoticeEnd, Operation, Outcome, Previous, Record, Request,
    Resource, ResourceSpec, Seed, UpdateSpec, UpdateState,
};
use nephele_model::{
    Amount, Budget, CallRate, CloudError, FailureReason, FaultRecord, InstanceType, Market, Matches, Odds,
    ResourceId, ResourceKind, Schedule, SeedKey, SimTime, StageName, Verb, VisibleEffect,
};
use proptest::prelude::*;

use crate::{
    cloud::{ask, at, id, load_balancer, machine, operation, reached_stages, register},
    faults::{fault, put},
};

const SEED: &str = "amber-otter-lamp";

/// How many resources a status lists here. Two of the machines of a script are beyond.
const LISTED_MAX: usize = 3;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Two of the machines of a script have no region.
const REGIONS: [&str; 2] = ["north", "south"];

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn spec(name: &str, cloud_spec: &str, market: Market) -> ResourceSpec {
    let number = NAMES.iter().position(|known| *known == name).expect("a name");
    let mut spec = machine(
        name,
        &Latency::Uniform {
            min: seconds(1),
            max: seconds(6),
        },
    );
    spec.seed_key = Some(SeedKey {
        owner_set: "set".into(),
        ordinal: u32::try_from(number).expect("few"),
    });
    let region = REGIONS.get(number % 3).map(|&region| region.to_owned());
    ResourceSpec {
        cloud_spec: cloud_spec.into(),
        region,
        instance_type: Some("m.large".into()),
        market,
        ..spec
    }
}

fn balancer(cloud_spec: &str, region: Option<&str>) -> ResourceSpec {
    let region = region.map(str::to_owned);
    ResourceSpec {
        cloud_spec: cloud_spec.into(),
        region,
        ..ResourceSpec::new(load_balancer("lb"))
    }
}

fn cloud_spec() -> ResourceId {
    ResourceId::cloud("default", "north")
}

fn put_cloud(api: ApiLimits) -> Request {
    let large = InstanceType {
        name: "m.large".into(),
        price: Amount::parse("0.4").ok(),
        spot_price: Amount::parse("0.1").ok(),
        ..InstanceType::default()
    };
    Request::PutCloud {
        id: cloud_spec(),
        cloud_spec: Box::new(CloudSpec {
            instance_types: vec![large],
            api,
            ..CloudSpec::default()
        }),
        clock: None,
        leaked: Vec::new(),
        cost: None,
        caller_mistakes: MistakesByCaller::new(),
    }
}

fn active_effects() -> impl Strategy<Value = ActiveEffect> {
    let odd = || ActiveEffect::new(ResourceKind::Instance, VisibleEffect::NotReady);
    let then = |then: ActiveEffect| {
        Some(Box::new(Notice {
            lasts: seconds(7),
            then,
        }))
    };
    let stages = |names: &[&str]| names.iter().map(|&name| StageName::from(name)).collect();
    prop_oneof![
        Just(odd()),
        Just(ActiveEffect::new(
            ResourceKind::LoadBalancer,
            VisibleEffect::NotReady
        )),
        Just(ActiveEffect {
            is_down: true,
            ..odd()
        }),
        Just(ActiveEffect {
            holds: stages(&["node"]),
            ..odd()
        }),
        Just(ActiveEffect {
            before: Some("node".into()),
            ..odd()
        }),
        Just(ActiveEffect {
            after: Some("api-server".into()),
            is_down: true,
            ..odd()
        }),
        Just(ActiveEffect {
            is_final: true,
            is_down: true,
            ..odd()
        }),
        Just(ActiveEffect {
            notice: then(ActiveEffect::new(ResourceKind::Instance, VisibleEffect::Frozen)),
            ..odd()
        }),
        Just(ActiveEffect {
            notice: then(ActiveEffect {
                is_final: true,
                is_down: true,
                ..odd()
            }),
            market: Some(Market::Spot),
            ..odd()
        }),
    ]
}

fn effects() -> impl Strategy<Value = Effect> {
    let fails = |reason| Effect::Fail {
        reason,
        message: String::new(),
        retry_after: seconds(2),
    };
    prop_oneof![
        2 => Just(fails(FailureReason::Throttled)),
        1 => Just(Effect::Leak),
        1 => Just(Effect::Lag(Latency::Fixed(seconds(9)))),
        1 => Just(Effect::Delay(Latency::Fixed(seconds(4)))),
        1 => Just(Effect::Duplicate { retry_after: seconds(2) }),
        6 => active_effects().prop_map(Effect::Affect),
        1 => active_effects().prop_map(|active_effect| Effect::Outage { active_effect, retry_after: seconds(2) }),
    ]
}

fn budgets() -> impl Strategy<Value = Budget> {
    let schedule = (1u64..9, 0u64..6).prop_map(|(lasts, offset)| Schedule {
        every: seconds(10),
        lasts: seconds(lasts),
        offset: seconds(offset),
    });
    (
        prop_oneof![3 => Just(1.0), 1 => Just(0.5)],
        prop_oneof![3 => Just(0u64), 1 => 1u64..3],
        prop_oneof![3 => Just(None), 1 => (1u64..4).prop_map(Some)],
        prop_oneof![3 => Just(None), 1 => (1u64..30).prop_map(|lasts| Some(seconds(lasts)))],
        prop_oneof![3 => Just(None), 1 => schedule.prop_map(Some)],
    )
        .prop_map(|(probability, skip, count, lasts, schedule)| Budget {
            probability: Odds::new(probability),
            skip,
            // The definition allows no more than a status lists.
            count,
            lasts,
            schedule,
        })
}

fn faults() -> impl Strategy<Value = Fault> {
    let names = prop::collection::btree_set(prop::sample::select(&NAMES[..]), 0..3);
    let operations = prop::collection::btree_set(prop::sample::select(&Verb::ALL[..]), 0..3);
    let regions = prop_oneof![3 => Just(None), 1 => prop::sample::select(&REGIONS[..]).prop_map(Some)];
    let matches = (names, regions, operations);
    (effects(), budgets(), matches).prop_map(|(effect, budget, (names, regions, operations))| {
        let names = names.into_iter().map(str::to_owned).collect();
        let regions = regions.into_iter().map(str::to_owned).collect();
        let operations = match effect {
            Effect::Affect(_) | Effect::Outage { .. } | Effect::Duplicate { .. } => BTreeSet::new(),
            _ => operations,
        };
        Fault {
            matches: Matches {
                names,
                regions,
                operations,
                ..Matches::default()
            },
            effect,
            budget,
        }
    })
}

/// Operations in order of time.
#[derive(Clone)]
struct Script(Vec<(SimTime, Request)>);

impl std::fmt::Debug for Script {
    /// A line for each operation: the whole specifications would hide what matters.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, request) in &self.0 {
            write!(f, "\n  {:>6} ", at.as_millis())?;
            match request {
                Request::Create(ResourceSpec {
                    id,
                    cloud_spec,
                    market,
                    ..
                }) => {
                    write!(f, "Create {} of {cloud_spec:?}, {market:?}", id.name)?;
                }
                Request::PutFault { id, fault, .. } => write!(f, "PutFault {} {fault:?}", id.name)?,
                Request::PutCloud { cloud_spec, .. } => write!(f, "PutCatalog {:?}", cloud_spec.api)?,
                Request::RegisterBackend { instance, .. } => write!(f, "RegisterBackend {instance}")?,
                other => write!(f, "{} {other:?}", other.target().name)?,
            }
        }
        Ok(())
    }
}

fn script() -> impl Strategy<Value = Script> {
    let limits = || {
        let calls = Some(CallRate {
            per_second: 1,
            burst: 30,
        });
        prop_oneof![
            2 => Just(ApiLimits::default()),
            1 => Just(ApiLimits { calls, read_after_write_lag: Duration::ZERO }),
            1 => Just(ApiLimits { calls: None, read_after_write_lag: seconds(5) }),
        ]
    };
    let name = || prop::sample::select(&NAMES[..]);
    let market = || prop::sample::select(vec![Market::OnDemand, Market::Spot]);
    let of = || prop::sample::select(vec!["north", ""]);
    let region = || prop::option::of(prop::sample::select(&REGIONS[..]));
    let fault_name = || prop::sample::select(vec!["f", "g"]);
    let update = |name: &str, to: &str| {
        let latency = Latency::Fixed(seconds(6));
        Request::Update(
            id(name),
            UpdateSpec {
                name: to.into(),
                to: to.into(),
                since: at(1_000),
                latency,
            },
        )
    };
    let request = prop_oneof![
        8 => (name(), of(), market()).prop_map(|(name, of, market)| Request::Create(spec(name, of, market))),
        2 => (of(), region()).prop_map(|(of, region)| Request::Create(balancer(of, region))),
        4 => name().prop_map(|name| register("lb", name, "api-server")),
        1 => name().prop_map(|name| crate::cloud::deregister("lb", name)),
        2 => (name(), prop::sample::select(vec!["v2", "v3"])).prop_map(move |(name, to)| update(name, to)),
        2 => name().prop_map(|name| Request::Describe(id(name))),
        3 => name().prop_map(|name| Request::Delete(id(name))),
        1 => Just(Request::Delete(load_balancer("lb"))),
        7 => (fault_name(), faults()).prop_map(|(name, fault)| crate::faults::put(name, fault)),
        1 => fault_name().prop_map(|name| Request::Delete(fault(name))),
        2 => limits().prop_map(put_cloud),
    ];
    prop::collection::vec((1u64..40_000, request), 1..50).prop_map(|mut script| {
        script.sort_by_key(|(millis, _)| *millis);
        let script = script
            .into_iter()
            .map(|(millis, request)| (SimTime::from_millis(millis), request));
        Script(script.collect())
    })
}

/// What objects say about a resource.
fn previous(engine: &Engine, resource: &Resource) -> Previous {
    let id = &resource.spec.id;
    let update = resource.update.as_ref().and_then(|update| match update.state {
        UpdateState::Running { since, .. } => {
            let latency = Latency::Fixed(seconds(6));
            Some(UpdateSpec {
                name: update.name.clone(),
                to: update.name.clone(),
                since,
                latency,
            })
        }
        UpdateState::Over { .. } => None,
    });
    let beside = engine
        .resources()
        .filter(|other| other.spec.id.cluster == id.cluster);
    let load_balancers =
        beside.filter_map(|other| Some((other.spec.id.name.clone(), other.backends.get(&id.name)?.clone())));
    Previous {
        created: resource.created,
        reached: reached_stages(engine, id),
        hardware: Some(resource.hardware.clone()),
        deleting: resource.deleting.as_ref().map(|deletion| deletion.since),
        update,
        load_balancers: load_balancers.collect(),
        is_read_refused: false,
    }
}

/// What a status says about a fault.
fn known_fault(engine: &Engine, state: &FaultState) -> Request {
    let affected_ids: Vec<_> = state.affected_ids.iter().take(LISTED_MAX).cloned().collect();
    let active_effect = state.active_effect();
    let has_notice = active_effect.is_some_and(|active_effect| active_effect.notice.is_some());
    let notice = |id: &ResourceId| {
        let running = engine
            .get(id)
            .and_then(|found| found.notices.get(&state.id.name)?.time());
        let ends = running
            .or(state.notices.get(id).copied())
            .unwrap_or(NoticeEnd::OVER);
        NoticeEnd { id: id.clone(), ends }
    };
    Request::PutFault {
        id: state.id.clone(),
        fault: Box::new(state.fault.clone()),
        record: state.decisions.record,
        notices: affected_ids.iter().filter(|_| has_notice).map(notice).collect(),
        is_cut: state.affected_ids.len() > LISTED_MAX,
        affected_ids,
        skipped: state.decisions.skipped().iter().cloned().collect(),
        leaked: engine.leaked_by(&state.id).cloned().collect(),
        paused: false,
    }
}

/// A cloud that is put back from what objects say about another one, `now`.
fn put_back(before: &Engine, now: SimTime, are_balancers_last: bool) -> Engine {
    let mut after = Engine::new(Config::default(), Seed::new(SEED));
    let mut tell = |request: Request| {
        let outcome = after.apply(operation(now, request.clone()));
        assert!(matches!(outcome, Outcome::Accepted), "{request:?}: {outcome:?}");
    };
    for state in before.faults() {
        tell(known_fault(before, state));
    }
    for named in before.state().cloud_specs {
        let setting = named.cloud_spec.clock;
        let clock = before.clock(&named.id);
        tell(Request::PutCloud {
            clock: clock.map(|clock| ClockRecord {
                setting,
                since: clock.since,
                time: clock.time,
            }),
            leaked: before.leaked(&named.id).cloned().collect(),
            cost: before.cost(&named.id, now).map(Box::new),
            caller_mistakes: before.caller_mistakes(&named.id).cloned().unwrap_or_default(),
            id: named.id,
            cloud_spec: Box::new(named.cloud_spec),
        });
    }
    let order =
        |resource: &&Resource| (resource.spec.id.kind == ResourceKind::LoadBalancer) == are_balancers_last;
    let mut resources: Vec<_> = before.resources().collect();
    resources.sort_by_key(order);
    for resource in &resources {
        let ResourceSpec {
            id,
            cloud_spec,
            instance_type,
            zone,
            market,
            ..
        } = resource.spec.clone();
        let processors = resource.hardware.processors();
        let footprint = nephele_engine::Footprint {
            zone,
            cloud_spec,
            instance_type,
            processors,
            market,
        };
        tell(Request::Reserve { id, footprint });
    }
    for resource in resources {
        let previous = Box::new(previous(before, resource));
        tell(Request::Adopt {
            spec: resource.spec.clone(),
            previous,
        });
    }
    after
}

/// The operations that callers repeat after a restart.
fn repeated(engine: &Engine) -> Vec<Request> {
    let mut requests = Vec::new();
    for resource in engine.resources() {
        let id = &resource.spec.id;
        if resource.deleting.is_some() {
            requests.push(Request::Delete(id.clone()));
            continue;
        }
        requests.push(Request::Create(resource.spec.clone()));
        requests.extend(
            previous(engine, resource)
                .update
                .map(|update| Request::Update(id.clone(), update)),
        );
        for (name, stage) in &resource.backends {
            if engine
                .get(&crate::cloud::id(name))
                .is_some_and(|instance| instance.deleting.is_none())
            {
                requests.push(register(&id.name, name, stage.as_str()));
            }
        }
    }
    requests
}

/// What is lost, taken away from a cloud.
fn without_losses(engine: &Engine) -> Engine {
    let mut state = engine.state();
    for loss in Loss::ALL {
        match loss {
            Loss::LostAnswer => state
                .resources
                .iter_mut()
                .for_each(|resource| resource.unanswered = None),
            Loss::CountedCalls => state.calls.clear(),
            // No settings change in these scripts, and nothing else of the list is in a digest.
            Loss::ChangedSettings
            | Loss::ChangedFault
            | Loss::EarlierClock
            | Loss::Lag
            | Loss::Answers
            | Loss::PlacesInLine
            | Loss::LastSecond
            | Loss::ClockStep
            | Loss::StaleReads
            | Loss::FormerPorts
            | Loss::Durations => {}
        }
    }
    Engine::from_state(state).expect("it is the state of an engine")
}

/// What a fault has done and does.
type Done = (
    FaultRecord,
    BTreeSet<ResourceId>,
    BTreeMap<ResourceId, nephele_engine::CloudTime>,
);

fn done(engine: &Engine) -> BTreeMap<ResourceId, Done> {
    let done = |state: &FaultState| {
        let mut affected_ids = state.affected_ids.clone();
        let mut notices = state.notices.clone();
        // Nothing of what is being deleted is shown, and nothing more happens to it.
        affected_ids.retain(|id| engine.get(id).is_none_or(|found| found.deleting.is_none()));
        // Of those that are not affected, no status says anything.
        notices.retain(|id, _| affected_ids.contains(id));
        (state.id.clone(), (state.decisions.record, affected_ids, notices))
    };
    engine.faults().map(done).collect()
}

/// What decides about each resource from now on.
fn standing(engine: &Engine, now: SimTime) -> BTreeMap<String, serde_json::Map<String, serde_json::Value>> {
    let standing = |resource: &Resource| {
        let Ok(serde_json::Value::Object(mut fields)) = serde_json::to_value(resource) else {
            panic!("a resource is an object");
        };
        // Who asked, how often it changed, and how long operations took.
        for field in ["generation", "creator", "accepted", "adopted"] {
            fields.remove(field);
        }
        if let Some(deleting) = fields["deleting"].as_object_mut() {
            deleting.remove("accepted");
            // Nothing else happens to it any more, and nothing of it is shown.
            for field in ["afflictions", "notices", "progress", "update"] {
                fields.remove(field);
            }
        }
        // A stage that should have ended is held, and ends when it is healed.
        let due = |stage: &serde_json::Value| stage["state"]["Running"]["due"].as_u64();
        for stage in fields
            .get_mut("progress")
            .and_then(|stages| stages.as_array_mut())
            .into_iter()
            .flatten()
        {
            if due(stage).is_some_and(|due| due <= now.as_millis()) {
                stage["state"]["Running"]["due"] = serde_json::Value::Null;
            }
        }
        // An update that is over is in the object.
        let is_over = |update: &serde_json::Value| update["state"].get("Over").is_some();
        if fields.get("update").is_some_and(is_over) {
            fields.insert("update".to_owned(), serde_json::Value::Null);
        }
        fields.remove("spec");
        (resource.spec.id.name.clone(), fields)
    };
    engine.resources().map(standing).collect()
}

/// A resource has an affection if and only if its fault lists it. What is final outlives its fault. A notice is kept with
/// the affection: one that returns begins with a notice of its own.
fn assert_listed(engine: &Engine) -> Result<(), TestCaseError> {
    for resource in engine.resources() {
        for (name, active_effect) in &resource.active_effects {
            let state = engine.fault(&ResourceId::fault(&resource.spec.id.namespace, name));
            let is_listed = state.is_some_and(|state| state.affected_ids.contains(&resource.spec.id));
            prop_assert!(
                is_listed || active_effect.is_final,
                "{} has {name}",
                resource.spec.id
            );
        }
    }
    for state in engine.faults() {
        for id in &state.affected_ids {
            let found = engine.get(id);
            let has = found.is_none_or(|found| found.active_effects.contains_key(&state.id.name));
            prop_assert!(has, "{} lists {id}", state.id);
        }
        for id in state.notices.keys() {
            prop_assert!(
                state.affected_ids.contains(id),
                "{} keeps its notice to {id}, which it does not affect",
                state.id
            );
        }
    }
    Ok(())
}

/// Does what the reconcilers do about instances that are gone for good: the object notes it, and the rest is deleted.
fn terminate(engine: &mut Engine, now: SimTime) {
    let is_final = |resource: &&Resource| {
        resource
            .active_effects
            .values()
            .any(|active_effect| active_effect.is_final)
    };
    let gone: Vec<_> = engine
        .resources()
        .filter(is_final)
        .map(|resource| resource.spec.id.clone())
        .collect();
    for id in gone {
        engine.apply(Operation {
            caller: Operation::SWEEPER.into(),
            request: Request::Delete(id),
            at: now,
        });
    }
}

/// Whether a fault was changed that affects more than its status lists, see [`Loss::ChangedFault`].
fn changed_one_beyond_its_list(script: &Script, engine: &Engine, stop: SimTime) -> bool {
    let put = |name: &str| {
        let is_put = |(at, request): &&(SimTime, Request)| {
            *at <= stop && matches!(request, Request::PutFault { id, .. } if id.name == name)
        };
        script.0.iter().filter(is_put).count()
    };
    engine
        .faults()
        .any(|state| state.affected_ids.len() > LISTED_MAX && put(&state.id.name) > 1)
}

fn play(Script(script): &Script, stop: SimTime) -> Result<Engine, TestCaseError> {
    let mut engine = Engine::new(Config::default(), Seed::new(SEED));
    for (now, request) in script.iter().filter(|(now, _)| *now <= stop) {
        let _ = ask(&mut engine, *now, request.clone());
        terminate(&mut engine, *now);
        assert_listed(&engine)?;
    }
    engine.poll(stop);
    terminate(&mut engine, stop);
    assert_listed(&engine)?;
    Ok(engine)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn a_cloud_that_is_put_back_is_what_it_was(script in script(), stop in 1u64..60_000, on in 0u64..30_000, are_balancers_last in any::<bool>()) {
        let stop = SimTime::from_millis(stop);
        let before = play(&script, stop)?;
        prop_assume!(!changed_one_beyond_its_list(&script, &before, stop));
        let mut after = put_back(&before, stop, are_balancers_last);
        for request in repeated(&before) {
            let outcome = after.apply(Operation { caller: "test".into(), request: request.clone(), at: stop });
            prop_assert_eq!(outcome, Outcome::AlreadyDone, "{:?}", request);
        }
        // A new process reads everything, some of it several times.
        for resource in before.resources() {
            let request = Request::Describe(resource.spec.id.clone());
            let outcome = after.apply(Operation { caller: "test".into(), request, at: stop });
            let is_answered =
                matches!(outcome, Outcome::Accepted | Outcome::Refused(CloudError::NotVisibleYet { .. }));
            prop_assert!(is_answered, "{:?}: {:?}", resource.spec.id, outcome);
        }
        for entry in after.journal().since(1) {
            let is_adoption = match &entry.record {
                Record::Operation { operation, is_hit, faults, .. } => {
                    !is_hit && faults.is_empty() && matches!(
                        operation.request,
                        Request::Reserve { .. } | Request::Adopt { .. } | Request::PutFault { .. } | Request::PutCloud { .. }
                            | Request::Describe(_)
                    )
                }
                Record::Event(event) => matches!(
                    event.kind,
                    EventKind::Adopted { .. } | EventKind::BecameAffected { active_effect: Some(_), .. }
                        | EventKind::BackendInService(_) | EventKind::Leaked { is_adopted: true, .. }
                ),
                _ => false,
            };
            prop_assert!(is_adoption, "{:?}", entry.record);
        }
        assert_listed(&after)?;
        let mut before = without_losses(&before);
        prop_assert_eq!(done(&after), done(&before));
        prop_assert_eq!(standing(&after, stop), standing(&before, stop));
        prop_assert_eq!(after.next_deadline(), before.next_deadline());
        prop_assert!(after.state().calls.is_empty());
        prop_assert!(after.all_caller_mistakes().eq(before.all_caller_mistakes()));
        prop_assert!(after.all_leaked().eq(before.all_leaked()));
        prop_assert!(after.costs(stop).eq(before.costs(stop)));
        prop_assert_eq!(after.usage(&cloud_spec()), before.usage(&cloud_spec()));
        // And it stays so.
        let later = stop + Duration::from_millis(on);
        after.poll(later);
        before.poll(later);
        prop_assert_eq!(done(&after), done(&before));
        prop_assert_eq!(standing(&after, later), standing(&before, later));
        prop_assert_eq!(after.next_deadline(), before.next_deadline());
    }
}

proptest! {
    /// Otherwise a fault that lives long remembers what came and went, until it has no room for what is there.
    #[test]
    fn a_fault_remembers_nothing_of_what_is_gone(script in script(), stop in 1u64..60_000) {
        let mut engine = play(&script, SimTime::from_millis(stop))?;
        let all: Vec<_> = NAMES.iter().map(|name| id(name)).chain([load_balancer("lb")]).collect();
        // Deletions take some seconds. The last ones are of those whose creation was refused.
        for second in [60, 80] {
            for id in &all {
                engine.apply(Operation { caller: Operation::SWEEPER.into(), request: Request::Delete(id.clone()), at: at(second) });
            }
        }
        prop_assert_eq!(engine.resources().count(), 0);
        for state in engine.faults() {
            let state = serde_json::to_value(state).expect("a value");
            for field in ["afflicted", "notices", "skipped", "spared", "attempts", "delayed"] {
                let is_empty = match &state[field] {
                    serde_json::Value::Array(list) => list.is_empty(),
                    serde_json::Value::Object(map) => map.is_empty(),
                    other => other.is_null(),
                };
                prop_assert!(is_empty, "{} of {}: {}", field, state["id"]["name"], state[field]);
            }
        }
    }
}

/// Otherwise a restart would show the reader what the fault withholds.
#[test]
fn a_read_that_was_refused_is_a_call_after_a_restart() {
    let mut before = Engine::new(Config::default(), Seed::new(SEED));
    let effect = Effect::Fail {
        reason: FailureReason::Throttled,
        message: String::new(),
        retry_after: seconds(40),
    };
    let matches = Matches {
        operations: [Verb::DescribeLoadBalancer].into(),
        ..Matches::default()
    };
    ask(&mut before, at(0), Request::Create(balancer("", None))).expect("it is created");
    let put = put(
        "throttled",
        Fault {
            matches,
            effect,
            budget: Budget::default(),
        },
    );
    ask(&mut before, at(0), put).expect("it is put");
    let read = || Request::Describe(load_balancer("lb"));
    let refused = ask(&mut before, at(1), read());
    assert!(matches!(refused, Err(CloudError::Fault { .. })), "{refused:?}");
    let resource = before.get(&load_balancer("lb")).expect("it is there");
    for (is_read_refused, expected) in [(false, Ok(Outcome::Accepted)), (true, refused)] {
        let mut after = Engine::new(Config::default(), Seed::new(SEED));
        for state in before.faults() {
            ask(&mut after, at(50), known_fault(&before, state)).expect("it is put");
        }
        let previous = Box::new(Previous {
            is_read_refused,
            ..previous(&before, resource)
        });
        let adopt = Request::Adopt {
            spec: resource.spec.clone(),
            previous,
        };
        ask(&mut after, at(50), adopt).expect("it is adopted");
        assert_eq!(
            ask(&mut after, at(50), read()),
            expected,
            "was refused: {is_read_refused}"
        );
    }
}

#[test]
fn the_book_prints_what_a_restart_changes() {
    let page = include_str!("../../../../docs/src/state.md");
    let (_, list) = page
        .split_once("## What a restart changes\n")
        .expect("the section");
    let list = list.split("\n## ").next().expect("its text");
    let items: Vec<_> = list
        .split("\n- ")
        .skip(1)
        .map(|item| {
            item.split("\n\n")
                .next()
                .expect("an item")
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(items, Loss::ALL.map(Loss::sentence));
}
