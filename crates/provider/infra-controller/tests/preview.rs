//! What is told of a Fault before it begins is what it hits.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc};

use kube::{Resource, ResourceExt as _, core::NamespaceResourceScope};
use nephele_api::{
    cloud::v1alpha1::{Fault, FaultSpec, SimulatedCloud},
    core::{Cluster, Machine},
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
};
use nephele_infra_controller::{Objects, Preview, preview};
use nephele_testkit::objects::{self, NAMESPACE};
use proptest::{
    prelude::{Strategy as _, prop},
    sample::{select, subsequence},
    strategy::ValueTree as _,
    test_runner::TestRunner,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::world::World;

/// How many Faults are drawn.
const FAULTS: usize = 200;

/// The finalizer of a controller that does not run here.
const HELD: &str = "example.com/held";

/// Two clusters, in one region each and in two; three zones, two racks and two markets. A third cluster and a machine
/// are being deleted: the cloud has released both.
async fn world() -> World {
    let world = World::start(21_600);
    let cloud = json!({
        "metadata": { "name": "default", "namespace": NAMESPACE },
        "spec": { "regions": [
            { "name": "north", "zones": [{ "name": "n1" }, { "name": "n2" }] },
            { "name": "south", "zones": [{ "name": "s1" }] },
        ] },
    });
    let cloud: SimulatedCloud = serde_json::from_value(cloud).expect("a SimulatedCloud");
    world.api.create(&cloud).await;
    for (name, team) in [("blue", "b"), ("red", "r")] {
        let mut cluster = objects::cluster(name);
        objects::label(&mut cluster, "team", team);
        let cluster = world.api.create(&cluster).await;
        let mut object = objects::in_memory_cluster(&cluster);
        if name == "red" {
            object.spec.failure_domains = serde_json::from_value(json!([
                { "name": "n1", "controlPlane": true, "attributes": { "region": "north" } },
                { "name": "s1" },
            ]))
            .expect("failure domains");
        }
        world.api.create(&object).await;
        world.provisioned(name).await;
        world
            .api
            .patch_status::<Cluster>(name, &json!(objects::provisioned(true)))
            .await;
        world.authorities(name).await;
        for (index, zone) in ["n1", "s1", "n1"].into_iter().enumerate() {
            let of_control_plane = index == 0;
            let machine = format!("{name}-{index}");
            let mut machine = if of_control_plane {
                objects::control_plane(name, &machine)
            } else {
                objects::worker(name, &machine)
            };
            objects::label(&mut machine, "rack", ["x", "y", "y"][index]);
            machine.spec.failure_domain = zone.to_owned();
            let machine = world.api.create(&machine).await;
            let mut object = objects::in_memory_machine(&machine);
            object.spec.market = ["", "Spot", ""][index].to_owned();
            let object = world.api.create(&object).await;
            world.ready(&object).await;
        }
    }
    let cluster = world.api.create(&objects::cluster("green")).await;
    world.api.create(&objects::in_memory_cluster(&cluster)).await;
    world.provisioned("green").await;
    release::<InMemoryCluster>(&world, "green").await;
    let machine = world.api.create(&objects::worker("blue", "blue-3")).await;
    let object = world.api.create(&objects::in_memory_machine(&machine)).await;
    world.ready(&object).await;
    release::<InMemoryMachine>(&world, "blue-3").await;
    world
}

/// Deletes an object, until only a foreign finalizer holds it.
async fn release<K>(world: &World, name: &str)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static,
{
    let held = world.api.get::<K>(name).await.finalizers().to_vec();
    let held = [held, vec![HELD.to_owned()]].concat();
    let held = json!({ "metadata": { "finalizers": held } });
    world.api.patch::<K>(name, &held).await;
    world.api.delete::<K>(name).await;
    let is_released = |object: &K| object.finalizers() == [HELD];
    world.api.eventually(name, "to be released", is_released).await;
}

/// All effects that show on what is there, and harm nothing that they leave.
fn effects() -> Vec<Value> {
    vec![
        json!({ "notReady": {} }),
        json!({ "freeze": {} }),
        json!({ "outage": {} }),
        json!({ "wrongProviderID": {} }),
        json!({ "nodeCondition": { "type": "DiskPressure", "status": "True" } }),
        json!({ "apiServer": { "latency": { "duration": "1s" } } }),
        json!({ "etcd": { "slow": { "duration": "1s" } } }),
        json!({ "loadBalancer": { "noBackends": {} } }),
        json!({ "clockSkew": { "ahead": "1m" } }),
        json!({ "certificate": { "expiresIn": "1h" } }),
        json!({ "hold": { "stage": "node" } }),
        json!({ "spotReclaim": { "notice": "1h" } }),
    ]
}

fn matches() -> impl proptest::strategy::Strategy<Value = Value> {
    let some = |values: &'static [&'static str]| {
        prop::option::weighted(0.3, subsequence(values.to_vec(), 1..=values.len()))
    };
    let selector = |key: &'static str, values: &'static [&'static str]| {
        let operators = select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
        let drawn = (operators, select(values.to_vec())).prop_map(move |(operator, value)| {
            let values = operator.ends_with("In").then_some([value]);
            let mut requirement = json!({ "key": key, "operator": operator });
            if let Some(values) = values {
                requirement["values"] = json!(values);
            }
            json!({ "matchExpressions": [requirement] })
        });
        prop::option::weighted(0.3, drawn)
    };
    (
        some(&[
            "blue", "blue-0", "blue-1", "blue-3", "red", "red-2", "green", "none",
        ]),
        some(&["n1", "n2", "s1"]),
        some(&["north", "south"]),
        some(&["OnDemand", "Spot"]),
        selector("rack", &["x", "y"]),
        selector("team", &["b", "r"]),
    )
        .prop_map(|(names, zones, regions, markets, rack, team)| {
            let fields = [
                ("names", json!(names)),
                ("zones", json!(zones)),
                ("regions", json!(regions)),
                ("markets", json!(markets)),
                ("machineSelector", json!(rack)),
                ("clusterSelector", json!(team)),
            ];
            let set = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(set.map(|(field, value)| (field.to_owned(), value)).collect())
        })
}

