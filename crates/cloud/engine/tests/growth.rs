//! Work does not grow faster than what it concerns: what has nothing to do with an operation costs it nothing, and an operation
//! about many resources costs about the same for each. What counts is the steps of the engine, not time.

use std::{collections::BTreeMap, time::Duration};

use nephele_engine::{
    ActiveEffect, ClockSetting, CloudSpec, Config, Effect, Engine, Fault, Footprint, Latency,
    MistakesByCaller, Notice, NoticeEnd, Outcome, Previous, Request, ResourceSpec, Seed, UpdateSpec,
};
use nephele_model::{
    Budget, FailureReason, FaultRecord, Market, Matches, Requirement, ResourceId, ResourceKind, Schedule,
    SeedKey, Selector, SimTime, VisibleEffect, steps,
};

use crate::{
    cloud::{at, machine, operation},
    faults::put,
};

/// How many resources there are first. Later there are four times as many.
const FEW: usize = 200;
/// By how much the work about all of them may grow then. Maps make it somewhat more than 4; it would be 16 if each looked at all.
const LINEAR: u64 = 6;
/// How many machines a cluster has.
const CLUSTER: usize = 20;

fn ask(engine: &mut Engine, now: SimTime, request: Request) {
    let target = request.target().to_string();
    let outcome = engine.apply(operation(now, request));
    assert!(matches!(outcome, Outcome::Accepted), "{target}: {outcome:?}");
}

fn measured(work: impl FnOnce()) -> u64 {
    let before = steps();
    work();
    steps() - before
}

/// Checks the work about all of some resources, or of one of them after another.
#[track_caller]
fn assert_linear(work: impl Fn(usize) -> u64) {
    let few = work(FEW);
    let many = work(4 * FEW);
    assert!(few > FEW as u64, "{few} steps: nothing was done");
    assert!(
        many < few * LINEAR,
        "{few} steps about {FEW} resources, {many} about four times as many"
    );
}

/// Checks the work of an operation that has nothing to do with most of the resources. Maps make it somewhat more.
#[track_caller]
fn assert_constant(work: impl Fn(usize) -> u64) {
    let few = work(FEW);
    let many = work(4 * FEW);
    assert!(few > 0, "nothing was done");
    assert!(
        2 * many < 3 * few,
        "{few} steps beside {FEW} resources, {many} beside four times as many"
    );
}

fn cluster(number: usize) -> String {
    format!("c{:04}", number / CLUSTER)
}

fn id(namespace: &str, number: usize) -> ResourceId {
    let namespace = namespace.to_owned();
    let kind = ResourceKind::Instance;
    ResourceId {
        namespace,
        cluster: cluster(number),
        kind,
        name: format!("m{number:05}"),
    }
}

fn balancer(namespace: &str, number: usize) -> ResourceId {
    ResourceId {
        kind: ResourceKind::LoadBalancer,
        name: "lb".into(),
        ..id(namespace, number)
    }
}

fn spec(namespace: &str, number: usize) -> ResourceSpec {
    let ordinal = u32::try_from(number).expect("few");
    ResourceSpec {
        id: id(namespace, number),
        cloud_spec: "north".into(),
        market: Market::Spot,
        seed_key: Some(SeedKey {
            owner_set: "set".into(),
            ordinal,
        }),
        labels: BTreeMap::from([("pool".into(), format!("p{number}"))]),
        ..machine("", &Latency::Fixed(Duration::from_secs(1)))
    }
}

fn spec_of_balancer(namespace: &str, number: usize) -> ResourceSpec {
    let labels = BTreeMap::from([("cluster".into(), cluster(number))]);
    ResourceSpec {
        cloud_spec: "north".into(),
        labels,
        ..ResourceSpec::new(balancer(namespace, number))
    }
}

fn fill(engine: &mut Engine, namespace: &str, machines: usize) {
    ask(engine, at(0), put_cloud(namespace, 1_000_000));
    for number in 0..machines {
        if number % CLUSTER == 0 {
            ask(
                engine,
                at(0),
                Request::Create(spec_of_balancer(namespace, number)),
            );
        }
        ask(engine, at(0), Request::Create(spec(namespace, number)));
        let load_balancer = balancer(namespace, number);
        let instance = id(namespace, number).name;
        let in_service_from = "api-server".into();
        ask(
            engine,
            at(0),
            Request::RegisterBackend {
                load_balancer,
                instance,
                in_service_from,
            },
        );
    }
    engine.poll(at(10));
}

