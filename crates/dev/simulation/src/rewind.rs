//! A world goes back to a checkpoint: it has the clusters, machines and objects again that it had then, whatever happened
//! since, and continues from there.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
};
use http::{Method, Request, StatusCode};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
};
use nephele_api::{
    cloud::v1alpha1::{Fault, SimulatedCloud},
    core::{Cluster, Machine},
    ipam::v1beta2::IPAddressClaim,
};
use nephele_checkpoint::{Checkpoint, Restore, Workloads};
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use crate::{quiet::Quiet, scenario::draws_about, world::paused_runtime};

const LEASE: Duration = Duration::from_secs(3600);
/// Until a world has what it was asked for: some machines, one after the other, and the longest backoff.
const SETTLES_WITHIN: Duration = Duration::from_secs(1800);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Until what was asked for is done, where nothing takes time.
const LATE: Duration = Duration::from_secs(5);
const NAMESPACE: &str = "default";
/// A Fault that holds one claim, and that claim.
const HOLDS: &str = "no-address";
const HELD: &str = "first";

/// Lets a world of this seed go back to a checkpoint, in this process.
///
/// # Errors
/// With what is not as it was.
pub fn rewind(seed: u64) -> Result<(), String> {
    fastrand::seed(seed);
    paused_runtime().block_on(async {
        let mut draws = draws_about(seed, &["rewind"], 0);
        let world = Quiet::with_disk(LEASE, draws.random_ratio(1, 2)).await;
        let outcome = happen(&world, seed).await.map_err(|error| format!("{error:#}"));
        world.stop().await;
        outcome
    })
}

