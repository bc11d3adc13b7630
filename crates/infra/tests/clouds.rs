//! Clusters in a SimulatedCloud: its zones, its instance types.

mod world;

use nephele_api::cloud::v1alpha1::{InstanceType, Region, SimulatedCloud, SimulatedCloudSpec, Zone};
use nephele_api::conditions::{self, types};
use nephele_api::core::Cluster;
use nephele_api::infrastructure::v1beta2::{CloudReference, InMemoryCluster, InMemoryMachine};
use nephele_cloud::Hardware;
use nephele_testkit::objects::{self, NAMESPACE};
use serde_json::json;
use world::{World, reason};

fn cloud(name: &str, zones: &[&str], types: &[&str]) -> SimulatedCloud {
    let zone = |name: &&str| Zone { name: (*name).into(), control_plane: None };
    let kind = |name: &&str| InstanceType {
        name: (*name).into(),
        cpu: 16,
        memory: "64Gi".into(),
        architecture: "arm64".into(),
        ..InstanceType::default()
    };
    let spec = SimulatedCloudSpec {
        regions: vec![Region { name: "north".into(), zones: zones.iter().map(zone).collect() }],
        instance_types: types.iter().map(kind).collect(),
        images: vec![],
    };
    let mut cloud = SimulatedCloud::new(name, spec);
    cloud.metadata.namespace = Some(NAMESPACE.into());
    cloud
}

fn zones(object: &InMemoryCluster) -> Vec<(String, Option<bool>)> {
    let domains = object.status.iter().flat_map(|status| status.failure_domains.clone());
    domains.map(|domain| (domain.name, domain.control_plane)).collect()
}

fn expected(names: &[&str]) -> Vec<(String, Option<bool>)> {
    names.iter().map(|name| ((*name).to_owned(), Some(true))).collect()
}

#[tokio::test]
async fn a_cluster_has_the_zones_of_its_cloud_and_loses_one_that_is_removed() {
    let world = World::start(47_000);
    world.api.create(&cloud("default", &["b", "a"], &[])).await;
    let object = world.cluster("demo").await;
    assert_eq!(zones(&object), expected(&["a", "b"]));
    let patch = json!({ "spec": cloud("default", &["c", "b"], &[]).spec });
    world.api.patch::<SimulatedCloud>("default", &patch).await;
    let now = expected(&["b", "c"]);
    let object = world.api.eventually("demo", "to have the new zones", |object| zones(object) == now).await;
    assert!(object.is_provisioned());
    // What the user lists comes before what the cloud has.
    let patch = json!({ "spec": { "failureDomains": [{ "name": "own" }] } });
    world.api.patch::<InMemoryCluster>("demo", &patch).await;
    let now = vec![("own".to_owned(), None)];
    world.api.eventually("demo", "to have its own", |object| zones(object) == now).await;
    world.stop().await;
}

#[tokio::test]
async fn a_cluster_waits_for_the_cloud_that_it_names() {
    let world = World::start(47_100);
    let cluster = world.api.create(&objects::cluster("demo")).await;
    let mut object = objects::in_memory_cluster(&cluster);
    object.spec.cloud_ref = Some(CloudReference { name: "north".into() });
    world.api.create(&object).await;
    let waits = |object: &InMemoryCluster| {
        let status = object.status.clone().unwrap_or_default();
        reason(&status.conditions, types::CLOUD_AVAILABLE) == Some("CloudNotFound")
    };
    let object = world.api.eventually("demo", "to miss its cloud", waits).await;
    assert!(!object.is_provisioned());
    world.api.create(&cloud("north", &["a"], &[])).await;
    let object = world.provisioned("demo").await;
    assert_eq!(zones(&object), expected(&["a"]));
    let status = object.status.unwrap_or_default();
    assert!(conditions::is_true(&status.conditions, types::CLOUD_AVAILABLE));
    world.stop().await;
}

#[tokio::test]
async fn a_machine_of_an_unknown_type_says_so_and_boots_when_the_type_is_there() {
    let world = World::start(47_200);
    world.api.create(&cloud("default", &["a"], &["m1"])).await;
    world.cluster("demo").await;
    world.api.patch_status::<Cluster>("demo", &json!(objects::provisioned(true))).await;
    let mut machine = objects::worker("demo", "w");
    machine.spec.failure_domain = "a".into();
    let machine = world.api.create(&machine).await;
    let mut object = objects::in_memory_machine(&machine);
    object.spec.instance_type = "m2".into();
    let object = world.api.create(&object).await;
    let waiting: InMemoryMachine = world.waits(&object, "UnknownInstanceType").await;
    let status = waiting.status.unwrap_or_default();
    let ready = conditions::find(&status.conditions, types::READY).expect("a summary");
    assert_eq!(ready.message, "VMProvisioned: The cloud has no instance type m2; it has m1");
    let patch = json!({ "spec": cloud("default", &["a"], &["m1", "m2"]).spec });
    world.api.patch::<SimulatedCloud>("default", &patch).await;
    world.ready(&object).await;
    let seen = world.cloud.observe_machine(&World::machine_id("demo", "w")).expect("it is there");
    assert_eq!((seen.zone.as_deref(), seen.region.as_deref()), (Some("a"), Some("north")));
    let Hardware { architecture, capacity, .. } = seen.hardware;
    assert_eq!((&*architecture, &*capacity["cpu"], &*capacity["memory"]), ("arm64", "16", "64Gi"));
    world.stop().await;
}