fn new() -> Engine {
    Engine::new(Config::default(), Seed::new("amber-otter-lamp"))
}

/// A cloud whose machines run in clusters of one namespace.
fn cloud(machines: usize) -> Engine {
    let mut engine = new();
    fill(&mut engine, "default", machines);
    engine
}

/// A cloud whose machines run in another namespace than the one cluster that a test looks at.
fn neighbour(machines: usize) -> Engine {
    let mut engine = new();
    fill(&mut engine, "another", machines);
    fill(&mut engine, "zebra", machines);
    fill(&mut engine, "default", CLUSTER);
    engine
}

/// Spot machines are told that they are taken back in an hour.
fn reclaim(lasts: Option<Duration>, schedule: Option<Schedule>) -> Fault {
    let gone = ActiveEffect {
        is_final: true,
        ..ActiveEffect::new(ResourceKind::Instance, VisibleEffect::Vanished)
    };
    let notice = Some(Box::new(Notice {
        lasts: Duration::from_secs(3600),
        then: gone,
    }));
    let told = ActiveEffect::new(
        ResourceKind::Instance,
        VisibleEffect::SpotReclaim(Duration::from_secs(3600)),
    );
    let told = ActiveEffect {
        market: Some(Market::Spot),
        notice,
        ..told
    };
    let budget = Budget {
        lasts,
        schedule,
        ..Budget::default()
    };
    Fault {
        matches: Matches::default(),
        effect: Effect::Affect(told),
        budget,
    }
}

fn always() -> Fault {
    reclaim(None, None)
}

fn delays() -> Fault {
    let effect = Effect::Delay(Latency::Fixed(Duration::from_secs(2)));
    Fault {
        matches: Matches::default(),
        effect,
        budget: Budget::default(),
    }
}

fn selecting(matches: Matches) -> Fault {
    Fault { matches, ..always() }
}

fn by_name() -> Matches {
    Matches {
        names: [id("", 3).name].into(),
        ..Matches::default()
    }
}

fn by_cluster() -> Matches {
    let requirement = Requirement::In("cluster".into(), [cluster(0)].into());
    Matches {
        cluster: Selector(vec![requirement]),
        ..Matches::default()
    }
}

