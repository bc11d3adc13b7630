//! A manager ends, and another one takes over, while Faults are in force: whatever was at rest before stays as it was.
//!
//! ```text
//!  acts of users ─▶ rest ─▶ what did not change is noted ─▶ the manager ends ─▶ the next one ─▶ every look compares
//!                                                     └────▶ the twin: the same world until here, whose manager stays ─▶ what changes by itself
//! ```
//!
//! What changes in the twin too has not changed because of the restart.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use axum::body::{Body, to_bytes};
use http::Request;
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use nephele_api::{
    cloud::v1alpha1::{ClusterFault, Fault, SimulatedCloud},
    conditions::{self, reasons, types},
    core::{Cluster, Machine},
    infrastructure::v1beta2::{InMemoryMachine, termination::TERMINATE_ANNOTATION},
    labels,
};
use nephele_apiserver::{GroupResource, Object, Store};
use nephele_controller::{Kind as ReadableKind, PAUSED_ANNOTATION, Readable};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    fault,
    process::{EVEN, holder},
    quiet::Quiet,
    scenario::draws_about,
    settled::is_available,
    world::{paused_runtime, plan},
};

const LEASE: Duration = Duration::from_secs(15);
/// What does not change for so long is at rest.
const REST: Duration = Duration::from_secs(100);
/// How often a cluster is asked meanwhile, out of step with Faults that come and go. One that lets half of the requests fail
/// is found out.
const ASK_EVERY: Duration = Duration::from_millis(1_700);
/// How long a world is watched, from the end of its manager on: the lease of a manager that crashed, and a minute. The twin
/// is watched for as long, so that it sees what changes by itself until then.
const WATCHED: Duration = Duration::from_secs(80);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long the manager that leads may take until clusters answer again.
const TAKES_OVER: Duration = Duration::from_secs(2);
const SETTLES_WITHIN: Duration = Duration::from_secs(3600);
/// How often the manager ends in a world.
const ROUNDS: usize = 3;
const CLUSTER: &str = "cluster-0";

/// A kind, by group and resource.
type Kind = (&'static str, &'static str);

const IN_MEMORY_CLUSTERS: Kind = ("infrastructure.cluster.x-k8s.io", "inmemoryclusters");
const IN_MEMORY_MACHINES: Kind = ("infrastructure.cluster.x-k8s.io", "inmemorymachines");
const FAULTS: Kind = ("cloud.nephele.dev", "faults");
const CLOUDS: Kind = ("cloud.nephele.dev", "simulatedclouds");
/// The kinds whose objects nothing may change while the manager is away.
const OURS: [Kind; 9] = [
    IN_MEMORY_CLUSTERS,
    IN_MEMORY_MACHINES,
    ("infrastructure.cluster.x-k8s.io", "inmemorymachinepools"),
    ("ipam.cluster.x-k8s.io", "ipaddressclaims"),
    ("ipam.cluster.x-k8s.io", "ipaddresses"),
    ("ipam.cluster.x-k8s.io", "inclusterippools"),
    CLOUDS,
    FAULTS,
    ("cloud.nephele.dev", "clusterfaults"),
];
/// The kinds of Cluster API, which sees that no cluster answers without a manager. In the end they are as before.
const OF_CLUSTER_API: [Kind; 2] = [("cluster.x-k8s.io", "clusters"), ("cluster.x-k8s.io", "machines")];

/// Restarts the manager of a world of this seed, in this process.
///
/// # Errors
/// With what the restarts have changed.
pub fn restarts(seed: u64) -> Result<(), String> {
    let mut changed = live(seed, usize::MAX)?;
    let rounds: BTreeSet<_> = changed.keys().map(|(round, _)| *round).collect();
    for round in rounds {
        let by_itself: BTreeSet<_> = live(seed, round)?.into_keys().collect();
        changed.retain(|key, _| key.0 != round || !by_itself.contains(key));
    }
    let told: Vec<_> = changed
        .iter()
        .map(|((round, key), what)| format!("restart {round}: {key} {what}"))
        .collect();
    if told.is_empty() {
        Ok(())
    } else {
        Err(told.join("\n"))
    }
}

