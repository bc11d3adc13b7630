//! The rules of the cloud, one by one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use nephele_engine::{
    CloudSpec, Config, Engine, Entry, Event, EventKind, Footprint, Hardware, Latency, MistakesByCaller,
    Model, NamespaceQuotas, Outcome, Previous, Record, Request, ResourceSpec, Seed, StageState, StateError,
    Took, Update, UpdateSpec, UpdateState, Zone,
};
use nephele_model::{
    Capacity, CloudError, Endpoint, ErrorClass, Image, InstanceType, Odds, ResourceId, ResourceKind, SeedKey,
    SimTime,
};

use crate::cloud::{
    Watched, ask, at, deregister, engine, id, load_balancer, machine, operation, reached_stages, register,
    stage,
};

fn fixed(seconds: u64) -> Latency {
    Latency::Fixed(Duration::from_secs(seconds))
}

fn event(seconds: u64, generation: u64, kind: EventKind) -> Event {
    Event {
        at: at(seconds),
        id: id("m"),
        generation,
        kind,
        took: None,
    }
}

fn reached(stage: &str) -> EventKind {
    EventKind::StageReached(stage.into())
}

/// A machine whose first stage always fails.
fn failing_machine() -> ResourceSpec {
    let mut spec = machine("m", &fixed(2));
    spec.stages[0].failure = Odds::new(1.0);
    spec
}

#[test]
fn stages_are_passed_in_order_and_siblings_side_by_side() {
    let mut engine = engine();
    assert_eq!(
        ask(&mut engine, at(10), Request::Create(machine("m", &fixed(2)))),
        Ok(Outcome::Accepted)
    );
    assert_eq!(engine.next_deadline(), Some(at(12)));
    assert_eq!(engine.poll(at(11)), []);
    assert_eq!(
        engine.poll(at(100)),
        [
            event(12, 2, reached("vm")),
            event(14, 3, reached("node")),
            event(16, 4, reached("etcd")),
            event(16, 5, reached("api-server")),
        ]
    );
    assert_eq!(engine.next_deadline(), None);
    assert_eq!(engine.poll(at(200)), []);
}

#[test]
fn stages_say_where_they_stand() {
    let mut engine = engine();
    ask(&mut engine, at(0), Request::Create(machine("m", &fixed(2)))).unwrap();
    engine.poll(at(3));
    let stages: Vec<_> = engine
        .get(&id("m"))
        .unwrap()
        .stages()
        .map(|(name, state)| (name.as_str(), state.clone()))
        .collect();
    assert_eq!(
        stages,
        [
            ("vm", StageState::Reached { at: at(2) }),
            (
                "node",
                StageState::Running {
                    since: at(2),
                    due: Some(at(4))
                }
            ),
            ("etcd", StageState::Blocked),
            ("api-server", StageState::Blocked),
        ]
    );
}

#[test]
fn stage_after_two_others_is_entered_when_the_later_one_is_reached() {
    let mut engine = engine();
    let stages = vec![
        stage("end", &["short", "long"], &fixed(1)),
        stage("short", &[], &fixed(2)),
        stage("long", &[], &fixed(5)),
    ];
    ask(
        &mut engine,
        at(0),
        Request::Create(ResourceSpec {
            stages,
            ..machine("m", &fixed(0))
        }),
    )
    .unwrap();
    assert_eq!(
        engine.poll(at(9)),
        [
            event(2, 2, reached("short")),
            event(5, 3, reached("long")),
            event(6, 4, reached("end"))
        ]
    );
}

#[test]
fn stages_without_latency_are_all_passed_by_one_poll() {
    let mut engine = engine();
    ask(&mut engine, at(1), Request::Create(machine("m", &Latency::ZERO))).unwrap();
    assert_eq!(engine.poll(at(1)).len(), 4);
    assert_eq!(engine.next_deadline(), None);
}

#[test]
fn creating_twice_is_already_done_and_another_shape_is_a_conflict() {
    let mut engine = engine();
    let spec = machine("m", &Latency::ZERO);
    ask(&mut engine, at(1), Request::Create(spec.clone())).unwrap();
    assert_eq!(
        ask(&mut engine, at(2), Request::Create(spec.clone())),
        Ok(Outcome::AlreadyDone)
    );
    let others = [
        ResourceSpec {
            zone: Some("b".into()),
            ..spec.clone()
        },
        ResourceSpec {
            region: Some("b".into()),
            ..spec.clone()
        },
        ResourceSpec {
            instance_type: Some("m.large".into()),
            ..spec.clone()
        },
        ResourceSpec {
            stages: Vec::new(),
            ..spec
        },
    ];
    for other in others {
        let refused = ask(&mut engine, at(3), Request::Create(other)).unwrap_err();
        assert_eq!(refused, CloudError::Conflict(id("m")));
        assert_eq!(refused.class(), ErrorClass::GiveUp);
    }
}

#[test]
fn labels_owner_and_deletion_may_change_while_stages_pass() {
    let mut engine = engine();
    ask(&mut engine, at(0), Request::Create(machine("m", &fixed(5)))).unwrap();
    let changed = ResourceSpec {
        labels: BTreeMap::from([("team".to_owned(), "blue".to_owned())]),
        owner: Some(id("set")),
        deletion: Some(fixed(1)),
        ..machine("m", &fixed(5))
    };
    assert_eq!(
        ask(&mut engine, at(1), Request::Create(changed.clone())),
        Ok(Outcome::Accepted)
    );
    assert_eq!(engine.get(&id("m")).unwrap().spec, changed);
    assert_eq!(engine.next_deadline(), Some(at(5)));
    ask(&mut engine, at(2), Request::Delete(id("m"))).unwrap();
    assert_eq!(engine.next_deadline(), Some(at(3)));
}

#[test]
fn request_that_is_not_a_number_still_equals_itself() {
    let mut engine = engine();
    let spec = machine(
        "m",
        &Latency::Jittered {
            base: Duration::from_secs(2),
            fraction: f64::NAN,
        },
    );
    ask(&mut engine, at(0), Request::Create(spec.clone())).unwrap();
    assert_eq!(
        ask(&mut engine, at(0), Request::Create(spec)),
        Ok(Outcome::AlreadyDone)
    );
    assert_eq!(engine.next_deadline(), Some(at(2)));
}

#[test]
fn deletion_takes_its_time_and_ends_everything_else() {
    let mut engine = engine();
    let spec = machine("m", &fixed(5));
    ask(&mut engine, at(0), Request::Create(spec.clone())).unwrap();
    assert_eq!(
        ask(&mut engine, at(1), Request::Delete(id("m"))),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        ask(&mut engine, at(2), Request::Delete(id("m"))),
        Ok(Outcome::AlreadyDone)
    );
    assert_eq!(
        ask(&mut engine, at(2), Request::Create(spec.clone())),
        Err(CloudError::Deleting(id("m")))
    );
    assert_eq!(engine.poll(at(60)), [event(6, 3, EventKind::Deleted)]);
    assert_eq!(engine.get(&id("m")), None);
    assert_eq!(
        ask(&mut engine, at(61), Request::Delete(id("m"))),
        Ok(Outcome::AlreadyDone)
    );
    assert_eq!(
        ask(&mut engine, at(62), Request::Create(spec)),
        Ok(Outcome::Accepted)
    );
    assert_eq!(engine.next_deadline(), Some(at(67)));
}

