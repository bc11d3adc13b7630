//! Runs a world.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use http::{Method, Request, StatusCode};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use nephele_api::{
    cloud::{
        CLUSTER_FAULT_LABEL, DEFAULT_NAME,
        v1alpha1::{self as cloud, ClusterFault, Fault, SimulatedCloud, SimulatedCloudSpec},
    },
    core::{Cluster, Machine},
    infrastructure::v1beta2::{
        Behaviour, Component, InMemoryMachine, PoolReference, Provisioning, termination::TERMINATE_ANNOTATION,
    },
    ipam,
    ipam::v1alpha2::{InClusterIPPool, InClusterIPPoolSpec},
    labels,
};
use nephele_apiserver::Store;
use nephele_controller::WATCH_FILTER_LABEL;
use nephele_fake_capi::{ClusterPlan, KeyPairs, Plan, PlannedClusters, Surroundings};
use nephele_model::{Fraction, GoDuration};
use nephele_pki::KeyAlgorithm;
use nephele_state::MemoryDisk;
use nephele_testkit::ManagementApi;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    runtime::Runtime,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    audit::{Auditor, ClusterKey, Violation, cluster_of, endpoint, key_of},
    connection::{Conditions, Connection, Sent, Witness},
    fault,
    hub::Hub,
    moves,
    owners::outdated,
    prepared::key_pairs,
    process::{EVEN, ODD, Process, Settings, holder},
    scenario::{CLOCK_RATES, CLUSTERS, SLOW_CLOCK_RATE, Scenario, Scope, Step},
    script,
    settled::{Asked, miscounted, shares_endpoint, unsettled},
    sight::Sight,
    time::WorldClock,
};

/// How often the auditor checks the world while time passes.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The simulated time in which a world without trouble has to reach the state that was asked for: an upgrade of ten
/// machines, one by one, takes seven minutes, and the longest backoff is sixteen minutes.
const SETTLES_WITHIN: Duration = Duration::from_secs(3600);
/// The simulated time during which managers must not write to a settled world.
const QUIET: Duration = Duration::from_secs(30);
/// How often the stand-in for Cluster API polls a cluster whose machines boot: more often than Cluster API does, but
/// rarely enough that polling does not dominate the run.
const POLL: Duration = Duration::from_secs(1);
/// How often the stand-in asks a workload cluster that nothing happens in, as Cluster API's cluster cache does.
const PROBE: Duration = Duration::from_secs(10);
/// The simulated time after which the effects of earlier trouble are over: a pool stops waiting for an answer 90 s
/// after its request, or 90 s after a new manager has the lease and its lists, and writes that to its status.
const LATE: Duration = Duration::from_secs(130);
/// A pod network with room for 32 Nodes, so few that two Nodes of a small cluster sometimes want the same part.
const FEW_SHARES: &str = "192.168.0.0/19";
/// A pod network with room for 256 Nodes.
const MANY_SHARES: &str = "192.168.0.0/16";
/// The Kubernetes versions of clusters.
const VERSIONS: [&str; 2] = ["v1.36.3", "v1.35.8"];

/// The summary of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The simulated time that passed.
    pub lasted: Duration,
    /// The number of requests from managers.
    pub requests: u64,
    /// A hash over the requests of managers, with their times and order.
    pub digest: u64,
}

/// Runs a world in this thread.
///
/// # Errors
/// With the first violation; a panic is one too.
pub fn run(scenario: &Scenario) -> Result<Summary, Violation> {
    // The jitter of kube's backoff.
    fastrand::seed(scenario.seed);
    let runtime = paused_runtime();
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async { World::start(scenario).await.live().await })
    }));
    runtime.shutdown_background();
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Violation {
            step: 0,
            what: format!("it panicked: {}", text.unwrap_or_default()),
        })
    })
}

/// A runtime with one thread, on simulated time.
pub(crate) fn paused_runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime can be made")
}

struct World<'a> {
    scenario: &'a Scenario,
    clock: WorldClock,
    api: ManagementApi,
    /// Stops the stand-in for Cluster API on `api`.
    fake_capi: CancellationToken,
    planned: PlannedClusters,
    asked: BTreeMap<u8, Asked>,
    managers: Vec<Process>,
    started: u32,
    scope: Scope,
    trouble: Arc<AtomicBool>,
    /// Whether the objects of clusters and machines are hidden from managers.
    away: Arc<AtomicBool>,
    hub: Hub,
    sight: Sight,
    auditor: Auditor,
    witnessed: Arc<Witnessed>,
    /// The disk for the objects of workload clusters, if managers keep them.
    disk: Option<MemoryDisk>,
    step: usize,
    notes: u32,
    /// The number of faults created so far.
    faults: u32,
    /// The number of Scenarios of users so far.
    scripts: u32,
    /// The number of clusters created so far.
    created: u32,
    /// The number of moves to another management cluster so far.
    moved: u32,
}

/// The requests that managers sent.
struct Witnessed {
    begun: tokio::time::Instant,
    requests: AtomicU64,
    writes: AtomicU64,
    digest: AtomicU64,
    last_write: Mutex<String>,
    /// The first write of a manager that is not the leader.
    violation: Mutex<Option<String>>,
}