/// What was at rest and has changed: the round, what it was, and the change.
type Changed = BTreeMap<(usize, String), String>;

/// Lives a world whose manager is restarted in the rounds before `twin_from`.
fn live(seed: u64, twin_from: usize) -> Result<Changed, String> {
    fastrand::seed(seed);
    paused_runtime().block_on(async {
        let mut draws = draws_about(seed, &["restarts"], 0);
        let keeps_state = draws.random_ratio(1, 2);
        let deletion = ["0s", "20s", "20m"][draws.random_range(0..3_usize)];
        let quiet = Quiet::with_disk(LEASE, keeps_state).await;
        let mut world = World {
            quiet,
            draws,
            keeps_state,
            twin_from,
            deletion,
            made: 0,
            changed: Changed::new(),
        };
        let outcome = world.live(seed).await;
        world.quiet.stop().await;
        outcome.map(|()| world.changed)
    })
}

struct World {
    quiet: Quiet,
    draws: ChaCha8Rng,
    /// Whether the objects of workload clusters outlast a manager.
    keeps_state: bool,
    /// The first round in which the manager stays. Until then a twin is the same world.
    twin_from: usize,
    /// How long the cloud takes to delete an instance. It does not change, because a restart forgets what it was when a
    /// deletion began.
    deletion: &'static str,
    /// The number of Faults so far.
    made: u32,
    changed: Changed,
}

impl World {
    async fn live(&mut self, seed: u64) -> Result<(), String> {
        let workers = self.draws.random_range(1..=3);
        let pooled = self.draws.random_ratio(1, 2);
        let pool = self.draws.random_ratio(1, 3).then_some(2);
        for (number, name) in [CLUSTER, "cluster-1"].into_iter().enumerate() {
            let key = (EVEN.to_owned(), name.to_owned());
            let mut plan = plan(&key, &format!("{seed}/{number}"), 1, workers, pooled);
            plan.pool = pool;
            self.quiet.planned.set(plan.clone());
            let created = nephele_fake_capi::create(&self.quiet.api.client(), &plan).await;
            created.map_err(|error| error.to_string())?;
        }
        self.settle().await?;
        for round in 1..=ROUNDS {
            for _ in 0..self.draws.random_range(1..=4) {
                self.act().await;
                sleep(Duration::from_millis(self.draws.random_range(0..15_000))).await;
            }
            let at_rest = self.rest().await;
            self.restart(&at_rest, round).await;
        }
        self.heal().await;
        self.settle().await
    }

    /// A user does something.
    async fn act(&mut self) {
        match self.draws.random_range(0..16_u8) {
            0..5 => {
                let object = self.new_fault();
                self.create::<Fault>(&object).await;
            }
            5 => {
                let object = serde_json::from_value(self.new_fault()).expect("a ClusterFault");
                let api: Api<ClusterFault> = Api::all(self.quiet.api.client());
                api.create(&PostParams::default(), &object)
                    .await
                    .expect("it is taken");
            }
            6 | 7 => self.change_cloud().await,
            8 => {
                let workers = self.draws.random_range(0..=4);
                let mut plan = self.quiet.planned.get(EVEN, CLUSTER).expect("it is planned");
                plan.scale_workers(workers);
                self.quiet.planned.set(plan);
            }
            9 | 10 => {
                let Some(name) = self.any::<Machine>(is_worker).await else {
                    return;
                };
                let _ = self
                    .api::<Machine>()
                    .delete(&name, &DeleteParams::default())
                    .await;
            }
            11 => {
                let Some(name) = self.any::<InMemoryMachine>(is_worker).await else {
                    return;
                };
                let annotations = json!({ TERMINATE_ANNOTATION: "" });
                self.patch::<InMemoryMachine>(&name, &json!({ "metadata": { "annotations": annotations } }))
                    .await;
            }
            12 => {
                let paused = self.draws.random_ratio(1, 2).then_some(true);
                self.patch::<Cluster>(CLUSTER, &json!({ "spec": { "paused": paused } }))
                    .await;
            }
            13 => {
                let Some(name) = self.any::<Fault>(|_| true).await else {
                    return;
                };
                let paused = self.draws.random_ratio(1, 2).then_some("");
                let annotations = json!({ PAUSED_ANNOTATION: paused });
                self.patch::<Fault>(&name, &json!({ "metadata": { "annotations": annotations } }))
                    .await;
            }
            14 => {
                let name = self.any::<Fault>(|_| true).await;
                let spec = self.fault();
                let Some(name) = name else { return };
                // A merge would keep fields of the effect before.
                let nothing = json!({ "match": null, "effect": null, "budget": null });
                for spec in [nothing, spec] {
                    self.patch::<Fault>(&name, &json!({ "spec": spec })).await;
                }
            }
            _ => {
                let Some(name) = self.any::<Fault>(|_| true).await else {
                    return;
                };
                let _ = self.api::<Fault>().delete(&name, &DeleteParams::default()).await;
            }
        }
    }