fn put_cloud(namespace: &str, rate: u64) -> Request {
    let clock = ClockSetting {
        rate: nephele_engine::Rate::from_millionths(rate),
        ..ClockSetting::default()
    };
    Request::PutCloud {
        id: ResourceId::cloud(namespace, "north"),
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

/// All that can be asked for about a single resource, beside a Fault of everything. Each once.
fn life(engine: &mut Engine, namespace: &str) {
    let new = ResourceSpec {
        id: ResourceId {
            name: "new".into(),
            ..id(namespace, 0)
        },
        ..spec(namespace, 0)
    };
    let load_balancer = balancer(namespace, 0);
    let instance = "new".to_owned();
    let backend = || (load_balancer.clone(), instance.clone());
    let mut apply = |second, request| drop(engine.apply(operation(at(second), request)));
    apply(100, Request::Create(new.clone()));
    apply(103, Request::Create(new.clone()));
    apply(104, Request::Create(new.clone()));
    let (load_balancer, instance) = backend();
    let in_service_from = "api-server".into();
    apply(
        104,
        Request::RegisterBackend {
            load_balancer,
            instance,
            in_service_from,
        },
    );
    apply(110, Request::Describe(new.id.clone()));
    let latency = Latency::Fixed(Duration::from_secs(1));
    let update = UpdateSpec {
        name: "two".into(),
        to: "two".into(),
        since: at(110),
        latency,
    };
    apply(110, Request::Update(new.id.clone(), update.clone()));
    apply(113, Request::Update(new.id.clone(), update));
    let (load_balancer, instance) = backend();
    apply(
        120,
        Request::DeregisterBackend {
            load_balancer,
            instance,
        },
    );
    apply(123, Request::Delete(new.id.clone()));
    apply(126, Request::Delete(new.id.clone()));
    apply(130, Request::Delete(new.id));
    engine.poll(at(140));
}

#[test]
fn a_machine_lives_as_cheaply_whatever_is_beside_it() {
    assert_constant(|machines| {
        let mut engine = cloud(machines);
        measured(|| life(&mut engine, "default"))
    });
    assert_constant(|machines| {
        let mut engine = cloud(machines);
        ask(&mut engine, at(20), put("f", always()));
        ask(&mut engine, at(20), put("g", delays()));
        measured(|| life(&mut engine, "default"))
    });
    assert_constant(|machines| {
        let mut engine = neighbour(machines);
        for namespace in ["another", "zebra"] {
            ask(&mut engine, at(20), put_cloud(namespace, 2_000_000));
        }
        ask(&mut engine, at(20), put("f", always()));
        measured(|| life(&mut engine, "default"))
    });
}

#[test]
fn a_machine_lives_as_cheaply_whatever_faults_are_about_others() {
    let about = |number: usize, fault: Fault| {
        let matches = Matches {
            names: [format!("other{number}")].into(),
            ..Matches::default()
        };
        put(&format!("f{number}"), Fault { matches, ..fault })
    };
    let fails = Effect::Fail {
        reason: FailureReason::Throttled,
        message: String::new(),
        retry_after: Duration::from_secs(5),
    };
    let fails = Fault {
        matches: Matches::default(),
        effect: fails,
        budget: Budget::default(),
    };
    for fault in [always(), delays(), fails] {
        assert_constant(|faults| {
            let mut engine = cloud(CLUSTER);
            for number in 0..faults {
                ask(&mut engine, at(20), about(number, fault.clone()));
            }
            measured(|| life(&mut engine, "default"))
        });
    }
}

#[test]
fn a_fault_is_put_changed_and_deleted_as_cheaply_whatever_other_namespaces_have() {
    assert_constant(|machines| {
        let mut engine = neighbour(machines);
        measured(|| {
            ask(&mut engine, at(20), put("f", always()));
            ask(&mut engine, at(30), put("f", selecting(by_name())));
            ask(&mut engine, at(40), Request::Delete(crate::faults::fault("f")));
        })
    });
}

/// It looks at each cluster, but not at the machines of those that it does not select.
#[test]
fn a_fault_of_some_machines_is_put_changed_and_deleted_without_a_look_at_the_others() {
    for matches in [by_name(), by_cluster()] {
        let work = |machines| {
            let mut engine = cloud(machines);
            measured(|| {
                ask(&mut engine, at(20), put("f", selecting(matches.clone())));
                let changed = reclaim(Some(Duration::from_secs(90)), None);
                ask(
                    &mut engine,
                    at(30),
                    put(
                        "f",
                        Fault {
                            matches: matches.clone(),
                            ..changed
                        },
                    ),
                );
                ask(&mut engine, at(40), Request::Delete(crate::faults::fault("f")));
            })
        };
        let few = work(FEW);
        let many = work(4 * FEW);
        let clusters = 3 * FEW / CLUSTER;
        // A dozen of comparisons to find the next cluster, its load balancer and a machine by its name, three times.
        let allowed = 3 * 3 * 20 * clusters as u64;
        assert!(
            many < few + allowed,
            "{few} steps beside {FEW} machines, {many} beside four times as many"
        );
    }
}

#[test]
fn a_window_begins_and_ends_as_cheaply_whatever_else_there_is() {
    let [every, lasts] = [60, 20].map(Duration::from_secs);
    let schedule = Schedule {
        every,
        lasts,
        offset: Duration::ZERO,
    };
    assert_constant(|machines| {
        let mut engine = neighbour(machines);
        ask(&mut engine, at(20), put("f", reclaim(None, Some(schedule))));
        measured(|| engine.poll(at(300)))
    });
}

#[test]
fn the_work_about_all_machines_grows_with_their_number() {
    let [every, lasts] = [60, 20].map(Duration::from_secs);
    let schedule = Schedule {
        every,
        lasts,
        offset: Duration::ZERO,
    };
    // Put.
    assert_linear(|machines| {
        let mut engine = cloud(machines);
        measured(|| ask(&mut engine, at(20), put("f", always())))
    });
    // Changed.
    assert_linear(|machines| {
        let mut engine = cloud(machines);
        ask(&mut engine, at(20), put("f", always()));
        let changed = reclaim(Some(Duration::from_secs(90)), None);
        measured(|| ask(&mut engine, at(30), put("f", changed)))
    });
    // Windows begin and end.
    assert_linear(|machines| {
        let mut engine = cloud(machines);
        ask(&mut engine, at(20), put("f", reclaim(None, Some(schedule))));
        measured(|| engine.poll(at(300)))
    });
    // Its notices are over.
    assert_linear(|machines| {
        let mut engine = cloud(machines);
        ask(&mut engine, at(20), put("f", always()));
        measured(|| engine.poll(at(4_000)))
    });
    // It ends.
    assert_linear(|machines| {
        let mut engine = cloud(machines);
        ask(
            &mut engine,
            at(20),
            put("f", reclaim(Some(Duration::from_secs(90)), None)),
        );
        measured(|| engine.poll(at(300)))
    });
    // It is deleted.
    assert_linear(|machines| {
        let mut engine = cloud(machines);
        ask(&mut engine, at(20), put("f", always()));
        measured(|| ask(&mut engine, at(30), Request::Delete(crate::faults::fault("f"))))
    });
    // The clock of their cloud changes.
    assert_linear(|machines| {
        let mut engine = cloud(machines);
        ask(&mut engine, at(20), put("f", always()));
        measured(|| ask(&mut engine, at(30), put_cloud("default", 2_000_000)))
    });
}

#[test]
fn the_work_about_one_machine_after_another_grows_with_their_number() {
    // They are created, also beside faults.
    for faults in [vec![], vec![put("f", always()), put("g", delays())]] {
        assert_linear(|machines| {
            let mut engine = new();
            measured(|| {
                ask(&mut engine, at(0), put_cloud("default", 1_000_000));
                faults
                    .iter()
                    .for_each(|fault| ask(&mut engine, at(0), fault.clone()));
                for number in 0..machines {
                    engine.apply(operation(at(0), Request::Create(spec("default", number))));
                }
                for number in 0..machines {
                    engine.apply(operation(at(5), Request::Create(spec("default", number))));
                }
                engine.poll(at(20));
            })
        });
    }
    // They are deleted.
    assert_linear(|machines| {
        let mut engine = cloud(machines);
        ask(&mut engine, at(20), put("f", always()));
        ask(&mut engine, at(20), put("g", delays()));
        measured(|| {
            for second in [30, 33] {
                for number in 0..machines {
                    engine.apply(operation(at(second), Request::Delete(id("default", number))));
                }
            }
            engine.poll(at(60));
            assert_eq!(engine.get(&id("default", 0)), None);
        })
    });
}

/// The order is that of a restart: faults, reservations, adoptions, and each caller repeats what it asked for.
#[test]
fn the_work_of_a_restart_grows_with_the_number_of_machines() {
    for affects_all in [true, false] {
        assert_linear(|machines| {
            let before = cloud(machines);
            let mut engine = new();
            let record = FaultRecord {
                began: at(20),
                matched: 1,
                hits: 1,
                windows: 0,
            };
            let listed: Vec<_> = (0..100).map(|number| id("default", number)).collect();
            let notices = listed.iter().map(|id| NoticeEnd {
                id: id.clone(),
                ends: at(3620).into(),
            });
            let back = Request::PutFault {
                id: crate::faults::fault("f"),
                fault: Box::new(if affects_all {
                    always()
                } else {
                    selecting(by_cluster())
                }),
                record,
                notices: notices.collect(),
                affected_ids: listed,
                is_cut: affects_all,
                skipped: Vec::new(),
                leaked: Vec::new(),
                paused: false,
            };
            measured(|| {
                ask(&mut engine, at(30), back);
                ask(&mut engine, at(30), put_cloud("default", 1_000_000));
                for number in 0..machines {
                    let footprint = Footprint {
                        cloud_spec: "north".into(),
                        ..Footprint::default()
                    };
                    if number % CLUSTER == 0 {
                        let id = balancer("default", number);
                        ask(
                            &mut engine,
                            at(30),
                            Request::Reserve {
                                id,
                                footprint: footprint.clone(),
                            },
                        );
                    }
                    ask(
                        &mut engine,
                        at(30),
                        Request::Reserve {
                            id: id("default", number),
                            footprint,
                        },
                    );
                }
                for number in 0..machines {
                    if number % CLUSTER == 0 {
                        let spec = spec_of_balancer("default", number);
                        ask(
                            &mut engine,
                            at(30),
                            Request::Adopt {
                                spec,
                                previous: Box::default(),
                            },
                        );
                    }
                    let id = id("default", number);
                    let previous = Previous {
                        reached: crate::cloud::reached_stages(&before, &id),
                        load_balancers: BTreeMap::from([("lb".into(), "api-server".into())]),
                        ..Previous::default()
                    };
                    let spec = spec("default", number);
                    ask(
                        &mut engine,
                        at(30),
                        Request::Adopt {
                            spec: spec.clone(),
                            previous: Box::new(previous),
                        },
                    );
                    engine.apply(operation(at(31), Request::Create(spec)));
                }
                engine.poll(at(40));
            })
        });
    }
}