impl Witnessed {
    /// Records a request of a manager to the management API with this store.
    fn note(&self, store: &Store, sent: &Sent<'_>) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let text = format!(
            "{:?} {} {} {}",
            self.begun.elapsed(),
            sent.identity,
            sent.method,
            sent.path
        );
        tracing::debug!(target: "nephele_simulation::sent", "{text}");
        // FNV-1a over all requests so far; one thread runs a world.
        let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let before = self.digest.load(Ordering::Relaxed);
        self.digest
            .store(text.bytes().fold(before, fold), Ordering::Relaxed);
        // Events describe earlier work, and may be sent after the manager lost the lease.
        if *sent.method == Method::GET || sent.path.contains("/leases") || sent.path.ends_with("/events") {
            return;
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        *self.last_write.lock() = text;
        let holder = holder(store);
        if holder != sent.identity {
            let Sent {
                identity,
                method,
                path,
            } = sent;
            let what = format!("{identity} sent {method} {path} while {holder:?} held the lease");
            self.violation.lock().get_or_insert(what);
        }
    }
}

impl<'a> World<'a> {
    async fn start(scenario: &'a Scenario) -> Self {
        let clock = WorldClock::start();
        let api = management_api("management", &clock).await;
        for (number, namespace) in [EVEN, ODD].into_iter().enumerate() {
            create_pools(&api, namespace, number).await;
        }
        let planned = PlannedClusters::new(Plan::default());
        let hub = Hub::default();
        let witnessed = Witnessed {
            begun: tokio::time::Instant::now(),
            requests: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            digest: AtomicU64::new(0xcbf2_9ce4_8422_2325),
            last_write: Mutex::default(),
            violation: Mutex::default(),
        };
        let mut world = Self {
            scenario,
            clock,
            api,
            fake_capi: CancellationToken::new(),
            planned,
            asked: BTreeMap::new(),
            managers: Vec::new(),
            started: 0,
            scope: Scope::All,
            trouble: Arc::new(AtomicBool::new(scenario.trouble)),
            away: Arc::default(),
            hub,
            sight: Sight::new(),
            auditor: Auditor::new(scenario),
            witnessed: Arc::new(witnessed),
            disk: scenario.keeps_state.then(MemoryDisk::default),
            step: 0,
            notes: 0,
            faults: 0,
            scripts: 0,
            created: 0,
            moved: 0,
        };
        world.play_cluster_api();
        world.fill_up();
        world
    }

    /// Starts a stand-in for Cluster API on the current management cluster.
    fn play_cluster_api(&mut self) {
        self.fake_capi = CancellationToken::new();
        play_cluster_api(
            &self.api,
            &self.planned,
            &self.hub,
            &self.clock,
            self.fake_capi.clone(),
        );
    }

    async fn live(mut self) -> Result<Summary, Violation> {
        for (number, step) in self.scenario.steps.iter().enumerate() {
            self.step = number;
            tracing::debug!(number, ?step, "Step");
            let happened = self.happen(step).await;
            let looked = match happened {
                Ok(()) => self.look().await,
                Err(what) => Err(what),
            };
            looked.map_err(|what| Violation { step: number, what })?;
        }
        let requests = self.witnessed.requests.load(Ordering::Relaxed);
        let digest = self.witnessed.digest.load(Ordering::Relaxed);
        let lasted = self.witnessed.begun.elapsed();
        for manager in std::mem::take(&mut self.managers) {
            manager.stop().await;
        }
        Ok(Summary {
            lasted,
            requests,
            digest,
        })
    }