    /// A Fault with the next name.
    fn new_fault(&mut self) -> Value {
        let spec = self.fault();
        self.made += 1;
        json!({ "metadata": { "name": format!("fault-{}", self.made) }, "spec": spec })
    }

    /// The spec of a Fault without an end. Not of reads that stay as they were: after a restart they are those of the restart.
    fn fault(&mut self) -> Value {
        loop {
            let spec = self.any_fault();
            if spec["effect"]["apiServer"]["staleReads"].is_null() {
                return spec;
            }
        }
    }

    fn any_fault(&mut self) -> Value {
        let draws = &mut self.draws;
        let mut spec = fault::spec(
            draws.random_range(0..12),
            draws.random_range(0..fault::EFFECTS),
            draws.random_range(30..=101),
            if draws.random_ratio(1, 2) {
                0
            } else {
                draws.random_range(1..4)
            },
            draws.random_range(0..60),
        );
        // Clusters do not become available again while one of these is in force.
        let stops = ["noLeader", "down", "hold"]
            .iter()
            .any(|name| spec["effect"].to_string().contains(name));
        let budget = spec["budget"].as_object_mut().expect("an object");
        if stops && draws.random_ratio(1, 2) {
            budget.insert("for".to_owned(), json!("30s"));
        } else {
            budget.remove("for");
        }
        spec
    }

    async fn change_cloud(&mut self) {
        let draws = &mut self.draws;
        let rate = draws.random_ratio(1, 2).then(|| draws.random_range(1..6_u8));
        let lag = draws
            .random_ratio(1, 2)
            .then(|| format!("{}s", draws.random_range(1..60_u8)));
        let machines = draws.random_ratio(1, 3).then(|| draws.random_range(1..12_u8));
        let paused = draws.random_ratio(1, 6);
        let spec = json!({
            "api": { "rate": rate, "readAfterWriteLag": lag },
            "latency": { "delete": { "fixed": { "duration": self.deletion } } },
            "quotas": { "instances": machines },
            "clock": { "paused": paused },
            "leakedInstances": "Keep",
        });
        if self.any::<SimulatedCloud>(|_| true).await.is_none() {
            self.create::<SimulatedCloud>(&json!({ "metadata": { "name": "default" }, "spec": {} }))
                .await;
        }
        self.patch::<SimulatedCloud>("default", &json!({ "spec": spec }))
            .await;
    }

    /// Time passes. Returns what did not change meanwhile.
    async fn rest(&mut self) -> AtRest {
        let before = self.versions();
        let mut answers = self.answers().await;
        let until = Instant::now() + REST;
        while Instant::now() < until {
            sleep(ASK_EVERY).await;
            let now = self.answers().await;
            answers.retain(|port, answer| now.get(port) == Some(answer));
        }
        let mut objects = self.versions();
        let silent = self.silent(&answers);
        let asking: BTreeSet<_> = objects
            .values()
            .filter(|object| asks_again(object))
            .map(|object| cluster(object))
            .collect();
        let asking_namespaces: BTreeSet<_> = asking.iter().map(|(namespace, _)| namespace.clone()).collect();
        objects.retain(|key, object| {
            let is_same = before
                .get(key)
                .is_some_and(|before| before.resource_version == object.resource_version);
            let cluster = cluster(object);
            // What a machine that asks again changes when it is let in.
            let may_change = is_of(key, &OF_CLUSTER_API)
                && (silent.contains(&cluster) || asking.contains(&cluster))
                || is_of(key, &[CLOUDS]) && asking_namespaces.contains(&cluster.0);
            is_same && !asks_again(object) && !may_change
        });
        let on_the_way = self.on_the_way(&objects);
        answers.retain(|port, _| !on_the_way.contains(port));
        AtRest {
            objects,
            answers,
            hits: self.hits(),
            taken: self.taken(),
        }
    }