#[test]
fn failed_stage_blocks_its_successors_and_says_why() {
    let mut engine = engine();
    ask(&mut engine, at(0), Request::Create(failing_machine())).unwrap();
    let cause = "vm failed at attempt 1".to_owned();
    assert_eq!(
        engine.poll(at(9)),
        [event(
            2,
            2,
            EventKind::StageFailed {
                stage: "vm".into(),
                cause: cause.clone()
            }
        )]
    );
    let resource = engine.get(&id("m")).unwrap();
    assert_eq!(
        resource.stage(&"vm".into()),
        Some(&StageState::Failed { at: at(2), cause })
    );
    assert_eq!(resource.stage(&"node".into()), Some(&StageState::Blocked));
    assert_eq!(engine.next_deadline(), None);
}

#[test]
fn failed_stage_is_entered_again_by_a_retry() {
    let mut engine = engine();
    ask(&mut engine, at(0), Request::Create(failing_machine())).unwrap();
    engine.poll(at(9));
    let retry = || Request::Retry(id("m"), "vm".into());
    assert_eq!(ask(&mut engine, at(10), retry()), Ok(Outcome::Accepted));
    assert_eq!(ask(&mut engine, at(10), retry()), Ok(Outcome::AlreadyDone));
    assert_eq!(engine.next_deadline(), Some(at(12)));
    let cause = "vm failed at attempt 2".to_owned();
    assert_eq!(
        engine.poll(at(20)),
        [event(
            12,
            4,
            EventKind::StageFailed {
                stage: "vm".into(),
                cause
            }
        )]
    );
}

#[test]
fn retry_of_what_cannot_be_retried_is_refused() {
    let mut engine = engine();
    let mut retry = |name: &str, stage: &str| ask(&mut engine, at(1), Request::Retry(id(name), stage.into()));
    assert_eq!(retry("m", "vm"), Err(CloudError::NotFound(id("m"))));
    let mut engine = crate::cloud::engine();
    ask(&mut engine, at(0), Request::Create(machine("m", &fixed(5)))).unwrap();
    let mut retry = |stage: &str| ask(&mut engine, at(1), Request::Retry(id("m"), stage.into()));
    assert_eq!(retry("other"), Err(CloudError::InvalidStage(id("m"))));
    assert_eq!(retry("vm"), Ok(Outcome::AlreadyDone));
    ask(&mut engine, at(2), Request::Delete(id("m"))).unwrap();
    assert_eq!(
        ask(&mut engine, at(2), Request::Retry(id("m"), "vm".into())),
        Err(CloudError::Deleting(id("m")))
    );
}

/// With odds of one in four, and retries until each machine succeeds, one machine in four fails at its first attempt.
#[test]
fn odds_are_kept_and_a_retry_draws_again() {
    let mut engine = engine();
    for number in 0..1000 {
        let mut spec = machine(&number.to_string(), &Latency::ZERO);
        spec.stages.truncate(1);
        spec.stages[0].failure = Odds::new(0.25);
        ask(&mut engine, at(0), Request::Create(spec)).unwrap();
    }
    let failed = |engine: &mut Watched| -> Vec<ResourceId> {
        let failed = |event: &Event| matches!(event.kind, EventKind::StageFailed { .. });
        engine
            .poll(at(0))
            .into_iter()
            .filter(failed)
            .map(|event| event.id)
            .collect()
    };
    let first = failed(&mut engine);
    assert!((200..300).contains(&first.len()), "{}", first.len());
    for id in &first {
        ask(&mut engine, at(0), Request::Retry(id.clone(), "vm".into())).unwrap();
    }
    let second = failed(&mut engine);
    assert!((30..100).contains(&second.len()), "{}", second.len());
}

#[test]
fn stages_that_cannot_be_walked_are_refused() {
    let latency = Latency::ZERO;
    let cases = [
        vec![stage("a", &["b"], &latency), stage("b", &["a"], &latency)],
        vec![stage("a", &["a"], &latency)],
        vec![stage("a", &["missing"], &latency)],
        vec![stage("a", &[], &latency), stage("a", &[], &latency)],
    ];
    for stages in cases {
        let spec = ResourceSpec {
            stages,
            ..machine("m", &latency)
        };
        let adopt = Request::Adopt {
            spec: spec.clone(),
            previous: Box::new(Previous {
                created: at(0),
                ..Previous::default()
            }),
        };
        for request in [Request::Create(spec), adopt] {
            assert_eq!(
                ask(&mut engine(), at(0), request),
                Err(CloudError::InvalidStage(id("m")))
            );
        }
    }
}

/// One instance fits into zone a; the account may have two instances and one load balancer.
fn small_cloud() -> Watched {
    let config = Config {
        zones: BTreeMap::from([
            (
                "a".to_owned(),
                Zone {
                    instances_max: Some(1),
                },
            ),
            ("b".to_owned(), Zone::default()),
        ]),
        quotas: NamespaceQuotas {
            instances_max: Some(2),
            load_balancers_max: Some(1),
        },
        cloud_spec: cloud_spec(&["m.large"]),
    };
    Watched::new(config, "s")
}

/// Instance types with 4 processors each.
fn cloud_spec(instance_types: &[&str]) -> CloudSpec {
    let instance_type = |name: &&str| InstanceType {
        name: (*name).into(),
        architecture: "arm64".into(),
        cpu: 4,
        ..InstanceType::default()
    };
    CloudSpec {
        instance_types: instance_types.iter().map(instance_type).collect(),
        ..CloudSpec::default()
    }
}

fn put(engine: &mut Watched, name: &str, cloud_spec: CloudSpec) {
    let id = ResourceId::cloud(id("m").namespace, name);
    let put = ask(
        engine,
        at(0),
        Request::PutCloud {
            id,
            cloud_spec: Box::new(cloud_spec),
            clock: None,
            leaked: Vec::new(),
            cost: None,
            caller_mistakes: MistakesByCaller::new(),
        },
    );
    assert_eq!(put, Ok(Outcome::Accepted));
}

fn placed(name: &str, zone: &str, instance_type: &str) -> ResourceSpec {
    ResourceSpec {
        zone: Some(zone.into()),
        instance_type: Some(instance_type.into()),
        ..machine(name, &fixed(3))
    }
}

