//! The examples of the book: a cluster as its quickstart creates it, and what a reader then tries there.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, bail, ensure};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject},
};
use nephele_api::{
    cloud::v1alpha1::{ClusterFault, Fault, Scenario, SimulatedCloud},
    conditions::{self, types},
    core::Cluster,
    ipam::v1alpha2::{InClusterIPPool, InClusterIPPoolSpec},
};
use nephele_fake_capi::DeploymentPlan;
use nephele_yaml::{Bounds, Dialect};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    quiet::Quiet,
    settled::is_available,
    world::{paused_runtime, plan},
};

/// The pages and samples with examples.
const PAGES: [&str; 2] = [
    include_str!("../../../../docs/src/faults.md"),
    include_str!("../../../../docs/src/scenarios.md"),
];
const SAMPLES: [&str; 3] = [
    include_str!("../../../../config/samples/fault.yaml"),
    include_str!("../../../../config/samples/cluster_fault.yaml"),
    include_str!("../../../../config/samples/scenario.yaml"),
];
const BOUNDS: Bounds = Bounds {
    text: 1 << 18,
    memory: 1 << 22,
    depth: 64,
    dialect: Dialect::Go,
};
/// The Faults of the pages that need nothing but the quickstart's cluster, because readers try them first.
const FIRST: [&str; 2] = ["no-room-for-workers", "one-silent-worker"];
const LEASE: Duration = Duration::from_secs(36_000);
/// How long a cluster may take, or a Fault to match something while workers come and go.
const WITHIN: Duration = Duration::from_secs(900);
const LOOK_EVERY: Duration = Duration::from_secs(1);
pub(crate) const NAMESPACE: &str = "default";
pub(crate) const DEMO: &str = "demo";

/// Tries the first examples on the quickstart's cluster, and all examples on a cluster with what they name: zones, a pool and
/// spot machines.
///
/// # Errors
/// With an example that matches nothing or fails.
pub fn book() -> Result<(), String> {
    let examples = examples().map_err(|error| format!("{error:#}"))?;
    paused_runtime().block_on(async {
        for is_plain in [true, false] {
            let world = Quiet::start(LEASE).await;
            let tried = read(&world, &examples, is_plain).await;
            world.stop().await;
            tried.map_err(|error| format!("{error:#}"))?;
        }
        Ok(())
    })
}

/// The Faults, ClusterFaults and Scenarios of the book and of the samples.
fn examples() -> anyhow::Result<Vec<Value>> {
    let blocks = PAGES.iter().flat_map(|page| page.split("```yaml\n").skip(1));
    let blocks = blocks.map(|block| block.split("```").next().unwrap_or_default());
    let mut examples = Vec::new();
    for text in blocks.chain(SAMPLES) {
        // Parts of objects are indented.
        if text.starts_with(' ') {
            continue;
        }
        let documents = nephele_yaml::read_all(text, &BOUNDS)?
            .into_iter()
            .map(|(_, document)| document);
        examples.extend(documents.filter(|document| kind(document).is_some()));
    }
    Ok(examples)
}

fn kind(example: &Value) -> Option<&str> {
    example["kind"]
        .as_str()
        .filter(|kind| ["Fault", "ClusterFault", "Scenario"].contains(kind))
}

fn name(example: &Value) -> &str {
    example["metadata"]["name"].as_str().unwrap_or_default()
}

async fn read(world: &Quiet, examples: &[Value], is_plain: bool) -> anyhow::Result<()> {
    let client = world.api.client();
    if is_plain {
        create::<Cluster>(&client, &quickstart()).await?;
    } else {
        surround(world, &client).await?;
    }
    available(&client).await?;
    let mut tried = 0;
    for example in examples {
        let is_first = FIRST.contains(&name(example));
        match kind(example) {
            Some("Scenario") if is_plain => scenario(&client, example).await,
            Some("Fault") if !is_plain || is_first => fault::<Fault>(world, example, is_plain).await,
            Some("ClusterFault") if !is_plain => fault::<ClusterFault>(world, example, is_plain).await,
            _ => continue,
        }
        .with_context(|| format!("the example {}", name(example)))?;
        tried += 1;
        available(&client)
            .await
            .with_context(|| format!("after the example {}", name(example)))?;
    }
    ensure!(tried >= 4, "only {tried} examples were found");
    Ok(())
}

/// The Cluster that `nephele template topology` makes with the quickstart's values.
fn quickstart() -> Value {
    json!({
        "metadata": { "name": DEMO, "namespace": NAMESPACE },
        "spec": { "topology": topology(2) },
    })
}

fn topology(workers: u32) -> Value {
    crate::world::topology(1, "workers", workers)
}