async fn list<K>(world: &World) -> Vec<Arc<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let listed = world.api.api::<K>().list(&Default::default()).await;
    listed.expect("a list").items.into_iter().map(Arc::new).collect()
}

async fn objects(world: &World) -> Objects {
    Objects {
        clusters: list::<InMemoryCluster>(world).await,
        machines: list::<InMemoryMachine>(world).await,
        owning_clusters: list::<Cluster>(world).await,
        owning_machines: list::<Machine>(world).await,
        simulated_clouds: list::<SimulatedCloud>(world).await,
    }
}

/// What a Fault has hit: the names of clusters and of machines.
async fn hit(world: &World, name: &str, spec: &FaultSpec) -> Preview {
    let mut fault = Fault::new(name, spec.clone());
    fault.metadata.namespace = Some(NAMESPACE.to_owned());
    world.api.create(&fault).await;
    let is_in_force = |fault: &Fault| {
        let phase = fault.status.as_ref().map(|status| status.phase.as_str());
        phase == Some("Active")
    };
    world.api.eventually(name, "to be in force", is_in_force).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let status = world.api.get::<Fault>(name).await.status.unwrap_or_default();
    world.api.delete::<Fault>(name).await;
    world.api.eventually_gone::<Fault>(name).await;
    let names = |of_machines: bool| -> BTreeSet<String> {
        let affected = status.affected.iter();
        let affected = affected.filter(|affected| affected.machine.is_empty() != of_machines);
        affected
            .map(|affected| {
                let name = if of_machines {
                    &affected.machine
                } else {
                    &affected.cluster
                };
                name.clone()
            })
            .collect()
    };
    let [clusters, machines] = [false, true].map(|of_machines| names(of_machines).into_iter().collect());
    Preview {
        clusters,
        machines,
        operations: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_told_of_a_fault_is_what_it_hits() {
    let world = world().await;
    let objects = objects(&world).await;
    let mut runner = TestRunner::deterministic();
    let drawn = (select(effects()), matches());
    let mut selected = 0;
    for number in 0..FAULTS {
        let (effect, matches) = drawn.new_tree(&mut runner).expect("a Fault").current();
        let spec = json!({ "effect": effect, "match": matches });
        let spec: FaultSpec = serde_json::from_value(spec).expect("a spec");
        let told = preview(&spec, &objects).expect("a Fault of machines or clusters");
        let hit = hit(&world, &format!("f{number}"), &spec).await;
        let told = Preview {
            operations: Vec::new(),
            ..told
        };
        assert_eq!(told, hit, "{effect} {matches}");
        selected += usize::from(told != Preview::default());
    }
    assert!(
        (FAULTS / 5..FAULTS).contains(&selected),
        "{selected} of {FAULTS} selected something"
    );
}