    /// The ports of clusters with a machine that is not at rest: its Node is still to come, or to go.
    fn on_the_way(&self, at_rest: &BTreeMap<String, Arc<Object>>) -> BTreeSet<u16> {
        let store = self.quiet.api.server().store();
        let machines = versions(store, &[IN_MEMORY_MACHINES]);
        let moving = machines.iter().filter(|(key, _)| !at_rest.contains_key(*key));
        let moving: BTreeSet<_> = moving.map(|(_, machine)| cluster(machine)).collect();
        let clusters = versions(store, &[IN_MEMORY_CLUSTERS]);
        clusters
            .values()
            .filter(|object| moving.contains(&cluster(object)))
            .filter_map(|object| port(object))
            .collect()
    }

    /// The clusters that did not answer each time. What Cluster API says of one changes by luck, because a Fault draws for
    /// each request, or minutes later, when its grace periods end.
    fn silent(&self, answers: &BTreeMap<u16, Value>) -> BTreeSet<(String, String)> {
        let clusters = versions(self.quiet.api.server().store(), &[IN_MEMORY_CLUSTERS]);
        let answers = |object: &Object| {
            port(object)
                .and_then(|port| answers.get(&port))
                .is_some_and(|answer| answer["status"] == 200)
        };
        clusters
            .values()
            .filter(|object| !answers(object))
            .map(|object| cluster(object))
            .collect()
    }

    /// The manager ends, and another one takes over.
    async fn restart(&mut self, at_rest: &AtRest, round: usize) {
        let crashes = self.draws.random_ratio(1, 2);
        let has_standby = self.draws.random_ratio(1, 2);
        let away = match self.draws.random_range(0..3_u8) {
            0 => 0,
            1 => self.draws.random_range(0..5_000),
            _ => self.draws.random_range(0..90_000),
        };
        let ends = round < self.twin_from;
        if ends {
            if has_standby {
                self.quiet.start_manager();
                sleep(LOOK_EVERY).await;
            }
            self.quiet.end_manager(crashes).await;
        }
        if !has_standby {
            sleep(Duration::from_millis(away)).await;
        }
        if ends && !has_standby {
            self.quiet.start_manager();
        }
        let led = self.watch(at_rest, round).await;
        self.compare_kinds(at_rest, round, &OF_CLUSTER_API);
        if !led {
            self.note(round, "the manager", "does not lead".to_owned());
        }
    }

    /// Compares what can be seen with what was at rest, for a while. Returns whether the new manager led.
    async fn watch(&mut self, at_rest: &AtRest, round: usize) -> bool {
        let mut led_since: Option<Instant> = None;
        let begun = Instant::now();
        while begun.elapsed() < WATCHED {
            sleep(LOOK_EVERY).await;
            self.compare_kinds(at_rest, round, &OURS);
            let hits = self.hits();
            for (key, before) in &at_rest.hits {
                if hits.get(key).is_some_and(|now| now < before) {
                    self.note(
                        round,
                        key,
                        format!("counted {before} hits and counts {}", hits[key]),
                    );
                }
            }
            let taken = self.taken();
            for (key, before) in &at_rest.taken {
                if taken.get(key).is_some_and(|now| now < before) {
                    self.note(round, key, format!("counted {before} and counts {}", taken[key]));
                }
            }
            led_since = led_since.or_else(|| self.leads().then(Instant::now));
            if led_since.is_some_and(|since| since.elapsed() >= TAKES_OVER) {
                let answers = self.answers().await;
                for (port, before) in &at_rest.answers {
                    let now = answers.get(port).unwrap_or(&Value::Null);
                    if let Some(what) = difference("", before, now) {
                        self.note(round, &format!("port {port}"), what);
                    }
                }
            }
        }
        led_since.is_some()
    }