/// What has to be the same after the restoration.
#[derive(Debug, Default, PartialEq, Eq)]
struct Facts {
    /// The endpoint of each cluster.
    endpoints: BTreeMap<String, Value>,
    /// Whether each claim has an address.
    claims: BTreeMap<String, bool>,
    /// The provider id of each machine that had one.
    machines: BTreeMap<String, String>,
    /// The uids of Nodes and notes, by cluster, kind and name.
    objects: BTreeMap<(String, &'static str, String), String>,
}

async fn happen(world: &Quiet, seed: u64) -> anyhow::Result<()> {
    let mut draws = draws_about(seed, &["rewind"], 1);
    let client = world.api.client();
    surround(&client, draws.random_ratio(1, 2), draws.random_ratio(1, 3)).await?;
    claim(&client).await?;
    let mut wanted = BTreeMap::new();
    for number in 0..draws.random_range(1..=3_u8) {
        let size = (
            if draws.random_ratio(1, 3) { 3 } else { 1 },
            draws.random_range(0..=3),
        );
        create(&client, number, size).await?;
        wanted.insert(name(number), size);
    }
    settle(world, &wanted).await.context("before the checkpoint")?;
    note(world, &wanted, "before").await?;
    // Something may be under way when the checkpoint is saved.
    let (grown, size) = wanted.iter_mut().next().context("there is a cluster")?;
    if draws.random_ratio(1, 2) {
        size.1 += draws.random_range(1..=3);
        scale(&client, grown, *size).await?;
        sleep(Duration::from_millis(draws.random_range(0..20_000))).await;
    }
    let manager = OfRouter(world.routes());
    let namespaces = [NAMESPACE.to_owned()];
    let now = jiff::Timestamp::UNIX_EPOCH;
    let saved = nephele_checkpoint::save(&client, &manager, &namespaces, now, "world").await?;
    let saved = through_a_file(&saved)?;
    let facts = facts(&saved);

    note(world, &wanted, "after").await?;
    let first = name(0);
    match draws.random_range(0..3_u8) {
        0 => drop(clusters(&client).delete(&first, &DeleteParams::default()).await?),
        1 => scale(&client, &first, (wanted[&first].0, draws.random_range(0..=5))).await?,
        _ => create(&client, 7, (1, 1)).await?,
    }
    sleep(Duration::from_millis(draws.random_range(0..90_000))).await;

    let restore = Restore {
        client: &client,
        workloads: &manager,
        replace: true,
        time_limit: SETTLES_WITHIN,
        report: &|_| {},
    };
    restore.run(saved).await?;
    settle(world, &wanted).await.context("after the restoration")?;
    // No claim gets an address late that a Fault holds.
    sleep(LATE).await;
    let saved = nephele_checkpoint::save(&client, &manager, &namespaces, now, "world").await?;
    same(&facts, &self::facts(&saved))?;
    released(&client).await
}

/// The claim that the Fault holds waits for that Fault alone.
async fn released(client: &Client) -> anyhow::Result<()> {
    Api::<Fault>::namespaced(client.clone(), NAMESPACE)
        .delete(HOLDS, &DeleteParams::default())
        .await?;
    sleep(LATE).await;
    let held = Api::<IPAddressClaim>::namespaced(client.clone(), NAMESPACE)
        .get(HELD)
        .await?;
    ensure!(
        held.address_name().is_some(),
        "without the Fault, the claim has no address: {held:?}"
    );
    Ok(())
}

/// What was at the checkpoint is there again, and what came later is not. What was under way may have gone on.
fn same(before: &Facts, after: &Facts) -> anyhow::Result<()> {
    ensure!(before.claims == after.claims, "claims: {before:#?}\n{after:#?}");
    ensure!(
        before.endpoints == after.endpoints,
        "endpoints: {before:#?}\n{after:#?}"
    );
    let lost = before
        .machines
        .iter()
        .find(|(name, id)| after.machines.get(*name) != Some(*id));
    ensure!(lost.is_none(), "machine {lost:?} is another one: {after:#?}");
    let lost = before
        .objects
        .iter()
        .find(|(key, uid)| after.objects.get(*key) != Some(*uid));
    ensure!(lost.is_none(), "object {lost:?} is another one: {after:#?}");
    let late = after
        .objects
        .keys()
        .find(|(_, kind, name)| *kind == "configmaps" && name == "after");
    ensure!(late.is_none(), "{late:?} is from after the checkpoint");
    Ok(())
}

fn facts(checkpoint: &Checkpoint) -> Facts {
    let mut facts = Facts::default();
    for object in &checkpoint.objects {
        let kind = object
            .types
            .as_ref()
            .map(|types| types.kind.as_str())
            .unwrap_or_default();
        let spec = &object.data["spec"];
        match kind {
            "InMemoryCluster" => {
                facts
                    .endpoints
                    .insert(object.name_any(), spec["controlPlaneEndpoint"].clone());
            }
            "IPAddressClaim" => {
                let is_bound = !object.data["status"]["addressRef"].is_null();
                facts.claims.insert(object.name_any(), is_bound);
            }
            "InMemoryMachine" if object.metadata.deletion_timestamp.is_none() => {
                let id = spec["providerID"].as_str().map(str::to_owned);
                facts.machines.extend(id.map(|id| (object.name_any(), id)));
            }
            _ => {}
        }
    }
    for cluster in &checkpoint.clusters {
        let cluster_name = cluster["name"].as_str().unwrap_or_default();
        for record in cluster["objects"].as_array().into_iter().flatten() {
            let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
            let kind = match text("resource").as_str() {
                "nodes" => "nodes",
                "configmaps" if text("namespace") == NAMESPACE => "configmaps",
                _ => continue,
            };
            let uid = record["object"]["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            facts
                .objects
                .insert((cluster_name.to_owned(), kind, text("name")), uid);
        }
    }
    facts
}

fn through_a_file(checkpoint: &Checkpoint) -> anyhow::Result<Checkpoint> {
    let mut file = Vec::new();
    checkpoint.write(&mut file)?;
    Ok(Checkpoint::read(file.as_slice())?)
}

/// A SimulatedCloud whose clock runs fast, and a fault that every second machine boots late.
async fn surround(client: &Client, has_cloud: bool, has_fault: bool) -> anyhow::Result<()> {
    if has_cloud {
        let cloud = json!({"metadata": {"name": "default"}, "spec": {"clock": {"rate": "3"}}});
        let api = Api::<SimulatedCloud>::namespaced(client.clone(), NAMESPACE);
        api.create(&Default::default(), &serde_json::from_value(cloud)?)
            .await?;
    }
    if has_fault {
        let fault = json!({
            "metadata": {"name": "late"},
            "spec": {
                "match": {"operations": ["CreateInstance"]}, "effect": {"delay": {"duration": "10s"}},
                "budget": {"skip": 1, "count": 2},
            },
        });
        let api = Api::<Fault>::namespaced(client.clone(), NAMESPACE);
        api.create(&Default::default(), &serde_json::from_value(fault)?)
            .await?;
    }
    Ok(())
}

/// A Fault holds the first of two claims, and has no hit left for the second one.
async fn claim(client: &Client) -> anyhow::Result<()> {
    let fault = json!({
        "metadata": {"name": HOLDS},
        "spec": {"effect": {"addresses": {"exhausted": {}}}, "budget": {"count": 1}},
    });
    let api = Api::<Fault>::namespaced(client.clone(), NAMESPACE);
    api.create(&Default::default(), &serde_json::from_value(fault)?)
        .await?;
    sleep(LATE).await;
    let claims = Api::<IPAddressClaim>::namespaced(client.clone(), NAMESPACE);
    for name in [HELD, "second"] {
        let pool =
            json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "machines"});
        let object = json!({"metadata": {"name": name}, "spec": {"poolRef": pool}});
        claims
            .create(&Default::default(), &serde_json::from_value(object)?)
            .await?;
        sleep(LATE).await;
    }
    let bound = claims.list(&ListParams::default()).await?.into_iter();
    let bound: Vec<_> = bound
        .filter(|claim| claim.address_name().is_some())
        .map(|claim| claim.name_any())
        .collect();
    ensure!(bound == ["second"], "{bound:?} have addresses");
    Ok(())
}

fn name(number: u8) -> String {
    format!("rewound-{number}")
}

fn clusters(client: &Client) -> Api<Cluster> {
    Api::namespaced(client.clone(), NAMESPACE)
}