#[test]
fn offer_of_the_cloud_is_what_can_be_had() {
    let mut engine = small_cloud();
    let mut create = |name: &str, zone: &str, kind: &str| {
        ask(&mut engine, at(0), Request::Create(placed(name, zone, kind)))
            .map_err(|refused| (refused.category(), refused.class(), refused.to_string()))
    };
    assert_eq!(
        create("1", "z", "m.large"),
        Err((
            "UnknownZone",
            ErrorClass::WaitForChange,
            r#"zone "z" does not exist"#.into()
        ))
    );
    assert_eq!(
        create("1", "a", "huge"),
        Err((
            "UnknownInstanceType",
            ErrorClass::WaitForChange,
            "the cloud has no instance type huge; it has m.large".into()
        ))
    );
    assert_eq!(create("1", "a", "m.large"), Ok(Outcome::Accepted));
    assert_eq!(
        create("2", "a", "m.large"),
        Err((
            "InsufficientCapacity",
            ErrorClass::WaitForChange,
            r#"zone "a" has insufficient capacity"#.into()
        ))
    );
    assert_eq!(create("2", "b", "m.large"), Ok(Outcome::Accepted));
    assert_eq!(
        create("3", "b", "m.large"),
        Err((
            "QuotaExceeded",
            ErrorClass::WaitForChange,
            "quota of 2 instances is used up".into()
        ))
    );
    assert_eq!(create("1", "a", "m.large"), Ok(Outcome::AlreadyDone));
}

#[test]
fn quota_is_of_one_account_and_one_kind() {
    let mut engine = small_cloud();
    let mut create = |name: &str, namespace: &str, kind: ResourceKind| {
        let spec = ResourceSpec {
            id: ResourceId {
                namespace: namespace.into(),
                kind,
                ..id(name)
            },
            ..machine(name, &Latency::ZERO)
        };
        ask(&mut engine, at(0), Request::Create(spec))
    };
    assert_eq!(
        create("1", "blue", ResourceKind::LoadBalancer),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        create("2", "blue", ResourceKind::LoadBalancer),
        Err(CloudError::QuotaExceeded {
            of: ResourceKind::LoadBalancer,
            limit: 1
        })
    );
    assert_eq!(create("2", "blue", ResourceKind::Instance), Ok(Outcome::Accepted));
    assert_eq!(
        create("2", "green", ResourceKind::LoadBalancer),
        Ok(Outcome::Accepted)
    );
}

#[test]
fn room_is_free_again_when_a_deletion_is_done_whether_or_not_anyone_polled() {
    let mut engine = small_cloud();
    ask(&mut engine, at(0), Request::Create(placed("1", "a", "m.large"))).unwrap();
    ask(&mut engine, at(1), Request::Delete(id("1"))).unwrap();
    let mut create = |seconds| {
        ask(
            &mut engine,
            at(seconds),
            Request::Create(placed("2", "a", "m.large")),
        )
    };
    assert_eq!(create(3), Err(CloudError::InsufficientCapacity("a".into())));
    assert_eq!(create(4), Ok(Outcome::Accepted));
}

/// An instance that is made from a catalog, an instance type and an image.
fn made_from(name: &str, cloud_spec: &str, instance_type: &str, image: &str, version: &str) -> ResourceSpec {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    ResourceSpec {
        cloud_spec: cloud_spec.into(),
        instance_type: text(instance_type),
        image: text(image),
        version: text(version),
        ..machine(name, &fixed(3))
    }
}

#[test]
fn instance_consists_of_what_its_type_and_its_image_say_and_keeps_it() {
    let mut engine = engine();
    let images = vec![Image {
        name: "windows-2025".into(),
        operating_system: "windows".into(),
        kubernetes: vec!["1.36".into()],
    }];
    put(
        &mut engine,
        "north",
        CloudSpec {
            images,
            ..cloud_spec(&["m.large"])
        },
    );
    let made = Hardware {
        architecture: "arm64".into(),
        operating_system: "windows".into(),
        capacity: cloud_spec(&["m.large"]).instance_types[0].capacity(),
    };
    let spec = made_from("1", "north", "m.large", "windows-2025", "v1.36.3");
    ask(&mut engine, at(0), Request::Create(spec.clone())).unwrap();
    assert_eq!(engine.get(&id("1")).unwrap().hardware, made);
    // Instances without an instance type, and of a catalog that was never put.
    for (name, cloud_spec, kind) in [("2", "north", ""), ("3", "", "anything")] {
        ask(
            &mut engine,
            at(0),
            Request::Create(made_from(name, cloud_spec, kind, "", "")),
        )
        .unwrap();
        assert_eq!(engine.get(&id(name)).unwrap().hardware, Hardware::default());
    }
    put(&mut engine, "north", cloud_spec(&["m.small"]));
    assert_eq!(
        ask(&mut engine, at(1), Request::Create(spec.clone())),
        Ok(Outcome::AlreadyDone)
    );
    assert_eq!(engine.get(&id("1")).unwrap().hardware, made);
    // After a restart the instance has the recorded hardware. If none was recorded, it has the hardware that its type
    // has today.
    for (noted, expected) in [(Some(made.clone()), made), (None, Hardware::default())] {
        let mut engine = crate::cloud::engine();
        put(&mut engine, "north", cloud_spec(&["m.small"]));
        let adopt = Request::Adopt {
            spec: spec.clone(),
            previous: Box::new(Previous {
                created: at(0),
                hardware: noted,
                ..Previous::default()
            }),
        };
        ask(&mut engine, at(1), adopt).unwrap();
        assert_eq!(engine.get(&id("1")).unwrap().hardware, expected);
    }
}

#[test]
fn what_a_catalog_does_not_have_is_refused_by_name_with_what_it_has() {
    let mut engine = engine();
    let types: Vec<String> = (0..14).map(|number| format!("m{number}")).collect();
    let types: Vec<&str> = types.iter().map(String::as_str).collect();
    let kubernetes = vec!["1.34".into(), "1.35".into()];
    let images = vec![Image {
        name: "ubuntu".into(),
        operating_system: "linux".into(),
        kubernetes,
    }];
    put(
        &mut engine,
        "north",
        CloudSpec {
            images,
            ..cloud_spec(&types)
        },
    );
    for (spec, category, message) in [
        (
            made_from("1", "north", "large", "", ""),
            "UnknownInstanceType",
            "the cloud has no instance type large; it has m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11 and 2 more",
        ),
        (
            made_from("1", "north", "m1", "debian", ""),
            "UnknownImage",
            "the cloud has no image debian; it has ubuntu",
        ),
        (
            made_from("1", "north", "m1", "ubuntu", "v1.36.3"),
            "UnsupportedKubernetesVersion",
            "the image ubuntu has no Kubernetes v1.36.3; it has 1.34, 1.35",
        ),
        (
            made_from("1", "south", "", "", ""),
            "CloudNotFound",
            "the cloud has no catalog south",
        ),
    ] {
        let cloud_spec = ResourceId::cloud(id("m").namespace, &spec.cloud_spec);
        let ResourceSpec {
            instance_type,
            image,
            version,
            ..
        } = spec.clone();
        let model = Model {
            instance_type,
            image,
            version,
        };
        let refused = ask(&mut engine, at(0), Request::Create(spec)).unwrap_err();
        let seen = (refused.category(), refused.class(), refused.to_string());
        assert_eq!(seen, (category, ErrorClass::WaitForChange, message.to_owned()));
        // A model that is described before the creation gets the same answer.
        assert_eq!(engine.hardware(&cloud_spec, &model), Err(refused.clone()));
        assert_eq!(
            ask(&mut engine, at(0), Request::DescribeModel { cloud_spec, model }),
            Err(refused)
        );
    }
    // A request without a version, as from a template, gets the image.
    ask(
        &mut engine,
        at(0),
        Request::Create(made_from("1", "north", "m1", "ubuntu", "")),
    )
    .unwrap();
    // A deleted catalog offers nothing, and existing instances stay.
    let north = ResourceId::cloud(id("m").namespace, "north");
    assert_eq!(
        ask(&mut engine, at(1), Request::Describe(north.clone())),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        ask(&mut engine, at(1), Request::Delete(north.clone())),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        ask(&mut engine, at(1), Request::Delete(north)),
        Ok(Outcome::AlreadyDone)
    );
    let refused = ask(
        &mut engine,
        at(1),
        Request::Create(made_from("2", "north", "m1", "", "")),
    );
    assert_eq!(refused, Err(CloudError::UnknownCloud("north".into())));
    assert!(engine.get(&id("1")).is_some());
}