    async fn happen(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Create {
                cluster,
                control_plane,
                workers,
                pooled,
                machine_pool,
            } => {
                self.create(cluster, control_plane, workers, pooled, machine_pool)
                    .await;
            }
            Step::Scale { cluster, workers } => self.scale(cluster, workers),
            Step::ScalePool { cluster, machines } => self.scale_pool(cluster, machines),
            Step::Upgrade(cluster) => self.upgrade(cluster),
            Step::Delete(cluster) => self.delete(cluster).await,
            Step::Pause(cluster) => self.pause(cluster, true).await,
            Step::Unpause(cluster) => self.pause(cluster, false).await,
            Step::Terminate { cluster, worker } => self.terminate(cluster, worker).await,
            Step::Strip { cluster, worker } => self.strip(cluster, worker).await,
            Step::Outdate(cluster) => self.outdate(cluster).await,
            Step::Fault {
                cluster,
                operation,
                effect,
                percent,
                count,
                seconds,
            } => {
                let spec = fault::spec(operation, effect, percent, count, seconds);
                if fault::is_everywhere(operation) {
                    self.cluster_fault(&spec).await;
                } else {
                    self.fault(cluster, &spec).await;
                }
            }
            Step::Limit { .. } => self.limit(step).await,
            Step::Clock { .. } => self.set_clock(step).await,
            Step::Replace(cluster) => self.replace(&key(cluster).0).await,
            Step::Script {
                cluster,
                effect,
                rounds,
                seconds,
            } => {
                self.script(&key(cluster).0, effect, rounds, seconds).await;
            }
            Step::Note(cluster) => self.note(cluster).await,
            Step::Restart(scope) => self.restart(scope).await?,
            Step::Restore(time) => self.restore(Duration::from_millis(time.into())).await?,
            Step::Move => self.move_all().await?,
            Step::Kill => self.kill().await?,
            Step::Freeze(time) => {
                if let Some(leader) = self.leader() {
                    leader.connection.freeze(Duration::from_millis(time.into()));
                }
            }
            Step::Jump(seconds) => self.clock.jump(seconds.into()),
            Step::FillDisk(full) => {
                if let Some(disk) = &self.disk {
                    disk.set_full(full);
                }
            }
            Step::Wait(time) => self.pass(Duration::from_millis(time.into())).await?,
            Step::Settle => self.settle().await?,
        }
        Ok(())
    }

    // --- Actions of users.

    async fn limit(&mut self, step: &Step) {
        let Step::Limit {
            cluster,
            instances,
            vcpus,
            load_balancers,
            stock,
            rate,
            lag,
        } = *step
        else {
            return;
        };
        let quotas = json!({ "instances": instances, "vCPUs": vcpus, "loadBalancers": load_balancers });
        let capacity = stock.map(|count| json!([{ "count": count }]));
        let lag = lag.map(|seconds| format!("{seconds}s"));
        let api = json!({ "rate": rate, "readAfterWriteLag": lag });
        let spec = json!({
            "quotas": quotas, "capacity": capacity, "api": api, "leakedInstances": "Keep",
        });
        self.change_cloud(&key(cluster).0, &spec).await;
    }

    async fn set_clock(&mut self, step: &Step) {
        let Step::Clock {
            cluster,
            rate,
            paused,
            steps,
            ahead,
            deletion,
            seed,
        } = *step
        else {
            return;
        };
        let namespace = key(cluster).0;
        self.auditor.hold(&namespace);
        self.auditor.set_clock(&namespace);
        let rate = CLOCK_RATES[usize::from(rate) % CLOCK_RATES.len()];
        if paused || rate == SLOW_CLOCK_RATE {
            self.auditor.slow_clock(&namespace);
        }
        let ahead = format!("{ahead}s");
        let clock = json!({ "rate": rate, "paused": paused, "steps": steps, "ahead": ahead });
        let latency = json!({ "delete": { "uniform": { "min": "0s", "max": format!("{deletion}s") } } });
        let seed = seed.map(|seed| format!("seed-{seed}"));
        let spec = json!({ "clock": clock, "latency": latency, "seed": seed });
        self.change_cloud(&namespace, &spec).await;
    }

    async fn create(
        &mut self,
        cluster: u8,
        control_plane: u8,
        workers: u8,
        pooled: bool,
        machine_pool: Option<u8>,
    ) {
        let key = key(cluster);
        if self
            .api_in::<Cluster>(&key.0)
            .get_opt(&key.1)
            .await
            .expect("an answer")
            .is_some()
        {
            return;
        }
        let workers = if control_plane == 0 { 0 } else { workers };
        // A cluster without a control plane never gets machines in its pool.
        let machine_pool = machine_pool.filter(|_| control_plane > 0);
        self.created += 1;
        let salt = format!("{}/{}", self.scenario.seed, self.created);
        let is_spot = self.created.is_multiple_of(2);
        let plan = ClusterPlan {
            pool: machine_pool.map(u32::from),
            worker_instance_type: if is_spot {
                "small".to_owned()
            } else {
                String::new()
            },
            worker_market: if is_spot { "Spot".to_owned() } else { String::new() },
            ..plan(&key, &salt, control_plane.into(), workers.into(), pooled)
        };
        let asked = Asked {
            key,
            control_plane: control_plane.into(),
            workers: workers.into(),
            pool: machine_pool.unwrap_or_default().into(),
            version: VERSIONS[0].to_owned(),
            paused: false,
            deleted: false,
            may_lack_workers: false,
            notes: BTreeSet::new(),
        };
        self.asked.insert(cluster, asked);
        self.planned.set(plan.clone());
        nephele_fake_capi::create(&self.api.client(), &plan)
            .await
            .expect("objects are taken");
    }

    fn plan(&mut self, cluster: u8, change: impl FnOnce(&mut ClusterPlan, &mut Asked)) {
        let Some(asked) = self.asked.get_mut(&cluster).filter(|asked| !asked.deleted) else {
            return;
        };
        let Some(mut plan) = self.planned.get(&asked.key.0, &asked.key.1) else {
            return;
        };
        change(&mut plan, asked);
        self.planned.set(plan);
    }

    fn scale(&mut self, cluster: u8, workers: u8) {
        self.plan(cluster, |plan, asked| {
            if plan.control_plane > 0 {
                plan.scale_workers(workers.into());
                asked.workers = workers.into();
            }
        });
    }

    fn scale_pool(&mut self, cluster: u8, machines: u8) {
        self.plan(cluster, |plan, asked| {
            if let Some(pool) = &mut plan.pool {
                *pool = machines.into();
                asked.pool = machines.into();
            }
        });
    }

    fn upgrade(&mut self, cluster: u8) {
        self.plan(cluster, |plan, asked| {
            let other = VERSIONS[usize::from(plan.version == VERSIONS[0])];
            other.clone_into(&mut plan.version);
            other.clone_into(&mut asked.version);
        });
    }

    /// A user ends the instance of a worker.
    async fn terminate(&mut self, cluster: u8, worker: u8) {
        if let Some(instance) = self.worker(cluster, worker) {
            let patch = json!({ "metadata": { "annotations": { TERMINATE_ANNOTATION: "" } } });
            self.patch::<InMemoryMachine>(&key_of(&*instance), &patch).await;
        }
    }

    async fn delete(&mut self, cluster: u8) {
        let Some(asked) = self.asked.get_mut(&cluster).filter(|asked| !asked.deleted) else {
            return;
        };
        asked.deleted = true;
        let key = asked.key.clone();
        let deleted = self
            .api_in::<Cluster>(&key.0)
            .delete(&key.1, &DeleteParams::default())
            .await;
        deleted.expect("it was there");
    }

    async fn pause(&mut self, cluster: u8, paused: bool) {
        let Some(asked) = self
            .asked
            .get_mut(&cluster)
            .filter(|asked| asked.paused != paused)
        else {
            return;
        };
        if paused && asked.deleted {
            return;
        }
        asked.paused = paused;
        let key = asked.key.clone();
        self.patch::<Cluster>(&key, &json!({ "spec": { "paused": paused.then_some(true) } }))
            .await;
    }

    async fn fault(&mut self, cluster: u8, spec: &Value) {
        self.faults += 1;
        let namespace = key(cluster).0;
        let name = format!("fault-{}", self.faults);
        if spec["effect"]["hold"]["stage"] == "vm" {
            self.auditor.hold(&namespace);
        }
        self.may_end_workers(&namespace, spec);
        let metadata = json!({ "name": name, "namespace": namespace, "labels": watch_label(&namespace) });
        let object = json!({ "metadata": metadata, "spec": spec });
        let object: Fault = serde_json::from_value(object).expect("a Fault");
        let created = self
            .api_in::<Fault>(&namespace)
            .create(&PostParams::default(), &object)
            .await;
        created.expect("faults are taken");
    }

    /// An operator creates a ClusterFault of all namespaces.
    async fn cluster_fault(&mut self, spec: &Value) {
        self.faults += 1;
        for namespace in [EVEN, ODD] {
            if spec["effect"]["hold"]["stage"] == "vm" {
                self.auditor.hold(namespace);
            }
            self.may_end_workers(namespace, spec);
        }
        // Managers of some objects take care of every other one.
        let labels = watch_label(if self.faults.is_multiple_of(2) { EVEN } else { ODD });
        let metadata = json!({ "name": format!("fault-{}", self.faults), "labels": labels });
        let object = serde_json::from_value(json!({ "metadata": metadata, "spec": spec }));
        let cluster_faults: Api<ClusterFault> = Api::all(self.api.client());
        let created = cluster_faults
            .create(&PostParams::default(), &object.expect("a ClusterFault"))
            .await;
        created.expect("cluster faults are taken");
    }

    /// Notes that a fault of this spec may end instances of workers.
    fn may_end_workers(&mut self, namespace: &str, spec: &Value) {
        let effect = &spec["effect"];
        let ends = ["vanish", "spotReclaim"]
            .iter()
            .any(|field| !effect[*field].is_null());
        for asked in self
            .asked
            .values_mut()
            .filter(|asked| ends && asked.key.0 == namespace)
        {
            asked.may_lack_workers = true;
        }
    }

    /// A user creates a Scenario.
    async fn script(&mut self, namespace: &str, effect: u8, rounds: u8, seconds: u8) {
        self.scripts += 1;
        self.auditor.hold(namespace);
        self.change_cloud(namespace, &json!({})).await;
        let name = format!("script-{}", self.scripts);
        let fault = fault::spec(0, effect, 100, 0, seconds + 1);
        self.may_end_workers(namespace, &fault);
        let spec = script::spec(&fault, rounds, seconds);
        let metadata = json!({ "name": name, "namespace": namespace, "labels": watch_label(namespace) });
        let object: cloud::Scenario =
            serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("a Scenario");
        let created = self
            .api_in::<cloud::Scenario>(namespace)
            .create(&PostParams::default(), &object)
            .await;
        created.expect("scenarios are taken");
    }

    /// Deletes all faults. Those of ClusterFaults go with these.
    async fn heal(&mut self) {
        let cluster_faults: Api<ClusterFault> = Api::all(self.api.client());
        let deleted = cluster_faults
            .delete_collection(&DeleteParams::default(), &ListParams::default())
            .await;
        deleted.expect("cluster faults are deleted");
        for cluster in 0..2 {
            let faults = self.api_in::<Fault>(&key(cluster).0);
            let deleted = faults
                .delete_collection(&DeleteParams::default(), &ListParams::default())
                .await;
            deleted.expect("faults are deleted");
        }
    }

    /// Changes the default SimulatedCloud of a namespace, and creates it before if it does not exist.
    async fn change_cloud(&mut self, namespace: &str, spec: &Value) {
        let clouds = self.api_in::<SimulatedCloud>(namespace);
        if clouds.get_opt(DEFAULT_NAME).await.expect("an answer").is_none() {
            let mut cloud = SimulatedCloud::new(DEFAULT_NAME, SimulatedCloudSpec::default());
            cloud.metadata.labels = Some(watch_label(namespace));
            clouds
                .create(&PostParams::default(), &cloud)
                .await
                .expect("the cloud is taken");
        }
        let key = (namespace.to_owned(), DEFAULT_NAME.to_owned());
        self.patch::<SimulatedCloud>(&key, &json!({ "spec": spec })).await;
    }

    /// Deletes the SimulatedCloud and the Faults of a namespace that users made, and creates them with the same specs.
    async fn replace(&mut self, namespace: &str) {
        self.auditor.hold(namespace);
        self.auditor.set_clock(namespace);
        let clouds = self.api_in::<SimulatedCloud>(namespace);
        if let Some(cloud) = clouds.get_opt(DEFAULT_NAME).await.expect("an answer") {
            replace(
                &clouds,
                SimulatedCloud {
                    metadata: written(cloud.metadata),
                    status: None,
                    ..cloud
                },
            )
            .await;
        }
        let faults = self.api_in::<Fault>(namespace);
        let there = faults
            .list(&ListParams::default())
            .await
            .expect("an answer")
            .items
            .into_iter();
        for fault in there.filter(|fault| fault.owner_references().is_empty()) {
            if labels::value(&fault.metadata, CLUSTER_FAULT_LABEL).is_none() {
                replace(
                    &faults,
                    Fault {
                        metadata: written(fault.metadata),
                        status: None,
                        ..fault
                    },
                )
                .await;
            }
        }
    }

    /// Removes all limits, slow deletions and leaked instances, and lets all clocks run at their usual rate.
    async fn lift(&mut self) {
        for cluster in 0..2 {
            let namespace = key(cluster).0;
            let cloud = self
                .api_in::<SimulatedCloud>(&namespace)
                .get_opt(DEFAULT_NAME)
                .await;
            if cloud.expect("an answer").is_some() {
                let clock = json!({ "rate": null, "paused": null });
                let spec = json!({
                    "quotas": null, "capacity": null, "api": null, "clock": clock, "latency": null,
                    "leakedInstances": "Delete",
                });
                self.change_cloud(&namespace, &spec).await;
            }
        }
    }

    async fn strip(&mut self, cluster: u8, worker: u8) {
        let paused = self.asked.get(&cluster).is_some_and(|asked| asked.paused);
        let Some(instance) = self.worker(cluster, worker).filter(|_| !paused) else {
            return;
        };
        let key = key_of(&*instance);
        let _ = self
            .api_in::<Machine>(&key.0)
            .delete(&key.1, &DeleteParams::default())
            .await;
        let _ = self
            .api_in::<InMemoryMachine>(&key.0)
            .delete(&key.1, &DeleteParams::default())
            .await;
        self.patch::<InMemoryMachine>(&key, &json!({ "metadata": { "finalizers": null } }))
            .await;
    }

    async fn outdate(&mut self, cluster: u8) {
        let Some(key) = self.asked.get(&cluster).map(|asked| asked.key.clone()) else {
            return;
        };
        let seen = self.sight.seen();
        self.outdate_all(&key, &seen.instances).await;
        self.outdate_all(&key, &seen.claims).await;
        self.outdate_all(&key, &seen.addresses).await;
        let mut faults = seen.faults.clone();
        faults.retain(|fault| fault.namespace().as_ref() == Some(&key.0));
        for fault in faults {
            self.outdate_one(&*fault).await;
        }
    }

    async fn outdate_all<K>(&self, cluster: &ClusterKey, objects: &[Arc<K>])
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        for object in objects
            .iter()
            .filter(|object| cluster_of(&***object).as_ref() == Some(cluster))
        {
            self.outdate_one(&**object).await;
        }
    }

    async fn outdate_one<K>(&self, object: &K)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let Some(owners) = outdated(object.meta()) else {
            return;
        };
        // Without the version, a merge patch would take away an owner that came meanwhile.
        let metadata = json!({ "resourceVersion": object.resource_version(), "ownerReferences": owners });
        self.patch::<K>(&key_of(object), &json!({ "metadata": metadata }))
            .await;
    }

    /// The InMemoryMachine of a worker that is not being deleted.
    fn worker(&self, cluster: u8, number: u8) -> Option<Arc<InMemoryMachine>> {
        let key = &self.asked.get(&cluster)?.key;
        let mut workers = self.sight.seen().instances.clone();
        workers.retain(|instance| {
            instance.metadata.deletion_timestamp.is_none()
                && cluster_of(&**instance).as_ref() == Some(key)
                && !labels::is_control_plane(&instance.metadata)
        });
        let index = usize::from(number) % workers.len().max(1);
        (index < workers.len()).then(|| workers.swap_remove(index))
    }

    /// A client writes to a workload cluster. Without an answer in time the write does not count.
    async fn note(&mut self, cluster: u8) {
        let Some(key) = self.asked.get(&cluster).map(|asked| asked.key.clone()) else {
            return;
        };
        let seen = self.sight.seen();
        let published = seen
            .infrastructure
            .iter()
            .find(|object| key_of(&***object) == key);
        // A client would refuse the certificate of another cluster.
        let published = published.filter(|object| !shares_endpoint(object, &seen));
        let Some((_, port)) = published.and_then(|object| endpoint(object)) else {
            return;
        };
        self.notes += 1;
        let name = format!("note-{}", self.notes);
        let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
        let request = Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .expect("a request");
        let answer = timeout(Duration::from_secs(5), self.hub.reach(port, request)).await;
        if let Ok(Ok(response)) = answer
            && response.status() == StatusCode::CREATED
            && let Some(asked) = self.asked.get_mut(&cluster)
        {
            asked.notes.insert(name);
        }
    }

    // --- Actions on managers.

    /// Starts managers until the wanted number runs, also in place of managers that ended.
    fn fill_up(&mut self) {
        let before = self.managers.len();
        self.managers.retain(|manager| !manager.has_ended());
        let wanted = 1 + usize::from(self.scenario.standby);
        let has_started = self.managers.len() < wanted;
        while self.managers.len() < wanted {
            self.started += 1;
            let identity = format!("manager-{}", self.started);
            let witnessed = Arc::clone(&self.witnessed);
            let server = self.api.server().clone();
            let store = Arc::clone(server.store());
            let witness: Witness = Arc::new(move |sent| witnessed.note(&store, sent));
            let world = Conditions {
                trouble: self.trouble.clone(),
                away: self.away.clone(),
            };
            let connection = Connection::new(server, self.scenario.seed, identity.clone(), world, witness);
            let process = Process::start(connection, identity, &self.clock, self.settings());
            self.managers.push(process);
        }
        if self.managers.len() != before || has_started {
            self.show_managers();
        }
    }

    /// The settings of a manager that starts now.
    fn settings(&self) -> Settings {
        let Scenario {
            shares_ports, quota, ..
        } = *self.scenario;
        Settings {
            scope: self.scope,
            shares_ports,
            quota,
            disk: self.disk.clone(),
            lease: None,
        }
    }

    /// Makes clusters reachable through the managers that run now.
    fn show_managers(&mut self) {
        self.hub
            .set(self.managers.iter().map(|manager| manager.network.clone()));
        self.sight.forget_workloads();
    }

    fn leader(&self) -> Option<&Process> {
        let holder = holder(self.api.server().store());
        self.managers.iter().find(|manager| manager.identity == holder)
    }

    async fn restart(&mut self, scope: Scope) -> Result<(), String> {
        for manager in std::mem::take(&mut self.managers) {
            manager.stop().await;
        }
        self.show_managers();
        self.look().await?;
        sleep(Process::START).await;
        self.scope = scope;
        self.fill_up();
        Ok(())
    }

    async fn restore(&mut self, time: Duration) -> Result<(), String> {
        self.away.store(true, Ordering::Relaxed);
        self.restart(self.scope).await?;
        self.pass(time).await?;
        self.away.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// `clusterctl move` of all objects to a new management cluster with its own managers. Clusters that a user paused
    /// stay paused.
    async fn move_all(&mut self) -> Result<(), String> {
        self.settle().await?;
        if self.scope != Scope::All || moves::is_deleting(&self.api).await {
            return Ok(());
        }
        let paused = json!({ "spec": { "paused": true } });
        for cluster in &self.sight.seen().clusters {
            self.patch::<Cluster>(&key_of(&**cluster), &paused).await;
        }
        self.pass(LOOK_EVERY).await?;
        self.moved += 1;
        self.fake_capi.cancel();
        let target = management_api(&format!("management-{}", self.moved), &self.clock).await;
        let source = std::mem::replace(&mut self.api, target);
        let before = std::mem::take(&mut self.managers);
        // Objects that clients wrote to workload clusters are not moved.
        self.disk = self.disk.take().map(|_| MemoryDisk::default());
        self.asked.values_mut().for_each(|asked| asked.notes.clear());
        self.fill_up();
        let uids = moves::copy(self.scenario.seed, &source, &self.api).await;
        self.sight = Sight::new();
        self.auditor.moved(&uids);
        self.look().await?;
        moves::remove(self.scenario.seed, &source, &uids).await;
        self.look().await?;
        for manager in before {
            manager.stop().await;
        }
        self.play_cluster_api();
        for asked in self
            .asked
            .values()
            .filter(|asked| !asked.paused && !asked.deleted)
        {
            self.patch::<Cluster>(&asked.key, &json!({ "spec": { "paused": null } }))
                .await;
        }
        Ok(())
    }

    async fn kill(&mut self) -> Result<(), String> {
        let Some(identity) = self.leader().map(|leader| leader.identity.clone()) else {
            return Ok(());
        };
        let at = self
            .managers
            .iter()
            .position(|manager| manager.identity == identity);
        let leader = self.managers.remove(at.expect("just found"));
        self.show_managers();
        leader.kill().await;
        sleep(Process::START).await;
        self.fill_up();
        Ok(())
    }

    // --- Time and checks.

    async fn pass(&mut self, time: Duration) -> Result<(), String> {
        let until = tokio::time::Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            sleep(left.min(LOOK_EVERY)).await;
            self.look().await?;
            self.fill_up();
        }
    }

    async fn look(&mut self) -> Result<(), String> {
        let is_new = self.sight.look(self.api.server().store(), &self.hub).await;
        if let Some(what) = self.witnessed.violation.lock().clone() {
            return Err(what);
        }
        if is_new {
            self.auditor.look(&self.sight.seen())
        } else {
            Ok(())
        }
    }

    async fn settle(&mut self) -> Result<(), String> {
        self.trouble.store(false, Ordering::Relaxed);
        self.heal().await;
        self.lift().await;
        for manager in &self.managers {
            manager.connection.thaw();
        }
        if let Some(disk) = &self.disk {
            disk.set_full(false);
        }
        let until = tokio::time::Instant::now() + SETTLES_WITHIN;
        loop {
            self.pass(LOOK_EVERY).await?;
            let missing = self.missing();
            if missing.is_empty() {
                break;
            }
            if tokio::time::Instant::now() >= until {
                return Err(format!(
                    "not settled after {SETTLES_WITHIN:?}: {}",
                    missing.join("; ")
                ));
            }
        }
        // Requests and answers that were delayed during trouble have time to arrive.
        self.pass(LATE).await?;
        loop {
            let writes = self.witnessed.writes.load(Ordering::Relaxed);
            self.pass(QUIET).await?;
            if self.witnessed.writes.load(Ordering::Relaxed) == writes {
                break;
            }
            // While a quota is used up, it cannot be seen whether a rollout still continues, one machine at a time.
            if self.scenario.quota == 0 || tokio::time::Instant::now() >= until {
                return Err(format!(
                    "the world is settled, but a manager still writes: {}",
                    self.witnessed.last_write.lock()
                ));
            }
        }
        let missing = self.missing();
        if !missing.is_empty() {
            return Err(format!(
                "the world was settled, but did not stay so: {}",
                missing.join("; ")
            ));
        }
        self.trouble.store(self.scenario.trouble, Ordering::Relaxed);
        Ok(())
    }

    /// The differences between the state that was asked for and the state that was seen last.
    fn missing(&self) -> Vec<String> {
        let seen = self.sight.seen();
        let in_scope = |namespace: &str| match self.scope {
            Scope::All => true,
            Scope::Even | Scope::LabelledEven => namespace == EVEN,
            Scope::LabelledOdd => namespace == ODD,
            Scope::Nothing => false,
        };
        let asked = self.asked.values().filter(|asked| in_scope(&asked.key.0));
        let missing = asked.flat_map(|asked| unsettled(asked, &seen, self.scenario, self.scope));
        // A manager of some objects does not see all machines of a cloud.
        let clouds = if self.scope == Scope::All {
            seen.clouds.as_slice()
        } else {
            &[]
        };
        let is_still = |namespace: &str| {
            self.asked
                .values()
                .any(|asked| asked.key.0 == namespace && asked.paused)
        };
        let troubles = |step: &Step| {
            matches!(
                step,
                Step::Restart(_)
                    | Step::Restore(_)
                    | Step::Move
                    | Step::Kill
                    | Step::Freeze(_)
                    | Step::Jump(_)
                    | Step::FillDisk(_)
            )
        };
        let is_calm = !self.scenario.trouble && !self.scenario.steps[..self.step].iter().any(troubles);
        let scripts = script::unfinished(&seen, in_scope, is_calm);
        let stays = |fault: &Arc<Fault>| {
            let cluster_fault = labels::value(&fault.metadata, CLUSTER_FAULT_LABEL)?;
            let namespace = fault.namespace().unwrap_or_default();
            Some(format!(
                "the ClusterFault {cluster_fault} is gone, and its Fault in {namespace} is not"
            ))
        };
        missing
            .chain(scripts)
            .chain(seen.faults.iter().filter_map(stays))
            .chain(
                clouds
                    .iter()
                    .filter_map(|cloud| miscounted(cloud, &seen, is_still)),
            )
            .collect()
    }

    fn api_in<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.api.client(), namespace)
    }

    async fn patch<K>(&self, (namespace, name): &ClusterKey, patch: &Value)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        // The object may have been deleted meanwhile.
        let _ = self
            .api_in::<K>(namespace)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
    }
}

