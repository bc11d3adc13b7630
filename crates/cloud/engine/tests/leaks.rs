//! Instances and load balancers that still exist although they were deleted.

use std::{collections::BTreeMap, time::Duration};

use nephele_engine::{
    CloudSpec, Config, Effect, Engine, EventKind, Fault, Footprint, Latency, Leaked, MistakesByCaller,
    NamespaceQuotas, Outcome, Record, Request, ResourceSpec,
};
use nephele_model::{
    Budget, Capacity, Endpoint, FaultRecord, Matches, Quota, ResourceId, ResourceKind, SimTime, Verb,
};
use proptest::prelude::*;

use crate::{
    cloud::{Watched, ask, at, engine, id, load_balancer, machine, register},
    faults::{fault, put, script},
};

fn leaking() -> Fault {
    Fault {
        matches: Matches::default(),
        effect: Effect::Leak,
        budget: Budget::default(),
    }
}

fn of_cloud(name: &str) -> ResourceSpec {
    ResourceSpec {
        cloud_spec: "north".into(),
        zone: Some("a".into()),
        instance_type: Some("m.large".into()),
        addresses: vec!["10.0.0.1".into()],
        ..machine(name, &Latency::ZERO)
    }
}

fn cloud_spec() -> ResourceId {
    ResourceId::cloud("default", "north")
}

fn put_cloud(leaked: Vec<Leaked>) -> Request {
    Request::PutCloud {
        id: cloud_spec(),
        cloud_spec: Box::default(),
        clock: None,
        leaked,
        cost: None,
        caller_mistakes: MistakesByCaller::new(),
    }
}

/// What is recorded about [`of_cloud`].
fn leaked(name: &str, since: SimTime) -> Leaked {
    let footprint = Footprint {
        zone: Some("a".into()),
        cloud_spec: "north".into(),
        instance_type: Some("m.large".into()),
        processors: 2,
        ..Footprint::default()
    };
    let addresses = vec!["10.0.0.1".into()];
    Leaked {
        id: id(name),
        since,
        fault: "f".into(),
        addresses,
        endpoint: None,
        footprint,
    }
}

fn known(engine: &Engine) -> Vec<Leaked> {
    engine.leaked(&cloud_spec()).cloned().collect()
}

fn instances(engine: &Engine) -> u64 {
    engine.taken(&Capacity::CloudQuota {
        cloud_spec: cloud_spec(),
        of: Quota::Instances,
    })
}

/// A cloud with a fault that lets everything leak.
fn leaky() -> Watched {
    let mut engine = engine();
    ask(&mut engine, at(0), put_cloud(Vec::new())).expect("a catalog");
    ask(&mut engine, at(0), put("f", leaking())).expect("a fault");
    engine
}

#[test]
fn a_leaked_instance_is_gone_for_its_owner_and_keeps_its_room() {
    let mut engine = leaky();
    let balancer = Request::Create(ResourceSpec::new(load_balancer("lb")));
    for request in [
        Request::Create(of_cloud("m")),
        balancer,
        register("lb", "m", "api-server"),
    ] {
        ask(&mut engine, at(1), request).unwrap();
    }
    engine.poll(at(2));
    assert_eq!(
        ask(&mut engine, at(3), Request::Delete(id("m"))),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        ask(&mut engine, at(3), Request::Delete(id("m"))),
        Ok(Outcome::AlreadyDone)
    );
    let kinds: Vec<_> = engine.poll(at(3)).into_iter().map(|event| event.kind).collect();
    assert_eq!(
        kinds,
        [
            EventKind::Leaked {
                fault: "f".into(),
                since: at(3),
                addresses: vec!["10.0.0.1".into()],
                is_adopted: false,
                is_replaced: false,
            },
            EventKind::Deleted,
            EventKind::BackendOutOfService("m".into()),
        ]
    );
    assert_eq!(
        (engine.get(&id("m")), known(&engine)),
        (None, vec![leaked("m", at(3))])
    );
    assert_eq!(
        (
            instances(&engine),
            engine.resource_counts().resources(ResourceKind::Instance)
        ),
        (1, 0)
    );
    assert_eq!(
        engine.fault(&fault("f")).unwrap().decisions.record.hits,
        1,
        "a repetition leaks nothing"
    );
    // Neither the end of its load balancer nor that of the fault deletes it.
    for gone in [load_balancer("lb"), fault("f")] {
        ask(&mut engine, at(4), Request::Delete(gone)).unwrap();
    }
    assert_eq!(instances(&engine), 1);
    let delete = || Request::DeleteLeaked(cloud_spec());
    assert_eq!(ask(&mut engine, at(5), delete()), Ok(Outcome::Accepted));
    assert_eq!((known(&engine), instances(&engine)), (vec![], 0));
    assert_eq!(ask(&mut engine, at(5), delete()), Ok(Outcome::AlreadyDone));
    let told = engine.poll(at(5)).pop().map(|event| (event.id, event.kind));
    assert_eq!(told, Some((id("m"), EventKind::LeakedDeleted { since: at(3) })));
}