#[test]
fn catalog_is_put_and_never_created_and_nothing_else_is_put() {
    let mut engine = engine();
    let cloud_id = ResourceId::cloud(id("m").namespace, "north");
    let create = Request::Create(ResourceSpec {
        id: cloud_id.clone(),
        ..machine("m", &fixed(1))
    });
    assert_eq!(
        ask(&mut engine, at(0), create),
        Err(CloudError::Conflict(cloud_id))
    );
    let put = Request::PutCloud {
        id: id("m"),
        cloud_spec: Box::default(),
        clock: None,
        leaked: Vec::new(),
        cost: None,
        caller_mistakes: MistakesByCaller::new(),
    };
    assert_eq!(ask(&mut engine, at(0), put), Err(CloudError::Conflict(id("m"))));
}

/// The resources that were told that there is room, with the times, in order.
fn told(engine: &Watched) -> Vec<(SimTime, Capacity, String)> {
    let freed = |entry: &Arc<Entry>| match &entry.record {
        Record::CapacityFreed {
            at,
            capacity,
            waiting,
        } => Some((*at, capacity.clone(), waiting.name.clone())),
        _ => None,
    };
    engine.journal().since(1).filter_map(freed).collect()
}

fn quota() -> Capacity {
    Capacity::Quota {
        namespace: id("m").namespace,
        kind: ResourceKind::Instance,
    }
}

#[test]
fn who_was_refused_first_is_told_first_and_as_many_as_fit() {
    let mut engine = small_cloud();
    let create = |name: &str, zone: &str| Request::Create(placed(name, zone, "m.large"));
    for (name, zone) in [("1", "a"), ("2", "b")] {
        ask(&mut engine, at(0), create(name, zone)).unwrap();
    }
    for (name, zone) in [("z", "b"), ("y", "a"), ("x", "b"), ("w", "b"), ("z", "b")] {
        ask(&mut engine, at(1), create(name, zone)).unwrap_err();
    }
    let waiting: Vec<_> = engine.waiting().map(|id| id.name.as_str()).collect();
    assert_eq!(waiting, ["w", "x", "y", "z"]);
    // A place in the zone of y and a place in the account become free at the same time.
    ask(&mut engine, at(2), Request::Delete(id("1"))).unwrap();
    assert_eq!(told(&engine), [], "its deletion takes three seconds");
    engine.poll(at(9));
    let first = [
        (at(5), quota(), "z".into()),
        (at(5), Capacity::Zone("a".into()), "y".into()),
    ];
    assert_eq!(told(&engine), first);
    assert_eq!(ask(&mut engine, at(9), create("z", "b")), Ok(Outcome::Accepted));
    // There is room for y in its zone, but no longer in its account. It keeps its old place in the line.
    let exceeded = CloudError::QuotaExceeded {
        of: ResourceKind::Instance,
        limit: 2,
    };
    assert_eq!(ask(&mut engine, at(9), create("y", "a")), Err(exceeded));
    for name in ["2", "z"] {
        ask(&mut engine, at(10), Request::Delete(id(name))).unwrap();
    }
    engine.poll(at(19));
    let next = ["y", "x"].map(|name| (at(13), quota(), name.into()));
    assert_eq!(told(&engine)[2..], next);
}

#[test]
fn who_gives_up_or_does_not_ask_in_time_makes_way_for_the_next() {
    let mut engine = small_cloud();
    let create = |name: &str| Request::Create(placed(name, "a", "m.large"));
    ask(&mut engine, at(0), create("1")).unwrap();
    for name in ["x", "y", "z"] {
        ask(&mut engine, at(1), create(name)).unwrap_err();
    }
    ask(&mut engine, at(2), Request::Delete(id("1"))).unwrap();
    engine.poll(at(6));
    assert_eq!(
        ask(&mut engine, at(7), Request::Delete(id("x"))),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        ask(&mut engine, at(7), Request::Delete(id("x"))),
        Ok(Outcome::AlreadyDone)
    );
    assert_eq!(engine.next_deadline(), Some(at(17)));
    engine.poll(at(60));
    let capacity = Capacity::Zone("a".into());
    assert_eq!(
        told(&engine),
        [(5, "x"), (7, "y"), (17, "z")].map(|(seconds, name)| (at(seconds), capacity.clone(), name.into()))
    );
    assert_eq!((engine.waiting().count(), engine.next_deadline()), (0, None));
}

#[test]
fn adopted_resource_is_there_whatever_the_limits_say_and_counts() {
    let mut engine = small_cloud();
    for name in ["1", "2"] {
        let spec = placed(name, "a", "m.large");
        let adopt = Request::Adopt {
            spec,
            previous: Box::new(Previous {
                created: at(0),
                ..Previous::default()
            }),
        };
        assert_eq!(ask(&mut engine, at(0), adopt), Ok(Outcome::Accepted));
    }
    assert_eq!(
        ask(&mut engine, at(0), Request::Create(placed("3", "b", "m.large"))),
        Err(CloudError::QuotaExceeded {
            of: ResourceKind::Instance,
            limit: 2
        })
    );
}

#[test]
fn room_is_kept_for_what_was_there_before_until_it_is_back_or_deleted() {
    let mut engine = small_cloud();
    let reserve = |name: &str, zone: &str| Request::Reserve {
        id: id(name),
        footprint: Footprint {
            zone: Some(zone.into()),
            ..Footprint::default()
        },
    };
    let create = |name: &str, zone: &str| Request::Create(placed(name, zone, "m.large"));
    assert_eq!(ask(&mut engine, at(0), reserve("1", "a")), Ok(Outcome::Accepted));
    assert_eq!(
        ask(&mut engine, at(0), reserve("1", "a")),
        Ok(Outcome::AlreadyDone)
    );
    assert_eq!(
        ask(&mut engine, at(0), reserve("2", "a")),
        Ok(Outcome::Accepted),
        "no limit refuses it"
    );
    assert_eq!(
        ask(&mut engine, at(1), create("3", "a")),
        Err(CloudError::InsufficientCapacity("a".into()))
    );
    assert_eq!(
        ask(&mut engine, at(1), create("3", "b")),
        Err(CloudError::QuotaExceeded {
            of: ResourceKind::Instance,
            limit: 2
        })
    );
    assert_eq!(ask(&mut engine, at(1), create("1", "a")), Ok(Outcome::Accepted));
    assert_eq!(
        ask(&mut engine, at(1), reserve("1", "a")),
        Ok(Outcome::AlreadyDone)
    );
    assert!(engine.reserved().eq([&id("2")]));
    assert_eq!(
        ask(&mut engine, at(2), Request::Delete(id("2"))),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        ask(&mut engine, at(2), Request::Delete(id("2"))),
        Ok(Outcome::AlreadyDone)
    );
    assert_eq!(ask(&mut engine, at(2), create("3", "b")), Ok(Outcome::Accepted));
}