/// The metadata that a user wrote.
fn written(metadata: ObjectMeta) -> ObjectMeta {
    let ObjectMeta {
        name,
        namespace,
        labels,
        ..
    } = metadata;
    ObjectMeta {
        name,
        namespace,
        labels,
        ..ObjectMeta::default()
    }
}

/// Deletes an object and creates it again.
async fn replace<K>(api: &Api<K>, object: K)
where
    K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let deleted = api.delete(&object.name_any(), &DeleteParams::default()).await;
    deleted
        .expect("it was there")
        .right()
        .expect("it has no finalizer");
    api.create(&PostParams::default(), &object)
        .await
        .expect("it is taken");
}

/// Starts a stand-in for Cluster API on a management cluster.
pub(crate) fn play_cluster_api(
    api: &ManagementApi,
    planned: &PlannedClusters,
    hub: &Hub,
    clock: &WorldClock,
    end: CancellationToken,
) {
    let surroundings = Surroundings {
        clock: clock.clock(),
        poll: POLL,
        probe: PROBE,
        connect: hub.connect(),
        key_pairs: KeyPairs::Shared(key_pairs()),
    };
    tokio::spawn(nephele_fake_capi::play(
        api.client(),
        planned.clone(),
        surroundings,
        end,
    ));
}

/// A management cluster with the namespaces of a world.
pub(crate) async fn management_api(name: &str, clock: &WorldClock) -> ManagementApi {
    let api = ManagementApi::start_at(name, clock.clock());
    let odd = Namespace {
        metadata: ObjectMeta {
            name: Some(ODD.into()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    Api::all(api.client())
        .create(&PostParams::default(), &odd)
        .await
        .expect("a namespace");
    api
}

/// The cluster with a number.
fn key(cluster: u8) -> ClusterKey {
    let namespace = if cluster.is_multiple_of(2) { EVEN } else { ODD };
    (namespace.to_owned(), format!("cluster-{}", cluster % CLUSTERS))
}

/// The plan of a cluster of a world.
pub(crate) fn plan(
    (namespace, name): &ClusterKey,
    name_salt: &str,
    control_plane: u32,
    workers: u32,
    pooled: bool,
) -> ClusterPlan {
    ClusterPlan {
        namespace: namespace.clone(),
        labels: watch_label(namespace),
        name_salt: name_salt.to_owned(),
        behaviour: behaviour(),
        // The provider makes the keys of other algorithms; those of a world are shared.
        key_algorithm: KeyAlgorithm::Rsa2048,
        pod_network: if workers < 10 { FEW_SHARES } else { MANY_SHARES }.to_owned(),
        address_pools: if pooled {
            vec![pool("machines")]
        } else {
            Vec::new()
        },
        control_plane_address_pool: pooled.then(|| pool("balancers")),
        ..ClusterPlan::new(name, VERSIONS[0], control_plane, workers)
    }
}

/// The topology of a cluster with one MachineDeployment.
pub(crate) fn topology(control_plane: u32, deployment: &str, workers: u32) -> Value {
    json!({
        "classRef": { "name": "in-memory" }, "version": VERSIONS[0],
        "controlPlane": { "replicas": control_plane },
        "workers": { "machineDeployments": [
            { "class": "default-worker", "name": deployment, "replicas": workers },
        ] },
    })
}

/// The label of the objects of a namespace, which a watch filter selects.
pub(crate) fn watch_label(namespace: &str) -> BTreeMap<String, String> {
    [(WATCH_FILTER_LABEL.to_owned(), namespace.to_owned())].into()
}

/// Machines take some seconds to boot, with random differences.
fn behaviour() -> Behaviour {
    let part = |startup_duration: &str| {
        let startup_duration = GoDuration::parse(startup_duration).ok();
        let startup_jitter = Fraction::parse("0.5").ok();
        Some(Component {
            provisioning: Provisioning {
                startup_duration,
                startup_jitter,
            },
        })
    };
    Behaviour {
        vm: part("10s"),
        node: part("4s"),
        api_server: part("5s"),
        etcd: part("3s"),
    }
}

fn pool(name: &str) -> PoolReference {
    PoolReference {
        api_group: ipam::GROUP.to_owned(),
        kind: "InClusterIPPool".to_owned(),
        name: name.to_owned(),
    }
}

pub(crate) async fn create_pools(api: &ManagementApi, namespace: &str, number: usize) {
    // More addresses than a world ever has machines and load balancers at the same time.
    for (name, addresses) in [("machines", "10-99"), ("balancers", "100-119")] {
        let (first, last) = addresses.split_once('-').expect("a range");
        let spec = InClusterIPPoolSpec {
            addresses: vec![format!("10.20.{number}.{first}-10.20.{number}.{last}")],
            prefix: 24,
            gateway: format!("10.20.{number}.1"),
            ..InClusterIPPoolSpec::default()
        };
        let mut pool = InClusterIPPool::new(name, spec);
        pool.metadata.namespace = Some(namespace.to_owned());
        let pools: Api<InClusterIPPool> = Api::namespaced(api.client(), namespace);
        pools.create(&PostParams::default(), &pool).await.expect("a pool");
    }
}
