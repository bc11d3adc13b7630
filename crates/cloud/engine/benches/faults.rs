//! The cost of operations while there are faults: `cargo bench -p nephele-engine`.
//!
//! One account has 10,000 instances and 1,000 faults. Every measurement is of one operation, or of one creation with
//! the deletion that follows it; compare it with the same without faults.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    hint::black_box,
    time::Duration,
};

use divan::Bencher;
use nephele_engine::{ActiveEffect, Config, Effect, Engine, Fault, Operation, Request, ResourceSpec, Seed};
use nephele_model::{
    Budget, FailureReason, FaultRecord, Matches, Requirement, ResourceId, ResourceKind, Selector, SimTime,
    Verb, VisibleEffect,
};

const INSTANCES: usize = 10_000;
const FAULTS: usize = 1_000;
const CLUSTERS: usize = 100;
const ZONES: usize = 10;
const NOW: SimTime = SimTime::from_millis(1_000);

fn main() {
    divan::main();
}

/// What the faults select.
#[derive(Clone, Copy, Debug)]
enum By {
    /// There are no faults.
    NoFaults,
    /// One instance each.
    Name,
    /// The ten instances of a deployment each.
    Label,
    /// The hundred instances of a cluster each; ten faults select the same cluster.
    ClusterLabel,
    /// The thousand instances of a zone each; a hundred faults select the same zone.
    Zone,
    /// Everything, for another operation.
    OtherOperation,
}

const ALL: [By; 6] = [
    By::NoFaults,
    By::Name,
    By::Label,
    By::ClusterLabel,
    By::Zone,
    By::OtherOperation,
];

/// For faults of resources, which are about no operations.
const OF_RESOURCES: [By; 5] = [By::NoFaults, By::Name, By::Label, By::ClusterLabel, By::Zone];

fn name(number: usize) -> String {
    format!("cluster-{}-md-0-x7k2p-{number}", number % CLUSTERS)
}

fn cluster(number: usize) -> String {
    format!("cluster-{}", number % CLUSTERS)
}

fn id(number: usize, kind: ResourceKind, name: String) -> ResourceId {
    ResourceId {
        namespace: "default".into(),
        cluster: cluster(number),
        kind,
        name,
    }
}

fn instance(number: usize) -> ResourceSpec {
    let labels = [
        ("cluster.x-k8s.io/cluster-name", cluster(number)),
        (
            "cluster.x-k8s.io/deployment-name",
            format!("md-{}", number % FAULTS),
        ),
        ("machine-template-hash", "1234567890".into()),
    ];
    ResourceSpec {
        zone: Some(format!("zone-{}", number % ZONES)),
        instance_type: Some("m.large".into()),
        labels: labels
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
        ..ResourceSpec::new(id(number, ResourceKind::Instance, name(number)))
    }
}

fn load_balancer(number: usize) -> ResourceSpec {
    let labels = BTreeMap::from([("team".to_owned(), cluster(number))]);
    ResourceSpec {
        labels,
        ..ResourceSpec::new(id(number, ResourceKind::LoadBalancer, cluster(number)))
    }
}

fn matches(by: By, number: usize) -> Option<Matches> {
    let one = |value: String| BTreeSet::from([value]);
    let label = |key: &str, value: String| Selector(vec![Requirement::In(key.into(), one(value))]);
    let all = Matches {
        operations: [Verb::DescribeInstance].into(),
        ..Matches::default()
    };
    Some(match by {
        By::NoFaults => return None,
        By::Name => Matches {
            names: one(name(number * INSTANCES / FAULTS)),
            ..all
        },
        By::Label => {
            let instance = label("cluster.x-k8s.io/deployment-name", format!("md-{number}"));
            Matches { instance, ..all }
        }
        By::ClusterLabel => Matches {
            cluster: label("team", cluster(number)),
            ..all
        },
        By::Zone => Matches {
            zones: one(format!("zone-{}", number % ZONES)),
            ..all
        },
        By::OtherOperation => Matches {
            operations: [Verb::UpdateInstance].into(),
            ..all
        },
    })
}