#[test]
fn adopted_resource_keeps_what_it_reached_and_continues_from_there() {
    let mut engine = engine();
    let reached_before = BTreeMap::from([("vm".into(), at(2)), ("unheard-of".into(), at(3))]);
    let adopt = || Request::Adopt {
        spec: machine("m", &fixed(2)),
        previous: Box::new(Previous {
            created: at(0),
            reached: reached_before.clone(),
            ..Previous::default()
        }),
    };
    assert_eq!(ask(&mut engine, at(3), adopt()), Ok(Outcome::Accepted));
    assert_eq!(ask(&mut engine, at(3), adopt()), Ok(Outcome::AlreadyDone));
    assert_eq!(
        engine.poll(at(5)),
        [event(4, 3, reached("node"))],
        "node was entered when vm was reached, not when the machine was adopted"
    );
    assert_eq!(
        reached_stages(&engine, &id("m")),
        BTreeMap::from([("vm".into(), at(2)), ("node".into(), at(4))])
    );
}

#[test]
fn resource_is_not_adopted_as_created_in_the_future() {
    let mut engine = engine();
    let adopt = Request::Adopt {
        spec: machine("m", &fixed(2)),
        previous: Box::new(Previous {
            created: at(1000),
            ..Previous::default()
        }),
    };
    ask(&mut engine, at(3), adopt).unwrap();
    assert_eq!(engine.get(&id("m")).unwrap().created, at(3));
}

fn update(name: &str, since: u64, latency: Latency) -> Request {
    update_to(name, name, since, latency)
}

fn update_to(to: &str, name: &str, since: u64, latency: Latency) -> Request {
    Request::Update(
        id("m"),
        UpdateSpec {
            name: name.into(),
            to: to.into(),
            since: at(since),
            latency,
        },
    )
}

#[test]
fn how_long_an_update_takes_is_drawn_by_what_it_changes_to_and_not_by_when_it_was_asked_for() {
    let jittered = Latency::Jittered {
        base: Duration::from_secs(1000),
        fraction: 1.0,
    };
    let took = |to: &str, name: &str, since: u64| {
        let mut engine = engine();
        ask(&mut engine, at(1), Request::Create(machine("m", &Latency::ZERO))).unwrap();
        engine.poll(at(2));
        ask(
            &mut engine,
            at(since),
            update_to(to, name, since, jittered.clone()),
        )
        .unwrap();
        engine.next_deadline().map(|due| due.since(at(since)))
    };
    assert_eq!(took("v2", "asked at 10", 10), took("v2", "asked at 11", 11));
    assert_ne!(took("v2", "asked at 10", 10), took("v3", "asked at 10", 10));
}

#[test]
fn update_takes_its_time_once_and_the_last_one_asked_for_counts() {
    let mut engine = engine();
    ask(&mut engine, at(1), Request::Create(machine("m", &Latency::ZERO))).unwrap();
    engine.poll(at(2));
    assert_eq!(
        ask(&mut engine, at(10), update("one", 10, fixed(5))),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        ask(&mut engine, at(11), update("one", 11, fixed(9))),
        Ok(Outcome::AlreadyDone)
    );
    assert_eq!(engine.next_deadline(), Some(at(15)));
    assert_eq!(
        ask(&mut engine, at(12), update("two", 12, fixed(5))),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        engine.poll(at(60)),
        [event(17, 8, EventKind::Updated("two".into()))]
    );
    let over = Update {
        name: "two".into(),
        state: UpdateState::Over {
            since: at(12),
            at: at(17),
        },
    };
    assert_eq!(
        engine.get(&id("m")).and_then(|machine| machine.update.clone()),
        Some(over)
    );
    assert_eq!(
        ask(&mut engine, at(61), update("two", 12, fixed(5))),
        Ok(Outcome::AlreadyDone)
    );
    assert_eq!(engine.next_deadline(), None);
}

#[test]
fn update_that_began_before_is_due_when_it_would_have_been_and_none_begins_in_the_future() {
    let mut engine = engine();
    ask(&mut engine, at(1), Request::Create(machine("m", &Latency::ZERO))).unwrap();
    engine.poll(at(2));
    ask(&mut engine, at(20), update("before", 10, fixed(15))).unwrap();
    assert_eq!(engine.next_deadline(), Some(at(25)));
    ask(&mut engine, at(21), update("after", 90, fixed(15))).unwrap();
    assert_eq!(engine.next_deadline(), Some(at(36)));
}

#[test]
fn what_goes_or_is_not_there_is_not_updated() {
    let mut engine = engine();
    let none = CloudError::NotFound(id("m"));
    assert_eq!(ask(&mut engine, at(0), update("one", 0, fixed(5))), Err(none));
    let spec = ResourceSpec {
        deletion: Some(fixed(50)),
        ..machine("m", &Latency::ZERO)
    };
    ask(&mut engine, at(1), Request::Create(spec)).unwrap();
    engine.poll(at(2));
    ask(&mut engine, at(3), update("one", 3, fixed(5))).unwrap();
    ask(&mut engine, at(4), Request::Delete(id("m"))).unwrap();
    let deleting = CloudError::Deleting(id("m"));
    assert_eq!(ask(&mut engine, at(5), update("two", 5, fixed(5))), Err(deleting));
    let events = engine.poll(at(60));
    assert_eq!(
        events.into_iter().map(|event| event.kind).collect::<Vec<_>>(),
        [EventKind::Deleted]
    );
}

/// The stage was reached at 2 and the machine deleted at 3, although the first poll came at 9.
#[test]
fn what_was_due_before_an_operation_happens_before_it() {
    let mut engine = engine();
    let spec = ResourceSpec {
        deletion: Some(fixed(1)),
        ..machine("m", &fixed(2))
    };
    ask(&mut engine, at(0), Request::Create(spec)).unwrap();
    ask(&mut engine, at(3), Request::Delete(id("m"))).unwrap();
    assert_eq!(
        engine.poll(at(9)),
        [event(2, 2, reached("vm")), event(4, 4, EventKind::Deleted)]
    );
}

#[test]
fn absurd_durations_saturate() {
    let mut engine = engine();
    let forever = Latency::Jittered {
        base: Duration::MAX,
        fraction: f64::MAX,
    };
    let end = SimTime::from_millis(u64::MAX);
    ask(&mut engine, end, Request::Create(machine("m", &forever))).unwrap();
    assert_eq!(engine.next_deadline(), Some(end));
    assert_eq!(engine.poll(end).len(), 4);
    ask(&mut engine, end, Request::Delete(id("m"))).unwrap();
    assert_eq!(engine.poll(end).len(), 1);
}