/// A cluster with everything that an example names.
async fn surround(world: &Quiet, client: &Client) -> anyhow::Result<()> {
    let labels =
        json!([{ "op": "add", "path": "/metadata/labels", "value": { "example.com/workshop": "true" } }]);
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let patch = kube::api::Patch::<()>::Json(serde_json::from_value(labels)?);
    namespaces.patch(NAMESPACE, &Default::default(), &patch).await?;
    let zones = json!([{ "name": "north-1a" }, { "name": "north-1b" }]);
    let cloud = json!({
        "metadata": { "name": "default", "namespace": NAMESPACE },
        "spec": { "regions": [{ "name": "north-1", "zones": zones }], "instanceTypes": [{ "name": "small" }] },
    });
    create::<SimulatedCloud>(client, &cloud).await?;
    let spec = InClusterIPPoolSpec {
        addresses: vec!["10.30.0.10-10.30.0.250".to_owned()],
        prefix: 24,
        gateway: "10.30.0.1".to_owned(),
        ..InClusterIPPoolSpec::default()
    };
    let pool = json!({ "metadata": { "name": "machines-v4", "namespace": NAMESPACE }, "spec": spec });
    create::<InClusterIPPool>(client, &pool).await?;
    let key = (NAMESPACE.to_owned(), DEMO.to_owned());
    let mut plan = plan(&key, "book", 1, 0, true);
    plan.address_pools
        .iter_mut()
        .for_each(|pool| pool.name = "machines-v4".to_owned());
    plan.control_plane_instance_type = "small".to_owned();
    plan.worker_instance_type = "small".to_owned();
    plan.worker_market = "Spot".to_owned();
    let zone = "north-1a".to_owned();
    plan.deployments = vec![DeploymentPlan {
        failure_domain: zone,
        ..DeploymentPlan::new(DEMO, "workers", 2)
    }];
    world.planned.set(plan.clone());
    nephele_fake_capi::create(client, &plan).await?;
    Ok(())
}

pub(crate) async fn create<K>(client: &Client, object: &Value) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = ()>,
{
    let resource = kube::core::ApiResource::erase::<K>(&());
    let mut object = object.clone();
    object["apiVersion"] = json!(resource.api_version);
    object["kind"] = json!(resource.kind);
    let api = api::<K>(client, &object);
    api.create(&Default::default(), &serde_json::from_value(object)?)
        .await?;
    Ok(())
}

fn api<K>(client: &Client, object: &Value) -> Api<DynamicObject>
where
    K: kube::Resource<DynamicType = ()>,
{
    let resource = kube::core::ApiResource::erase::<K>(&());
    if object["kind"] == "ClusterFault" {
        return Api::all_with(client.clone(), &resource);
    }
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

/// Lets a Fault be in force while workers come and go, until it has matched something.
async fn fault<K>(world: &Quiet, example: &Value, is_plain: bool) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = ()>,
{
    let client = world.api.client();
    create::<K>(&client, example).await?;
    let api = api::<K>(&client, example);
    let begun = Instant::now();
    let mut workers = [3, 2].into_iter().cycle();
    loop {
        scale(world, &client, workers.next().unwrap_or_default(), is_plain).await?;
        for _ in 0..60 {
            sleep(LOOK_EVERY).await;
            let seen = api.get(name(example)).await?;
            let matched = seen.data["status"]["matched"].as_i64().unwrap_or_default();
            if matched > 0 {
                api.delete(name(example), &DeleteParams::default()).await?;
                scale(world, &client, 2, is_plain).await?;
                return Ok(());
            }
        }
        ensure!(begun.elapsed() < WITHIN, "it matches nothing");
    }
}

async fn scale(world: &Quiet, client: &Client, workers: u32, is_plain: bool) -> anyhow::Result<()> {
    if is_plain {
        let patch = json!({ "spec": { "topology": topology(workers) } });
        let clusters = Api::<Cluster>::namespaced(client.clone(), NAMESPACE);
        clusters
            .patch(DEMO, &Default::default(), &kube::api::Patch::Merge(&patch))
            .await?;
    } else if let Some(mut plan) = world.planned.get(NAMESPACE, DEMO) {
        plan.scale_workers(workers);
        world.planned.set(plan);
    }
    Ok(())
}

/// Runs a Scenario to its end.
pub(crate) async fn scenario(client: &Client, example: &Value) -> anyhow::Result<()> {
    create::<Scenario>(client, example).await?;
    let scenarios = Api::<Scenario>::namespaced(client.clone(), NAMESPACE);
    let begun = Instant::now();
    loop {
        sleep(LOOK_EVERY).await;
        let status = scenarios.get(name(example)).await?.status.unwrap_or_default();
        match status.phase.as_str() {
            "Passed" => return Ok(()),
            "Failed" | "Invalid" => {
                let passed = conditions::find(&status.conditions, types::PASSED);
                let said = passed
                    .map(|condition| condition.message.clone())
                    .unwrap_or_default();
                let steps: BTreeMap<_, _> = status
                    .steps
                    .into_iter()
                    .map(|step| (step.name, (step.phase, step.message)))
                    .collect();
                bail!("its phase is {}: {steps:#?}: {said}", status.phase);
            }
            _ => {}
        }
        ensure!(begun.elapsed() < 4 * WITHIN, "it does not end");
    }
}

pub(crate) async fn available(client: &Client) -> anyhow::Result<()> {
    let clusters = Api::<Cluster>::namespaced(client.clone(), NAMESPACE);
    let begun = Instant::now();
    while !clusters
        .get_opt(DEMO)
        .await?
        .is_some_and(|cluster| is_available(&cluster))
    {
        ensure!(begun.elapsed() < WITHIN, "the cluster does not get available");
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}