fn balancer(name: &str) -> ResourceSpec {
    ResourceSpec {
        cloud_spec: "north".into(),
        endpoint: Some(Endpoint {
            host: "cloud.example".into(),
            port: 20_000,
        }),
        ..ResourceSpec::new(load_balancer(name))
    }
}

/// A fault of these deletions.
fn leaking_by(operations: &[Verb]) -> Fault {
    let matches = Matches {
        operations: operations.iter().copied().collect(),
        ..Matches::default()
    };
    Fault { matches, ..leaking() }
}

#[test]
fn a_load_balancer_leaks_if_the_fault_names_its_deletion_and_keeps_its_room_and_endpoint() {
    let mut engine = engine();
    let balancers = |engine: &Engine| {
        engine.taken(&Capacity::CloudQuota {
            cloud_spec: cloud_spec(),
            of: Quota::LoadBalancers,
        })
    };
    ask(&mut engine, at(0), put_cloud(Vec::new())).unwrap();
    ask(&mut engine, at(0), put("f", leaking())).unwrap();
    ask(&mut engine, at(1), Request::Create(balancer("lb"))).unwrap();
    ask(&mut engine, at(1), Request::Delete(load_balancer("lb"))).unwrap();
    engine.poll(at(1));
    assert_eq!(
        (known(&engine), balancers(&engine)),
        (vec![], 0),
        "by default, instances leak"
    );

    ask(
        &mut engine,
        at(2),
        put("f", leaking_by(&[Verb::DeleteLoadBalancer])),
    )
    .unwrap();
    for request in [Request::Create(of_cloud("m")), Request::Create(balancer("lb"))] {
        ask(&mut engine, at(2), request).unwrap();
    }
    ask(&mut engine, at(2), register("lb", "m", "api-server")).unwrap();
    engine.poll(at(2));
    ask(&mut engine, at(3), Request::Delete(id("m"))).unwrap();
    assert_eq!(
        ask(&mut engine, at(3), Request::Delete(load_balancer("lb"))),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        ask(&mut engine, at(3), Request::Delete(load_balancer("lb"))),
        Ok(Outcome::AlreadyDone)
    );
    let leaked = Leaked {
        id: load_balancer("lb"),
        since: at(3),
        fault: "f".into(),
        addresses: Vec::new(),
        endpoint: balancer("lb").endpoint,
        footprint: Footprint {
            cloud_spec: "north".into(),
            processors: 2,
            ..Footprint::default()
        },
    };
    assert_eq!(
        (known(&engine), balancers(&engine), instances(&engine)),
        (vec![leaked.clone()], 1, 0)
    );
    assert_eq!(
        engine
            .leaked_of_cluster(&nephele_model::ClusterId {
                namespace: "default".into(),
                name: "demo".into()
            })
            .count(),
        0
    );
    let kinds: Vec<_> = engine
        .poll(at(3))
        .into_iter()
        .rev()
        .take(2)
        .map(|event| event.kind)
        .collect();
    let told = EventKind::Leaked {
        fault: "f".into(),
        since: at(3),
        addresses: vec![],
        is_adopted: false,
        is_replaced: false,
    };
    assert_eq!(kinds, [EventKind::Deleted, told]);

    // Another process, and then its end.
    let mut after = self::engine();
    ask(&mut after, at(9), put_cloud(vec![leaked.clone()])).unwrap();
    assert_eq!((known(&after), balancers(&after)), (vec![leaked], 1));
    ask(&mut after, at(9), Request::DeleteLeaked(cloud_spec())).unwrap();
    assert_eq!((known(&after), balancers(&after)), (vec![], 0));
}