#[test]
fn jitter_comes_on_top_of_the_base_and_uniform_stays_between_its_bounds() {
    let seconds = Duration::from_secs;
    let cases = [
        (
            Latency::Jittered {
                base: seconds(10),
                fraction: 0.5,
            },
            10_000..15_000,
        ),
        (
            Latency::Uniform {
                min: seconds(2),
                max: seconds(5),
            },
            2_000..5_000,
        ),
        (
            Latency::Uniform {
                min: seconds(5),
                max: seconds(2),
            },
            2_000..5_000,
        ),
        (
            Latency::Jittered {
                base: seconds(10),
                fraction: -1.0,
            },
            10_000..10_001,
        ),
        (
            Latency::Jittered {
                base: seconds(10),
                fraction: f64::INFINITY,
            },
            10_000..10_001,
        ),
    ];
    for (latency, range) in cases {
        let mut engine = engine();
        for number in 0..200 {
            let spec = ResourceSpec {
                stages: vec![stage("vm", &[], &latency)],
                ..machine(&number.to_string(), &latency)
            };
            ask(&mut engine, at(0), Request::Create(spec)).unwrap();
        }
        let ends: BTreeSet<_> = engine
            .poll(at(1000))
            .iter()
            .map(|event| event.at.as_millis())
            .collect();
        assert!(ends.iter().all(|end| range.contains(end)), "{latency:?} {ends:?}");
        let spread = range.end - range.start;
        let covered = ends.last().unwrap() - ends.first().unwrap();
        assert!(
            covered >= (spread - 1) * 9 / 10,
            "{latency:?} covers {covered} of {spread} ms"
        );
    }
}

/// A seed promises the same draws on every machine and in every release. The times were computed with another
/// implementation of SHA-256 and `ChaCha8`.
#[test]
fn draws_of_a_seed_never_change() {
    let mut engine = engine();
    let spec = machine(
        "m",
        &Latency::Jittered {
            base: Duration::from_secs(10),
            fraction: 0.5,
        },
    );
    ask(&mut engine, at(0), Request::Create(spec)).unwrap();
    let ends: Vec<_> = engine
        .poll(at(1000))
        .iter()
        .map(|event| event.at.as_millis())
        .collect();
    assert_eq!(ends, [12_521, 24_913, 36_190, 37_729]);
    let digest: String = engine.digest()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(digest, "dca10db0896b5524");
}

/// The seed of a catalog is the key of the draws of its own resources only, whatever the seed of the cloud.
#[test]
fn seed_of_a_catalog_is_that_of_what_is_made_from_it() {
    let ends = |seed: &str, cloud_spec: &str| {
        let mut engine = Watched::new(Config::default(), seed);
        let seeded = CloudSpec {
            seed: Some(Seed::new("amber-otter-lamp")),
            ..CloudSpec::default()
        };
        put(&mut engine, "seeded", seeded);
        put(&mut engine, "plain", CloudSpec::default());
        let latency = Latency::Jittered {
            base: Duration::from_secs(10),
            fraction: 0.5,
        };
        let spec = ResourceSpec {
            cloud_spec: cloud_spec.into(),
            ..machine("m", &latency)
        };
        ask(&mut engine, at(0), Request::Create(spec)).unwrap();
        let mut ends: Vec<_> = engine
            .poll(at(1000))
            .iter()
            .map(|event| event.at.as_millis())
            .collect();
        ask(&mut engine, at(1000), Request::Delete(id("m"))).unwrap();
        ends.extend(engine.poll(at(2000)).iter().map(|event| event.at.as_millis()));
        ends
    };
    let golden = [12_521, 24_913, 36_190, 37_729];
    assert_eq!(ends("amber-otter-lamp", "plain")[..4], golden);
    assert_eq!(
        ends("amber-otter-lamp", "seeded"),
        ends("amber-otter-lamp", "plain")
    );
    assert_eq!(ends("another", "seeded"), ends("amber-otter-lamp", "plain"));
    assert_ne!(ends("another", "plain"), ends("amber-otter-lamp", "plain"));
}

#[test]
fn draws_differ_between_seeds_names_and_stages() {
    let jittered = Latency::Jittered {
        base: Duration::from_secs(1000),
        fraction: 1.0,
    };
    let latencies = |seed: &str, name: &str| {
        let mut engine = Watched::new(Config::default(), seed);
        let stages = vec![stage("vm", &[], &jittered), stage("node", &[], &jittered)];
        ask(
            &mut engine,
            at(0),
            Request::Create(ResourceSpec {
                stages,
                ..machine(name, &jittered)
            }),
        )
        .unwrap();
        ask(&mut engine, at(0), Request::Create(machine("other", &jittered))).unwrap();
        let state = |stage: &str| {
            engine
                .get(&id(name))
                .unwrap()
                .stage(&stage.into())
                .unwrap()
                .clone()
        };
        [state("vm"), state("node")]
    };
    let mut seen = Vec::from(latencies("a", "m"));
    seen.extend(latencies("b", "m"));
    seen.extend(latencies("a", "n"));
    for (index, state) in seen.iter().enumerate() {
        assert!(!seen[..index].contains(state), "{seen:?}");
    }
    assert_eq!(latencies("a", "m"), seen[..2]);
}

#[test]
fn machines_of_one_place_in_a_set_draw_the_same_whatever_their_names() {
    let jittered = Latency::Jittered {
        base: Duration::from_secs(1000),
        fraction: 1.0,
    };
    let ends = |name: &str, set: &str, ordinal: u32| {
        let mut engine = engine();
        let seed_key = Some(SeedKey {
            owner_set: set.to_owned(),
            ordinal,
        });
        ask(
            &mut engine,
            at(0),
            Request::Create(ResourceSpec {
                seed_key,
                ..machine(name, &jittered)
            }),
        )
        .unwrap();
        engine
            .poll(at(10_000))
            .iter()
            .map(|event| event.at)
            .collect::<Vec<_>>()
    };
    let first = ends("random-1", "workers", 0);
    assert_eq!(ends("random-2", "workers", 0), first);
    for other in [
        ends("random-1", "workers", 1),
        ends("random-1", "control-plane", 0),
    ] {
        assert_ne!(other, first);
    }
}

/// A cloud with a load balancer `l` and a machine `m` whose stages take two seconds each.
fn balanced() -> Watched {
    let mut engine = engine();
    let endpoint = Some(Endpoint {
        host: "10.0.0.1".into(),
        port: 6443,
    });
    let balancer = ResourceSpec {
        endpoint,
        ..ResourceSpec::new(load_balancer("l"))
    };
    ask(&mut engine, at(0), Request::Create(balancer)).expect("there is room");
    ask(&mut engine, at(0), Request::Create(machine("m", &fixed(2)))).expect("there is room");
    engine
}

fn in_service(engine: &Engine) -> Vec<&str> {
    engine.in_service(&load_balancer("l")).collect()
}

/// The events of the load balancer since the last poll.
fn told_by_load_balancer(engine: &mut Watched, seconds: u64) -> Vec<(SimTime, EventKind)> {
    let events = engine.poll(at(seconds)).into_iter();
    events
        .filter(|event| event.id == load_balancer("l"))
        .map(|event| (event.at, event.kind))
        .collect()
}