/// Numbers of control plane machines and of workers.
type Size = (u32, u32);

fn topology((control_plane, workers): Size) -> Value {
    crate::world::topology(control_plane, "md-0", workers)
}

async fn create(client: &Client, number: u8, size: Size) -> anyhow::Result<()> {
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name(number)}, "spec": {"topology": topology(size)},
    });
    let resource = kube::core::ApiResource::erase::<Cluster>(&());
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &resource);
    api.create(&Default::default(), &serde_json::from_value(cluster)?)
        .await?;
    Ok(())
}

async fn scale(client: &Client, name: &str, size: Size) -> anyhow::Result<()> {
    let patch = json!({ "spec": { "topology": topology(size) } });
    clusters(client)
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    Ok(())
}

/// Waits until the clusters have their machines, all of which run, and there are no others.
async fn settle(world: &Quiet, wanted: &BTreeMap<String, Size>) -> anyhow::Result<()> {
    let client = world.api.client();
    let begun = Instant::now();
    loop {
        let missing = missing(&client, wanted).await?;
        let Some(missing) = missing else { return Ok(()) };
        ensure!(begun.elapsed() < SETTLES_WITHIN, "{missing}");
        sleep(LOOK_EVERY).await;
    }
}

async fn missing(client: &Client, wanted: &BTreeMap<String, Size>) -> anyhow::Result<Option<String>> {
    let there = clusters(client).list(&ListParams::default()).await?;
    let names: BTreeSet<_> = there.iter().map(Cluster::name_any).collect();
    if !names.iter().eq(wanted.keys()) {
        return Ok(Some(format!("there are the clusters {names:?}")));
    }
    let machines = Api::<Machine>::namespaced(client.clone(), NAMESPACE);
    let machines = machines.list(&ListParams::default()).await?.items;
    for (name, (control_plane, workers)) in wanted {
        let phase = |machine: &Machine| machine.status.as_ref().map(|status| status.phase.clone());
        let of_cluster = machines
            .iter()
            .filter(|machine| machine.spec.cluster_name == *name);
        let phases: Vec<_> = of_cluster
            .map(|machine| phase(machine).unwrap_or_default())
            .collect();
        let is_complete = phases.len() == (control_plane + workers) as usize;
        if !is_complete || phases.iter().any(|phase| phase != "Running") {
            return Ok(Some(format!("{name} has machines {phases:?}")));
        }
    }
    Ok(None)
}

/// Writes a ConfigMap into every workload cluster.
async fn note(world: &Quiet, wanted: &BTreeMap<String, Size>, text: &str) -> anyhow::Result<()> {
    for name in wanted.keys() {
        let cluster = clusters(&world.api.client()).get(name).await?;
        let endpoint = cluster.spec.control_plane_endpoint.unwrap_or_default();
        let port = u16::try_from(endpoint.port).context("it has an endpoint")?;
        let note = json!({"metadata": {"name": text}}).to_string();
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(Body::from(note))?;
        let answer = world.hub.reach(port, request).await?;
        ensure!(
            answer.status() == StatusCode::CREATED,
            "{name} answers {}",
            answer.status()
        );
    }
    Ok(())
}

/// The routes of the manager, without sockets.
struct OfRouter(Router);

impl OfRouter {
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: impl Into<Body>,
    ) -> anyhow::Result<(StatusCode, Vec<u8>)> {
        let request = Request::builder().method(method).uri(path).body(body.into())?;
        let answer = self.0.clone().oneshot(request).await?;
        let status = answer.status();
        Ok((status, to_bytes(answer.into_body(), usize::MAX).await?.into()))
    }
}

impl OfRouter {
    async fn get(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let (status, body) = self.ask(Method::GET, path, Body::empty()).await?;
        ensure!(
            status.is_success(),
            "{status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(body)
    }
}

impl Workloads for OfRouter {
    type Error = anyhow::Error;

    async fn read(&self, namespace: &str) -> anyhow::Result<Vec<u8>> {
        self.get(&format!("/checkpoint?namespace={namespace}")).await
    }

    async fn names(&self, namespace: &str) -> anyhow::Result<BTreeSet<String>> {
        let lines = self
            .get(&format!("/checkpoint?namespace={namespace}&names=true"))
            .await?;
        let lines = serde_json::Deserializer::from_slice(&lines).into_iter::<Value>();
        lines
            .map(|line| Ok(line?["name"].as_str().unwrap_or_default().to_owned()))
            .collect()
    }

    async fn put_back(&self, lines: Bytes) -> anyhow::Result<bool> {
        let (status, body) = self.ask(Method::PUT, "/checkpoint", lines).await?;
        ensure!(
            status.is_success() || status == StatusCode::CONFLICT,
            "{status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(status.is_success())
    }

    async fn forget(&self) -> anyhow::Result<()> {
        let (status, _) = self.ask(Method::DELETE, "/checkpoint", Body::empty()).await?;
        ensure!(status.is_success(), "{status}");
        Ok(())
    }
}