#[test]
fn as_many_load_balancers_can_leak_as_instances() {
    let mut engine = engine();
    ask(&mut engine, at(0), put_cloud(Vec::new())).unwrap();
    ask(
        &mut engine,
        at(0),
        put("f", leaking_by(&[Verb::DeleteLoadBalancer, Verb::DeleteInstance])),
    )
    .unwrap();
    for number in 0..=Leaked::MAX {
        let name = format!("x{number}");
        for spec in [of_cloud(&name), balancer(&name)] {
            let id = spec.id.clone();
            ask(&mut engine, at(1), Request::Create(spec)).unwrap();
            ask(&mut engine, at(1), Request::Delete(id)).unwrap();
        }
    }
    let of_kind = |kind| {
        known(&engine)
            .iter()
            .filter(|leaked| leaked.id.kind == kind)
            .count()
    };
    let counts = [ResourceKind::Instance, ResourceKind::LoadBalancer].map(of_kind);
    assert_eq!(counts, [Leaked::MAX; 2]);
}

#[test]
fn a_new_instance_with_the_name_of_a_leaked_one_is_another_instance() {
    let mut engine = leaky();
    for _ in 0..3 {
        ask(&mut engine, at(1), Request::Create(of_cloud("m"))).unwrap();
        ask(&mut engine, at(1), Request::Delete(id("m"))).unwrap();
    }
    ask(&mut engine, at(2), Request::Create(of_cloud("m"))).unwrap();
    let times = [0, 1, 2].map(|millis| at(1) + Duration::from_millis(millis));
    assert_eq!(known(&engine), times.map(|since| leaked("m", since)));
    assert_eq!(instances(&engine), 4);
    ask(&mut engine, at(3), Request::DeleteLeaked(cloud_spec())).unwrap();
    assert_eq!((instances(&engine), engine.get(&id("m")).is_some()), (1, true));
}

#[test]
fn who_waits_for_the_room_of_a_leaked_instance_is_told_when_it_is_deleted() {
    let quotas = NamespaceQuotas {
        instances_max: Some(1),
        ..NamespaceQuotas::default()
    };
    let mut engine = Watched::new(
        Config {
            quotas,
            ..Config::default()
        },
        "amber-otter-lamp",
    );
    ask(&mut engine, at(0), put_cloud(Vec::new())).unwrap();
    ask(&mut engine, at(0), put("f", leaking())).unwrap();
    ask(&mut engine, at(1), Request::Create(of_cloud("m"))).unwrap();
    ask(&mut engine, at(1), Request::Delete(id("m"))).unwrap();
    ask(&mut engine, at(2), Request::Create(of_cloud("n"))).unwrap_err();
    // What a catalog has goes with it.
    ask(&mut engine, at(3), Request::Delete(cloud_spec())).unwrap();
    let last = engine.journal().since(1).last().map(|entry| entry.record.clone());
    let capacity = Capacity::Quota {
        namespace: "default".into(),
        kind: ResourceKind::Instance,
    };
    assert_eq!(
        last,
        Some(Record::CapacityFreed {
            at: at(3),
            capacity,
            waiting: id("n")
        })
    );
}

#[test]
fn without_a_catalog_of_the_account_leaked_instances_go_with_the_fault() {
    let mut engine = engine();
    for name in ["f", "g"] {
        let matches = Matches {
            names: [name.to_owned()].into(),
            ..Matches::default()
        };
        ask(&mut engine, at(0), put(name, Fault { matches, ..leaking() })).unwrap();
        ask(&mut engine, at(1), Request::Create(machine(name, &Latency::ZERO))).unwrap();
        ask(&mut engine, at(2), Request::Delete(id(name))).unwrap();
    }
    let names = |engine: &Engine| {
        engine
            .all_leaked()
            .map(|leaked| leaked.id.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&engine), ["f", "g"]);
    assert_eq!(engine.leaked_by(&fault("f")).count(), 1);
    ask(&mut engine, at(3), Request::Delete(fault("f"))).unwrap();
    assert_eq!(names(&engine), ["g"]);
}