    fn compare_kinds(&mut self, at_rest: &AtRest, round: usize, kinds: &[Kind]) {
        let now = versions(self.quiet.api.server().store(), kinds);
        for (key, before) in &at_rest.objects {
            if !is_of(key, kinds) {
                continue;
            }
            let what = match now.get(key) {
                None => "is gone".to_owned(),
                Some(now) if now.resource_version == before.resource_version => continue,
                Some(now) => match difference("", &content(before), &content(now)) {
                    Some(what) => what,
                    None => continue,
                },
            };
            self.note(round, key, what);
        }
    }

    fn note(&mut self, round: usize, key: &str, what: String) {
        if !self.changed.contains_key(&(round, key.to_owned())) {
            let now = self.versions();
            let concerns =
                |of: &str| of == key || of.starts_with("faults ") || of.starts_with("inmemorymachines ");
            let objects = now.iter().filter(|(of, _)| concerns(of));
            let objects: Vec<_> = objects
                .map(|(key, object)| format!("{key} {}", content(object)))
                .collect();
            tracing::debug!(round, key, what, "Changed:\n{}", objects.join("\n"));
        }
        self.changed.entry((round, key.to_owned())).or_insert(what);
    }

    /// Whether the manager that runs holds the lease.
    fn leads(&self) -> bool {
        self.quiet.manager() == Some(holder(self.quiet.api.server().store()).as_str())
    }

    fn versions(&self) -> BTreeMap<String, Arc<Object>> {
        let store = self.quiet.api.server().store();
        let mut all = versions(store, &OURS);
        all.extend(versions(store, &OF_CLUSTER_API));
        all
    }

    /// The hits of each Fault.
    fn hits(&self) -> BTreeMap<String, u64> {
        let faults = versions(self.quiet.api.server().store(), &[FAULTS]);
        let hits = |object: &Arc<Object>| object.value()["status"]["hits"].as_u64();
        faults
            .iter()
            .filter_map(|(key, object)| Some((key.clone(), hits(object)?)))
            .collect()
    }

    /// How many machines each cloud has, and how much of each limit is used.
    fn taken(&self) -> BTreeMap<String, i64> {
        let clouds = versions(self.quiet.api.server().store(), &[CLOUDS]);
        let mut taken = BTreeMap::new();
        for (key, object) in clouds {
            let status = object.value()["status"].take();
            taken.extend(
                status["instances"]
                    .as_i64()
                    .map(|number| (format!("{key}: instances"), number)),
            );
            for usage in status["usage"].as_array().into_iter().flatten() {
                let limit = usage["name"].as_str().unwrap_or_default();
                taken.extend(
                    usage["used"]
                        .as_i64()
                        .map(|used| (format!("{key}: {limit} used"), used)),
                );
            }
        }
        taken
    }

    /// What the published endpoints of clusters answer: the Nodes, a refusal, or nothing at all.
    async fn answers(&self) -> BTreeMap<u16, Value> {
        let clusters = versions(self.quiet.api.server().store(), &[IN_MEMORY_CLUSTERS]);
        let mut answers = BTreeMap::new();
        for object in clusters.values() {
            let Some(port) = port(object) else { continue };
            answers.insert(port, self.answer(port).await);
        }
        answers
    }