fn put(number: usize, fault: Fault) -> Request {
    Request::PutFault {
        id: ResourceId::fault("default", format!("fault-{number:04}")),
        fault: Box::new(fault),
        record: FaultRecord {
            began: NOW,
            ..FaultRecord::default()
        },
        affected_ids: vec![],
        notices: vec![],
        is_cut: false,
        skipped: Vec::new(),
        leaked: vec![],
        paused: false,
    }
}

fn apply(engine: &mut Engine, request: Request) {
    black_box(engine.apply(Operation {
        caller: "bench".into(),
        request,
        at: NOW,
    }));
}

/// A cloud in which every fault has this effect and budget.
fn cloud(by: By, effect: &Effect, budget: &Budget) -> Engine {
    let mut engine = Engine::new(Config::default(), Seed::new("amber-otter-lamp"));
    for number in 0..CLUSTERS {
        apply(&mut engine, Request::Create(load_balancer(number)));
    }
    for number in 0..INSTANCES {
        apply(&mut engine, Request::Create(instance(number)));
    }
    for number in 0..FAULTS {
        let Some(matches) = matches(by, number) else { break };
        let effect = effect.clone();
        let budget = budget.clone();
        apply(
            &mut engine,
            put(
                number,
                Fault {
                    matches,
                    effect,
                    budget,
                },
            ),
        );
    }
    engine
}

fn fails() -> Effect {
    let retry_after = Duration::from_secs(5);
    Effect::Fail {
        reason: FailureReason::Throttled,
        message: String::new(),
        retry_after,
    }
}

fn not_ready() -> Effect {
    Effect::Affect(ActiveEffect::new(ResourceKind::Instance, VisibleEffect::NotReady))
}

/// Reads one instance after the other. The first fault that matches hits.
#[divan::bench(args = ALL)]
fn describe(bencher: Bencher<'_, '_>, by: By) {
    describe_all(bencher, &mut cloud(by, &fails(), &Budget::default()));
}

/// As `describe`, but all faults that match count the call, and none hits.
#[divan::bench(args = ALL)]
fn describe_without_hits(bencher: Bencher<'_, '_>, by: By) {
    let budget = Budget {
        skip: u64::MAX,
        ..Budget::default()
    };
    describe_all(bencher, &mut cloud(by, &fails(), &budget));
}

fn describe_all(bencher: Bencher<'_, '_>, engine: &mut Engine) {
    let next = Cell::new(0);
    bencher
        .with_inputs(|| {
            let number = next.replace((next.get() + 7_919) % INSTANCES);
            Request::Describe(instance(number).id)
        })
        .bench_local_values(|request| apply(engine, request));
}

/// Creates an instance, which the faults may affect, and deletes it.
#[divan::bench(args = OF_RESOURCES)]
fn create_and_delete(bencher: Bencher<'_, '_>, by: By) {
    let mut engine = cloud(by, &not_ready(), &Budget::default());
    let next = Cell::new(INSTANCES);
    bencher
        .with_inputs(|| instance(next.replace(next.get() + 1)))
        .bench_local_values(|spec| {
            let id = spec.id.clone();
            apply(&mut engine, Request::Create(spec));
            apply(&mut engine, Request::Delete(id));
            engine.poll(NOW);
        });
}

/// Puts a fault that affects what it selects, and heals what it selected before.
#[divan::bench(args = OF_RESOURCES, sample_count = 20, sample_size = 1)]
fn put_fault(bencher: Bencher<'_, '_>, by: By) {
    let mut engine = cloud(By::NoFaults, &not_ready(), &Budget::default());
    let next = Cell::new(0);
    bencher
        .with_inputs(|| {
            let number = next.replace((next.get() + 7) % FAULTS);
            let effect = not_ready();
            let budget = Budget::default();
            put(
                0,
                Fault {
                    matches: matches(by, number).unwrap_or_default(),
                    effect,
                    budget,
                },
            )
        })
        .bench_local_values(|request| apply(&mut engine, request));
}