fn up(name: &str) -> EventKind {
    EventKind::BackendInService(name.into())
}

fn down(name: &str) -> EventKind {
    EventKind::BackendOutOfService(name.into())
}

#[test]
fn backend_is_in_service_from_its_stage_until_its_deletion_begins() {
    let mut engine = balanced();
    assert_eq!(
        ask(&mut engine, at(1), register("l", "m", "node")),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        (told_by_load_balancer(&mut engine, 3), in_service(&engine)),
        (vec![], vec![])
    );
    assert_eq!(told_by_load_balancer(&mut engine, 5), [(at(4), up("m"))]);
    assert_eq!(in_service(&engine), ["m"]);
    ask(&mut engine, at(6), Request::Delete(id("m"))).unwrap();
    assert_eq!(in_service(&engine), [""; 0]);
    assert!(
        engine
            .get(&load_balancer("l"))
            .unwrap()
            .backends
            .contains_key("m"),
        "it is not gone yet"
    );
    assert_eq!(told_by_load_balancer(&mut engine, 9), [(at(6), down("m"))]);
    assert_eq!(engine.get(&load_balancer("l")).unwrap().backends, BTreeMap::new());
    // A new instance of the same name is not registered.
    ask(&mut engine, at(10), Request::Create(machine("m", &Latency::ZERO))).unwrap();
    assert_eq!(
        (told_by_load_balancer(&mut engine, 20), in_service(&engine)),
        (vec![], vec![])
    );
}

#[test]
fn what_a_load_balancer_makes_of_something_is_recorded_right_after_it() {
    let mut engine = balanced();
    ask(&mut engine, at(1), register("l", "m", "vm")).unwrap();
    ask(&mut engine, at(3), Request::Delete(id("m"))).unwrap();
    let record = |entry: &Arc<Entry>| match &entry.record {
        Record::Operation { operation, .. } => operation.verb().to_owned(),
        Record::Event(event) => format!("{:?} {}", event.kind, event.generation),
        other => format!("{other:?}"),
    };
    assert_eq!(
        engine.journal().since(3).map(record).collect::<Vec<_>>(),
        [
            "RegisterBackend",
            "StageReached(StageName(\"vm\")) 2",
            "BackendInService(\"m\") 3",
            "DeleteInstance",
            "BackendOutOfService(\"m\") 4",
        ]
    );
}

#[test]
fn backend_that_is_up_is_in_service_at_once_and_out_of_it_when_it_is_deregistered() {
    let mut engine = balanced();
    engine.poll(at(20));
    assert_eq!(
        ask(&mut engine, at(21), register("l", "m", "node")),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        ask(&mut engine, at(22), register("l", "m", "node")),
        Ok(Outcome::AlreadyDone)
    );
    // The instance has already reached the other stage as well, so it stays in service.
    assert_eq!(
        ask(&mut engine, at(23), register("l", "m", "etcd")),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        ask(&mut engine, at(24), deregister("l", "m")),
        Ok(Outcome::Accepted)
    );
    assert_eq!(
        ask(&mut engine, at(25), deregister("l", "m")),
        Ok(Outcome::AlreadyDone)
    );
    assert_eq!(in_service(&engine), [""; 0]);
    assert_eq!(
        told_by_load_balancer(&mut engine, 30),
        [(at(21), up("m")), (at(24), down("m"))]
    );
    // A backend that is deregistered before it is up is never in service.
    ask(&mut engine, at(31), Request::Create(machine("n", &fixed(2)))).unwrap();
    ask(&mut engine, at(31), register("l", "n", "vm")).unwrap();
    ask(&mut engine, at(32), deregister("l", "n")).unwrap();
    assert_eq!(told_by_load_balancer(&mut engine, 60), []);
}

#[test]
fn backend_that_was_there_before_a_restart_is_in_service_again_when_it_is_registered() {
    let mut engine = balanced();
    let reached = ["vm", "node", "etcd"].map(|stage| (stage.into(), at(3))).into();
    let spec = machine("n", &fixed(2));
    let adopt = Request::Adopt {
        spec,
        previous: Box::new(Previous {
            created: at(0),
            reached,
            ..Previous::default()
        }),
    };
    ask(&mut engine, at(9), adopt).unwrap();
    ask(&mut engine, at(9), register("l", "n", "etcd")).unwrap();
    assert_eq!(told_by_load_balancer(&mut engine, 9), [(at(9), up("n"))]);
}

#[test]
fn only_what_is_there_beside_a_load_balancer_is_registered_with_it() {
    let mut engine = balanced();
    let elsewhere = ResourceSpec {
        id: ResourceId {
            cluster: "elsewhere".into(),
            ..id("e")
        },
        ..machine("e", &Latency::ZERO)
    };
    ask(&mut engine, at(1), Request::Create(elsewhere)).unwrap();
    ask(&mut engine, at(1), Request::Create(machine("going", &fixed(60)))).unwrap();
    ask(&mut engine, at(2), Request::Delete(id("going"))).unwrap();
    let refused = [
        (register("x", "m", "vm"), CloudError::NotFound(load_balancer("x"))),
        (register("l", "e", "vm"), CloudError::NotFound(id("e"))),
        (register("l", "l", "vm"), CloudError::NotFound(id("l"))),
        (register("l", "going", "vm"), CloudError::Deleting(id("going"))),
        (register("l", "m", "other"), CloudError::InvalidStage(id("m"))),
        (
            Request::RegisterBackend {
                load_balancer: id("m"),
                instance: "m".into(),
                in_service_from: "vm".into(),
            },
            CloudError::Conflict(id("m")),
        ),
        (
            Request::DeregisterBackend {
                load_balancer: id("m"),
                instance: "m".into(),
            },
            CloudError::Conflict(id("m")),
        ),
    ];
    for (request, error) in refused {
        assert_eq!(ask(&mut engine, at(3), request), Err(error));
    }
    assert_eq!(
        ask(&mut engine, at(3), deregister("x", "m")),
        Ok(Outcome::AlreadyDone)
    );
}

#[test]
fn load_balancer_keeps_its_endpoint_and_leads_nowhere_once_its_deletion_begins() {
    let mut engine = balanced();
    ask(&mut engine, at(1), register("l", "m", "vm")).unwrap();
    let endpoint = Some(Endpoint {
        host: "10.0.0.1".into(),
        port: 6443,
    });
    let at_port = |port| {
        let endpoint = Some(Endpoint {
            host: "10.0.0.1".into(),
            port,
        });
        Request::Create(ResourceSpec {
            endpoint,
            deletion: Some(fixed(5)),
            ..ResourceSpec::new(load_balancer("l"))
        })
    };
    let conflict = CloudError::Conflict(load_balancer("l"));
    assert_eq!(ask(&mut engine, at(1), at_port(6444)), Err(conflict));
    assert_eq!(
        ask(&mut engine, at(1), at_port(6443)),
        Ok(Outcome::Accepted),
        "only its deletion changes"
    );
    assert_eq!(engine.get(&load_balancer("l")).unwrap().spec.endpoint, endpoint);
    assert_eq!(
        (told_by_load_balancer(&mut engine, 3), in_service(&engine)),
        (vec![(at(2), up("m"))], vec!["m"])
    );
    ask(&mut engine, at(4), Request::Delete(load_balancer("l"))).unwrap();
    assert_eq!(in_service(&engine), [""; 0]);
    let deleting = CloudError::Deleting(load_balancer("l"));
    assert_eq!(ask(&mut engine, at(5), register("l", "m", "node")), Err(deleting));
    // After the end of the load balancer, no further events are recorded for it.
    ask(&mut engine, at(6), Request::Delete(id("m"))).unwrap();
    assert_eq!(
        told_by_load_balancer(&mut engine, 20),
        [(at(9), EventKind::Deleted)]
    );
    assert!(engine.get(&load_balancer("l")).is_none());
}