    async fn answer(&self, port: u16) -> Value {
        let request = Request::get("/api/v1/nodes")
            .body(Body::empty())
            .expect("a request");
        let answer = timeout(Duration::from_millis(1), self.quiet.hub.reach(port, request)).await;
        let response = match answer {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return error.to_string().into(),
            Err(_) => return "nothing at once".into(),
        };
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), usize::MAX)
            .await
            .unwrap_or_default();
        let mut list: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let nodes = list["items"]
            .as_array_mut()
            .map(std::mem::take)
            .unwrap_or_default();
        let nodes: Vec<_> = nodes.into_iter().map(|node| self.node(node)).collect();
        json!({ "status": status, "nodes": nodes })
    }

    /// What of a Node has to outlast a manager. Without a state directory that is what follows from the objects of the
    /// management cluster, and not what clients wrote.
    fn node(&self, mut node: Value) -> Value {
        for condition in node["status"]["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastHeartbeatTime"] = Value::Null;
        }
        if self.keeps_state {
            return without_version(node);
        }
        for condition in node["status"]["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastTransitionTime"] = Value::Null;
        }
        let metadata = &node["metadata"];
        let spec = &node["spec"];
        json!({
            "name": metadata["name"], "uid": metadata["uid"], "creationTimestamp": metadata["creationTimestamp"],
            "providerID": spec["providerID"], "podCIDRs": spec["podCIDRs"], "conditions": node["status"]["conditions"],
        })
    }

    /// Deletes all Faults, lifts all limits, and unpauses what is paused.
    async fn heal(&self) {
        let all = DeleteParams::default();
        let any = ListParams::default();
        let cluster_faults: Api<ClusterFault> = Api::all(self.quiet.api.client());
        cluster_faults
            .delete_collection(&all, &any)
            .await
            .expect("they are deleted");
        self.api::<Fault>()
            .delete_collection(&all, &any)
            .await
            .expect("they are deleted");
        let lifted = json!({ "quotas": null, "api": null, "latency": null, "clock": null, "leakedInstances": "Delete" });
        self.patch::<SimulatedCloud>("default", &json!({ "spec": lifted }))
            .await;
        self.patch::<Cluster>(CLUSTER, &json!({ "spec": { "paused": null } }))
            .await;
    }

    /// Waits until all clusters are available.
    async fn settle(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let clusters = self
                .api::<Cluster>()
                .list(&ListParams::default())
                .await
                .expect("a list");
            let Some(missing) = clusters.iter().find(|cluster| !is_available(cluster)) else {
                return Ok(());
            };
            if begun.elapsed() > SETTLES_WITHIN {
                return Err(format!(
                    "{} is not available: {}",
                    missing.name_any(),
                    self.waiting().await
                ));
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// What machines that are not ready say.
    async fn waiting(&self) -> String {
        let machines = self
            .api::<InMemoryMachine>()
            .list(&ListParams::default())
            .await
            .expect("a list");
        let waiting = machines.iter().filter_map(|machine| {
            let conditions = &machine.status.as_ref()?.conditions;
            let ready = conditions::find(conditions, types::READY)?;
            (ready.status == conditions::FALSE)
                .then(|| format!("{}: {} {}", machine.name_any(), ready.reason, ready.message))
        });
        waiting.collect::<Vec<_>>().join("; ")
    }

    /// The name of an object of a kind that is not being deleted, if there is one.
    async fn any<K: Namespaced>(&mut self, is_wanted: impl Fn(&K) -> bool) -> Option<String> {
        // No schema keeps users from objects that cannot be read.
        let api: Api<Readable<K>> = Api::namespaced(self.quiet.api.client(), EVEN);
        let found = api.list(&ListParams::default()).await.expect("a list");
        let mut names: Vec<_> = found
            .into_iter()
            .map(Readable::into_object)
            .filter(|object| object.meta().deletion_timestamp.is_none() && is_wanted(object))
            .map(|object| object.name_any())
            .collect();
        names.sort();
        // Drawn in each case: the twin draws the same, whatever there is.
        let drawn: usize = self.draws.random_range(0..60);
        (!names.is_empty()).then(|| names.swap_remove(drawn % names.len()))
    }

    fn api<K: Namespaced>(&self) -> Api<K> {
        Api::namespaced(self.quiet.api.client(), EVEN)
    }

    async fn create<K: Namespaced>(&self, object: &Value) {
        let object: K = serde_json::from_value(object.clone()).expect("an object of the kind");
        self.api::<K>()
            .create(&PostParams::default(), &object)
            .await
            .expect("it is taken");
    }

    async fn patch<K: Namespaced>(&self, name: &str, patch: &Value) {
        // The object may be gone.
        let _ = self
            .api::<K>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
    }
}

/// An object of a namespace.
trait Namespaced: ReadableKind + kube::Resource<DynamicType = (), Scope = NamespaceResourceScope> {}

impl<K> Namespaced for K where
    K: ReadableKind + kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
{
}

/// What did not change while time passed.
struct AtRest {
    /// By resource, namespace, name and uid.
    objects: BTreeMap<String, Arc<Object>>,
    answers: BTreeMap<u16, Value>,
    hits: BTreeMap<String, u64>,
    /// What the clouds count as taken. A machine that asks again is there meanwhile, and keeps its room.
    taken: BTreeMap<String, i64>,
}

/// Whether the object with this key is of one of these kinds.
fn is_of(key: &str, kinds: &[Kind]) -> bool {
    kinds
        .iter()
        .any(|(_, resource)| key.split(' ').next() == Some(*resource))
}

/// The port of an InMemoryCluster.
fn port(object: &Object) -> Option<u16> {
    let port = object.value()["spec"]["controlPlaneEndpoint"]["port"].as_u64()?;
    u16::try_from(port).ok()
}

/// The namespace and name of the cluster that an object belongs to, or is.
fn cluster(object: &Object) -> (String, String) {
    let value = object.value();
    let name = value["metadata"]["labels"][labels::CLUSTER_NAME]
        .as_str()
        .unwrap_or(&object.name);
    (object.namespace.to_string(), name.to_owned())
}

/// Whether a machine waits for room or for a rate of calls, or a cloud has one that waits for room: it asks again, in its own
/// time.
fn asks_again(object: &Object) -> bool {
    let status = object.value()["status"].take();
    let asks = |condition: &Value| {
        let reason = condition["reason"].as_str().unwrap_or_default();
        [
            reasons::QUOTA_EXCEEDED,
            reasons::THROTTLED,
            "InsufficientCapacity",
        ]
        .contains(&reason)
    };
    status["waiting"].as_i64() > Some(0) || status["conditions"].as_array().into_iter().flatten().any(asks)
}

fn is_worker<K: kube::Resource>(object: &K) -> bool {
    !labels::is_control_plane(object.meta())
}

/// The objects of these kinds.
fn versions(store: &Store, kinds: &[Kind]) -> BTreeMap<String, Arc<Object>> {
    let listed = kinds.iter().flat_map(|(group, resource)| {
        let objects = store.list(&GroupResource::new(group, resource), None).objects;
        objects.into_iter().map(move |object| {
            (
                format!("{resource} {}/{} {}", object.namespace, object.name, object.uid),
                object,
            )
        })
    });
    listed.collect()
}

fn content(object: &Object) -> Value {
    let mut content = without_version(object.value());
    if content["kind"] == "Cluster" {
        // While there is no manager, the API server of a cluster does not answer, and Cluster API says so.
        let conditions = content["status"]["conditions"]
            .as_array_mut()
            .into_iter()
            .flatten();
        let is_of_connection = |condition: &&mut Value| {
            ["Available", "RemoteConnectionProbe"]
                .iter()
                .any(|kind| condition["type"] == *kind)
        };
        for condition in conditions.filter(is_of_connection) {
            condition["lastTransitionTime"] = Value::Null;
        }
    }
    content
}

/// An object without what each write changes.
fn without_version(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| !["resourceVersion", "managedFields"].contains(&name.as_str()));
    }
    object
}

/// The first place where two values differ, with both.
fn difference(path: &str, before: &Value, now: &Value) -> Option<String> {
    match (before, now) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
            names
                .into_iter()
                .find_map(|name| difference(&format!("{path}.{name}"), &before[name], &now[name]))
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => one
            .iter()
            .zip(other)
            .enumerate()
            .find_map(|(index, (one, other))| difference(&format!("{path}[{index}]"), one, other)),
        (Value::Array(one), Value::Array(other)) => {
            let name = |entry: &Value| {
                let name = entry["name"].as_str().or(entry["metadata"]["name"].as_str());
                name.unwrap_or("nameless").to_owned()
            };
            let names = |list: &[Value]| list.iter().map(name).collect::<Vec<_>>();
            Some(format!(
                "has {path} {:?}, and before {:?}",
                names(other),
                names(one)
            ))
        }
        _ => (before != now).then(|| format!("has {path} {now}, and before {before}")),
    }
}
