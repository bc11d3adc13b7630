//! The scenarios of `config/scenarios` where the stand-in plays Cluster API.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, Patch},
    core::GroupVersionKind,
};
use nephele_api::{
    core::Cluster,
    ipam::v1alpha2::{InClusterIPPool, InClusterIPPoolSpec},
};
use nephele_yaml::{Bounds, Dialect};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    book::{DEMO, NAMESPACE, available, create, scenario},
    quiet::Quiet,
    world::paused_runtime,
};

const BOUNDS: Bounds = Bounds {
    text: 1 << 18,
    memory: 1 << 22,
    depth: 64,
    dialect: Dialect::Go,
};
const LEASE: Duration = Duration::from_secs(36_000);
/// The name of the MachineDeployment in the scenarios for clusters without a topology.
const WORKERS: &str = "demo-workers";

/// The cluster that a scenario needs.
#[derive(Clone, Copy, Default)]
struct Needs {
    /// Control plane machines in three zones, and not one machine.
    zones: bool,
    /// The number of workers that users scale at the MachineDeployment, and not at the topology.
    scalable: Option<u32>,
    /// A pool with three addresses for machines.
    pool: bool,
    cluster_api: bool,
}

macro_rules! library {
    ($($name:literal: $needs:expr),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../config/scenarios/", $name, ".yaml")), $needs)),*]
    };
}

/// Runs each scenario in a world of its own, on a cluster `demo` with a topology. One that needs Cluster API itself has to say
/// so at once.
///
/// # Errors
/// With the first scenario that does not do so.
pub fn library() -> Result<(), String> {
    let plain = Needs::default();
    let cluster_api = Needs {
        cluster_api: true,
        ..plain
    };
    let scenarios = library! {
        "address-exhaustion": Needs { scalable: Some(1), pool: true, ..plain },
        "api-server-errors": plain,
        "api-server-flapping": plain,
        "blocked-upgrade": cluster_api,
        "bootstrap-failure": plain,
        "etcd-alarm": cluster_api,
        "expired-certificates": cluster_api,
        "health-check-storm": plain,
        "leak": Needs { scalable: Some(2), ..plain },
        "load-balancer-outage": plain,
        "quota": plain,
        "silent-machine": plain,
        "slow-cloud": plain,
        "spot-reclaim": cluster_api,
        "stock-out": cluster_api,
        "throttled-upgrade": plain,
        "zone-loss": Needs { zones: true, ..plain },
        "zones-in-turn": Needs { zones: true, scalable: Some(1), ..plain },
    };
    for (name, text, needs) in scenarios {
        paused_runtime().block_on(async {
            let world = Quiet::start(LEASE).await;
            let played = play(&world.api.client(), text, needs).await;
            world.stop().await;
            played.map_err(|error| format!("the scenario {name}: {error:#}"))
        })?;
    }
    Ok(())
}

async fn play(client: &Client, text: &str, needs: Needs) -> anyhow::Result<()> {
    if needs.cluster_api {
        let refusal = scenario(client, &read(text)?).await.err().context("it passed")?;
        let said = refusal.to_string();
        ensure!(
            said.ends_with("which the stand-in for Cluster API does not have"),
            "it says: {said}"
        );
        return Ok(());
    }
    if needs.pool {
        let spec = InClusterIPPoolSpec {
            addresses: vec!["10.20.0.10-10.20.0.12".to_owned()],
            prefix: 24,
            gateway: "10.20.0.1".to_owned(),
            ..InClusterIPPoolSpec::default()
        };
        let pool = json!({ "metadata": { "name": DEMO, "namespace": NAMESPACE }, "spec": spec });
        create::<InClusterIPPool>(client, &pool).await?;
    }
    let cluster = json!({
        "metadata": { "name": DEMO, "namespace": NAMESPACE }, "spec": { "topology": topology(needs) },
    });
    create::<Cluster>(client, &cluster).await?;
    available(client).await?;
    let mut text = text.to_owned();
    if let Some(workers) = needs.scalable {
        let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "MachineDeployment");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
        let deployments = api.list(&ListParams::default()).await?;
        let name = deployments
            .iter()
            .next()
            .context("no MachineDeployment")?
            .name_any();
        let patch = json!({ "spec": { "replicas": workers } });
        api.patch(&name, &Default::default(), &Patch::Merge(&patch))
            .await?;
        sleep(Duration::from_secs(120)).await;
        let scaled = api.get(&name).await?;
        let available = scaled.data["status"]["availableReplicas"].as_u64();
        ensure!(
            available == Some(workers.into()),
            "{workers} workers were asked for: {available:?}"
        );
        text = text.replace(WORKERS, &name);
    }
    scenario(client, &read(&text)?).await
}

fn read(text: &str) -> anyhow::Result<Value> {
    let documents = nephele_yaml::read_all(text, &BOUNDS)?;
    let (_, mut document) = documents.into_iter().next().context("no scenario")?;
    document["metadata"]["namespace"] = NAMESPACE.into();
    Ok(document)
}

fn topology(needs: Needs) -> Value {
    let mut workers = json!({ "class": "default-worker", "name": "workers" });
    if needs.scalable.is_none() {
        workers["replicas"] = 1.into();
    }
    // Scenarios look once in a second.
    let behaviour = json!({ "vm": { "provisioning": { "startupDuration": "5s" } } });
    let behaviours = ["controlPlaneBehaviour", "workerBehaviour"];
    let mut variables: Vec<_> = behaviours
        .iter()
        .map(|name| json!({ "name": name, "value": behaviour }))
        .collect();
    if needs.zones {
        let zones = ["north-1a", "north-1b", "north-1c"].map(|name| json!({ "name": name }));
        variables.push(json!({ "name": "zones", "value": zones }));
    }
    if needs.pool {
        variables.push(json!({ "name": "addressesFromPools", "value": [{ "name": DEMO }] }));
    }
    json!({
        // The scenario of an upgrade leads to v1.36.3.
        "classRef": { "name": "in-memory" }, "version": "v1.35.8",
        "controlPlane": { "replicas": if needs.zones { 3 } else { 1 } },
        "workers": { "machineDeployments": [workers] },
        "variables": variables,
    })
}