#[test]
fn state_with_a_backend_that_cannot_be_is_none() {
    let mut engine = balanced();
    ask(&mut engine, at(1), register("l", "m", "vm")).unwrap();
    let state = engine.state();
    assert_eq!(Engine::from_state(state.clone()).unwrap().state(), state);
    for (index, kind) in [ResourceKind::Instance, ResourceKind::LoadBalancer]
        .into_iter()
        .enumerate()
    {
        let mut broken = state.clone();
        assert_eq!(broken.resources[index].spec.id.kind, kind);
        broken.resources[index].backends = [("gone".to_owned(), "vm".into())].into();
        let id = broken.resources[index].spec.id.clone();
        assert_eq!(Engine::from_state(broken).unwrap_err(), StateError::Backend(id));
    }
}

#[test]
fn digest_tells_any_difference_of_state() {
    let digest = |change: &dyn Fn(&mut ResourceSpec), requests: &[Request]| {
        let mut engine = engine();
        let mut spec = machine("m", &fixed(2));
        change(&mut spec);
        ask(&mut engine, at(0), Request::Create(spec)).unwrap();
        for request in requests {
            ask(&mut engine, at(1), request.clone()).unwrap();
        }
        engine.digest()
    };
    let same = |_: &mut ResourceSpec| {};
    let digests = [
        digest(&same, &[]),
        digest(&|spec| spec.id.name = "n".into(), &[]),
        digest(&|spec| spec.id.kind = ResourceKind::LoadBalancer, &[]),
        digest(
            &|spec| {
                spec.seed_key = Some(SeedKey {
                    owner_set: "a".into(),
                    ordinal: 0,
                });
            },
            &[],
        ),
        digest(&|spec| spec.zone = Some("a".into()), &[]),
        digest(&|spec| spec.region = Some("a".into()), &[]),
        digest(&|spec| spec.instance_type = Some("a".into()), &[]),
        digest(&|spec| spec.image = Some("a".into()), &[]),
        digest(&|spec| spec.version = Some("a".into()), &[]),
        digest(
            &|spec| {
                spec.endpoint = Some(Endpoint {
                    host: "a".into(),
                    port: 6443,
                });
            },
            &[],
        ),
        digest(&|spec| spec.owner = Some(id("set")), &[]),
        digest(&|spec| drop(spec.labels.insert("a".into(), "b".into())), &[]),
        digest(&|spec| spec.stages[3].after.clear(), &[]),
        digest(&|spec| spec.stages[3].latency = Some(fixed(9)), &[]),
        digest(&|spec| spec.stages[3].failure = Odds::new(0.1), &[]),
        digest(&|spec| spec.deletion = Some(fixed(9)), &[]),
        digest(&same, &[Request::Delete(id("m"))]),
        digest(&same, &[Request::Create(machine("n", &fixed(2)))]),
        digest(&same, &[Request::Create(ResourceSpec::new(load_balancer("l")))]),
        digest(
            &same,
            &[
                Request::Create(ResourceSpec::new(load_balancer("l"))),
                register("l", "m", "vm"),
            ],
        ),
        digest(
            &same,
            &[
                Request::Create(ResourceSpec::new(load_balancer("l"))),
                register("l", "m", "node"),
            ],
        ),
        engine().digest(),
    ];
    for (index, digest) in digests.iter().enumerate() {
        assert!(!digests[..index].contains(digest), "case {index}");
    }
    assert_eq!(
        digest(&same, &[Request::Create(machine("m", &fixed(2)))]),
        digests[0]
    );
}

#[test]
fn operation_is_called_what_clouds_call_it() {
    let verb = |request| operation(at(0), request).verb();
    let balancer = load_balancer("m");
    assert_eq!(
        verb(Request::Create(machine("m", &Latency::ZERO))),
        "CreateInstance"
    );
    assert_eq!(
        verb(Request::Create(ResourceSpec::new(balancer.clone()))),
        "CreateLoadBalancer"
    );
    assert_eq!(verb(Request::Describe(balancer.clone())), "DescribeLoadBalancer");
    assert_eq!(verb(Request::Delete(balancer)), "DeleteLoadBalancer");
    assert_eq!(verb(register("m", "n", "vm")), "RegisterBackend");
    assert_eq!(verb(deregister("m", "n")), "DeregisterBackend");
    let cloud_spec = ResourceId::cloud("default", "north");
    assert_eq!(verb(Request::Delete(cloud_spec.clone())), "DeleteCatalog");
    assert_eq!(
        verb(Request::PutCloud {
            id: cloud_spec,
            cloud_spec: Box::default(),
            clock: None,
            leaked: Vec::new(),
            cost: None,
            caller_mistakes: MistakesByCaller::new()
        }),
        "PutCatalog"
    );
}

#[test]
fn journal_keeps_operations_and_events_in_one_order_and_leaves_repeats_out() {
    let mut engine = engine();
    let create = || Request::Create(machine("m", &fixed(2)));
    ask(&mut engine, at(0), create()).unwrap();
    ask(&mut engine, at(1), create()).unwrap();
    ask(&mut engine, at(3), Request::Delete(id("m"))).unwrap();
    ask(&mut engine, at(3), create()).unwrap_err();
    // A successful read changes nothing and is not recorded. A refused read is.
    let describe = |name: &str| Request::Describe(id(name));
    assert_eq!(ask(&mut engine, at(3), describe("m")), Ok(Outcome::Accepted));
    ask(&mut engine, at(3), describe("n")).unwrap_err();
    engine.poll(at(3));
    let records: Vec<_> = engine
        .journal()
        .since(1)
        .map(|entry| (entry.sequence, entry.record.clone()))
        .collect();
    let operation = |seconds, request, outcome| Record::Operation {
        operation: Box::new(operation(at(seconds), request)),
        outcome,
        faults: vec![],
        is_hit: false,
    };
    let took = Some(Took {
        time: Duration::from_secs(2),
        is_all: false,
    });
    assert_eq!(
        records,
        [
            (1, operation(0, create(), Outcome::Accepted)),
            (
                2,
                Record::Event(Event {
                    took,
                    ..event(2, 2, reached("vm"))
                })
            ),
            (3, operation(3, Request::Delete(id("m")), Outcome::Accepted)),
            (
                4,
                operation(3, create(), Outcome::Refused(CloudError::Deleting(id("m"))))
            ),
            (
                5,
                operation(3, describe("n"), Outcome::Refused(CloudError::NotFound(id("n"))))
            ),
        ]
    );
}