/// As after a restart of the manager: the status of a SimulatedCloud or a Fault has the list.
#[test]
fn leaked_instances_of_an_earlier_process_take_up_their_room_again_once() {
    let mut engine = engine();
    let all = vec![leaked("m", at(1)), leaked("m", at(2))];
    ask(&mut engine, at(9), put_cloud(all.clone())).unwrap();
    let put_fault = Request::PutFault {
        id: fault("f"),
        fault: Box::new(leaking()),
        record: FaultRecord::default(),
        affected_ids: Vec::new(),
        notices: Vec::new(),
        is_cut: false,
        skipped: Vec::new(),
        leaked: vec![leaked("m", at(2)), leaked("n", at(2))],
        paused: false,
    };
    ask(&mut engine, at(9), put_fault.clone()).unwrap();
    let all: Vec<_> = all.into_iter().chain([leaked("n", at(2))]).collect();
    assert_eq!((known(&engine), instances(&engine)), (all, 3));
    // Only a new catalog and a new fault bring some along.
    ask(&mut engine, at(10), Request::DeleteLeaked(cloud_spec())).unwrap();
    let changed = CloudSpec {
        seed: Some(nephele_engine::Seed::new("other")),
        ..CloudSpec::default()
    };
    let again = Request::PutCloud {
        id: cloud_spec(),
        cloud_spec: Box::new(changed),
        clock: None,
        leaked: vec![leaked("m", at(1))],
        cost: None,
        caller_mistakes: MistakesByCaller::new(),
    };
    ask(&mut engine, at(10), again).unwrap();
    ask(&mut engine, at(10), put_fault).unwrap();
    assert_eq!((known(&engine), instances(&engine)), (vec![], 0));
}

#[test]
fn no_more_instances_leak_than_can_be_remembered() {
    let mut engine = leaky();
    for number in 0..=Leaked::MAX {
        let name = format!("m{number}");
        ask(&mut engine, at(1), Request::Create(of_cloud(&name))).unwrap();
        ask(&mut engine, at(1), Request::Delete(id(&name))).unwrap();
    }
    engine.poll(at(2));
    assert_eq!(
        (known(&engine).len(), instances(&engine)),
        (Leaked::MAX, Leaked::MAX as u64)
    );
    assert_eq!(
        engine.fault(&fault("f")).unwrap().decisions.record.hits,
        Leaked::MAX as u64
    );
}

proptest! {
    /// Whatever comes, leaks and is deleted: what exists and what leaked takes up room, and nothing else. A reader of
    /// the journal knows what leaked.
    #[test]
    fn what_leaked_takes_up_room_until_it_is_deleted(script in script()) {
        let mut engine = engine();
        let mut told = BTreeMap::new();
        let mut read = 1;
        for (now, request) in script {
            let _ = ask(&mut engine, now, request);
            engine.poll(now);
            for entry in engine.journal().since(read) {
                read = entry.sequence + 1;
                let Record::Event(event) = &entry.record else { continue };
                match &event.kind {
                    EventKind::Leaked { since, fault, .. } => {
                        prop_assert!(told.insert((event.id.clone(), *since), fault.clone()).is_none());
                    }
                    EventKind::LeakedDeleted { since } => {
                        prop_assert!(told.remove(&(event.id.clone(), *since)).is_some());
                    }
                    _ => {}
                }
            }
            let known = engine.all_leaked().map(|leaked| ((leaked.id.clone(), leaked.since), leaked.fault.clone()));
            prop_assert_eq!(&known.collect::<BTreeMap<_, _>>(), &told);
            for kind in [ResourceKind::Instance, ResourceKind::LoadBalancer] {
                let leaked = told.keys().filter(|(id, _)| id.kind == kind).count();
                let capacity = Capacity::Quota { namespace: "default".into(), kind };
                prop_assert_eq!(engine.taken(&capacity), engine.resource_counts().resources(kind) + leaked as u64);
            }
        }
    }
}
