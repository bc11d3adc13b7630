//! Two managers with disjoint watch filters in one management cluster, at the same time: no status has two writers, and what
//! has no label of either has none.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::Method;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use nephele_api::{
    cloud::v1alpha1::{ClusterFault, Fault, Scenario, SimulatedCloud},
    core::Cluster,
};
use nephele_controller::PAUSED_ANNOTATION;
use nephele_fake_capi::{Plan, PlannedClusters};
use nephele_testkit::ManagementApi;
use parking_lot::Mutex;
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    connection::{Conditions, Connection, Sent, Witness},
    fault,
    hub::Hub,
    process::{EVEN, ODD, Process, Settings},
    scenario::{Scope, draws_about},
    script,
    settled::is_available,
    time::WorldClock,
    world::{create_pools, management_api, paused_runtime, plan, play_cluster_api, watch_label},
};

/// Until the Faults with a time are over, and what they did is written.
const CALMS_DOWN: Duration = Duration::from_secs(300);
/// How long no status may be written while nothing happens, with Faults in force.
const QUIET: Duration = Duration::from_secs(120);
/// The kinds that managers share.
const POOLS: [&str; 2] = ["/inclusterippools/", "/inclusterprefixpools/"];
const SETTLES_WITHIN: Duration = Duration::from_secs(1800);
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Lets two managers of disjoint objects work in a world of this seed, in this process.
///
/// # Errors
/// With the status that has two writers, or that is written although nothing happens, or with what does not settle.
pub fn neighbours(seed: u64) -> Result<(), String> {
    fastrand::seed(seed);
    paused_runtime().block_on(async {
        let mut world = World::start(seed).await;
        let outcome = world.live(seed).await;
        for (_, manager) in std::mem::take(&mut world.managers) {
            manager.stop().await;
        }
        world.fake_capi.cancel();
        outcome
    })
}

/// Who has written which status, by path.
#[derive(Default)]
struct Written {
    writers: BTreeMap<String, Scope>,
    /// How often each status was written.
    counts: BTreeMap<String, usize>,
    violation: Option<String>,
}

struct World {
    clock: WorldClock,
    api: ManagementApi,
    hub: Hub,
    planned: PlannedClusters,
    fake_capi: CancellationToken,
    managers: Vec<(Scope, Process)>,
    written: Arc<Mutex<Written>>,
    started: u32,
    made: u32,
}

impl World {
    async fn start(seed: u64) -> Self {
        let clock = WorldClock::start();
        let api = management_api("management", &clock).await;
        for (number, namespace) in [EVEN, ODD].into_iter().enumerate() {
            create_pools(&api, namespace, number).await;
        }
        let planned = PlannedClusters::new(Plan::default());
        let hub = Hub::default();
        let fake_capi = CancellationToken::new();
        play_cluster_api(&api, &planned, &hub, &clock, fake_capi.clone());
        let managers = Vec::new();
        let written = Arc::default();
        let mut world = Self {
            clock,
            api,
            hub,
            planned,
            fake_capi,
            managers,
            written,
            started: 0,
            made: 0,
        };
        world.start_manager(seed, Scope::LabelledEven);
        world.start_manager(seed, Scope::LabelledOdd);
        world
    }

    fn start_manager(&mut self, seed: u64, scope: Scope) {
        self.started += 1;
        let identity = format!("manager-{}", self.started);
        let written = Arc::clone(&self.written);
        let witness: Witness = Arc::new(move |sent| written.lock().note(scope, sent));
        let conditions = Conditions {
            trouble: Arc::default(),
            away: Arc::default(),
        };
        let server = self.api.server().clone();
        let connection = Connection::new(server, seed, identity.clone(), conditions, witness);
        let settings = Settings {
            scope,
            shares_ports: false,
            quota: 0,
            disk: None,
            lease: None,
        };
        let manager = Process::start(connection, identity, &self.clock, settings);
        self.managers.push((scope, manager));
        self.hub
            .set(self.managers.iter().map(|(_, manager)| manager.network.clone()));
    }

    async fn live(&mut self, seed: u64) -> Result<(), String> {
        let mut draws = draws_about(seed, &["neighbours"], 0);
        for namespace in [EVEN, ODD] {
            self.create_cluster(seed, namespace, draws.random_ratio(1, 2))
                .await;
        }
        for _ in 0..draws.random_range(6..14) {
            let namespace = if draws.random_ratio(1, 2) { EVEN } else { ODD };
            let labelled = if draws.random_ratio(1, 2) { EVEN } else { ODD };
            let mut spec = || {
                let effect = draws.random_range(0..fault::EFFECTS);
                let percent = draws.random_range(10..101);
                fault::spec(
                    draws.random_range(0..12),
                    effect,
                    percent,
                    draws.random_range(0..9),
                    60,
                )
            };
            let spec = spec();
            match draws.random_range(0..8_u8) {
                // Its manager does not see the clusters of the other namespace.
                0..3 => drop(self.create_fault(namespace, labelled, &spec).await),
                3 => self.create_cluster_fault(labelled, &spec).await,
                4 => self.change_cloud(namespace, draws.random_range(1..9)).await,
                5 => self.create_script(namespace, &spec).await,
                6 => self.pause_faults(namespace, draws.random_ratio(1, 2)).await,
                _ => {
                    let scope = if draws.random_ratio(1, 2) {
                        Scope::LabelledEven
                    } else {
                        Scope::LabelledOdd
                    };
                    self.restart(seed, scope).await;
                }
            }
            sleep(Duration::from_millis(draws.random_range(0..20_000))).await;
            self.check()?;
        }
        for namespace in [EVEN, ODD] {
            self.pause_faults(namespace, false).await;
        }
        let steady = json!({ "effect": { "notReady": {} } });
        let unlabelled = self.create_fault(EVEN, "", &steady).await;
        for namespace in [EVEN, ODD] {
            self.create_fault(namespace, namespace, &steady).await;
        }
        sleep(CALMS_DOWN).await;
        self.check()?;
        let before = self.written.lock().counts.clone();
        sleep(QUIET).await;
        let mut after = self.written.lock().counts.clone();
        after.retain(|path, count| before.get(path) != Some(count));
        if !after.is_empty() {
            return Err(format!(
                "while nothing happened, these statuses were written: {after:?}"
            ));
        }
        let unlabelled = self.faults(EVEN).get(&unlabelled).await.expect("it is there");
        if let Some(status) = unlabelled.status {
            return Err(format!("a Fault without a label has a status: {status:?}"));
        }
        self.heal().await;
        self.settle().await?;
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        self.written.lock().violation.clone().map_or(Ok(()), Err)
    }

    fn faults(&self, namespace: &str) -> Api<Fault> {
        Api::namespaced(self.api.client(), namespace)
    }

    async fn create_cluster(&mut self, seed: u64, namespace: &str, pooled: bool) {
        let key = (namespace.to_owned(), format!("of-{namespace}"));
        let plan = plan(&key, &format!("{seed}/{namespace}"), 1, 2, pooled);
        self.planned.set(plan.clone());
        nephele_fake_capi::create(&self.api.client(), &plan)
            .await
            .expect("objects are taken");
    }

    /// Returns its name.
    async fn create_fault(&mut self, namespace: &str, labelled: &str, spec: &Value) -> String {
        self.made += 1;
        let name = format!("fault-{}", self.made);
        let labels = if labelled.is_empty() {
            BTreeMap::new()
        } else {
            watch_label(labelled)
        };
        let object = json!({ "metadata": { "name": name, "labels": labels }, "spec": spec });
        let object = serde_json::from_value(object).expect("a Fault");
        self.faults(namespace)
            .create(&PostParams::default(), &object)
            .await
            .expect("faults are taken");
        name
    }

    async fn create_cluster_fault(&mut self, labelled: &str, spec: &Value) {
        self.made += 1;
        let metadata = json!({ "name": format!("fault-{}", self.made), "labels": watch_label(labelled) });
        let object = serde_json::from_value(json!({ "metadata": metadata, "spec": spec }));
        let api: Api<ClusterFault> = Api::all(self.api.client());
        api.create(&PostParams::default(), &object.expect("a ClusterFault"))
            .await
            .expect("it is taken");
    }

    async fn change_cloud(&self, namespace: &str, machines: u8) {
        let api: Api<SimulatedCloud> = Api::namespaced(self.api.client(), namespace);
        let metadata = json!({ "name": "default", "labels": watch_label(namespace) });
        let spec = json!({ "quotas": { "instances": machines }, "clock": { "rate": "2" } });
        let object = serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("a cloud");
        if api.create(&PostParams::default(), &object).await.is_err() {
            let patch = Patch::Merge(json!({ "spec": spec }));
            api.patch("default", &PatchParams::default(), &patch)
                .await
                .expect("it is there");
        }
    }

    async fn create_script(&mut self, namespace: &str, spec: &Value) {
        self.change_cloud(namespace, 100).await;
        self.made += 1;
        let metadata = json!({ "name": format!("script-{}", self.made), "labels": watch_label(namespace) });
        let object = json!({ "metadata": metadata, "spec": script::spec(spec, 2, 5) });
        let object: Scenario = serde_json::from_value(object).expect("a Scenario");
        let api: Api<Scenario> = Api::namespaced(self.api.client(), namespace);
        api.create(&PostParams::default(), &object)
            .await
            .expect("scenarios are taken");
    }

    /// Pauses all Faults of a namespace, or resumes them.
    async fn pause_faults(&self, namespace: &str, paused: bool) {
        let api = self.faults(namespace);
        let annotations = json!({ PAUSED_ANNOTATION: paused.then_some("") });
        let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
        for object in api.list(&ListParams::default()).await.expect("a list") {
            // A Scenario may have ended it.
            let _ = api
                .patch(&object.name_any(), &PatchParams::default(), &patch)
                .await;
        }
    }

    async fn restart(&mut self, seed: u64, scope: Scope) {
        let all = std::mem::take(&mut self.managers).into_iter();
        let (stopped, stay) = all.partition(|(of, _)| *of == scope);
        self.managers = stay;
        for (_, manager) in stopped {
            Process::stop(manager).await;
        }
        sleep(Process::START).await;
        self.start_manager(seed, scope);
    }

    /// Deletes all Faults, and lifts all limits.
    async fn heal(&self) {
        let all = DeleteParams::default();
        let any = ListParams::default();
        let cluster_faults: Api<ClusterFault> = Api::all(self.api.client());
        cluster_faults
            .delete_collection(&all, &any)
            .await
            .expect("they are deleted");
        for namespace in [EVEN, ODD] {
            self.faults(namespace)
                .delete_collection(&all, &any)
                .await
                .expect("they are deleted");
            let clouds: Api<SimulatedCloud> = Api::namespaced(self.api.client(), namespace);
            let patch = Patch::Merge(json!({ "spec": { "quotas": null } }));
            let _ = clouds.patch("default", &PatchParams::default(), &patch).await;
        }
    }

    /// Waits until all clusters are available.
    async fn settle(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let clusters = Api::<Cluster>::all(self.api.client());
            let clusters = clusters.list(&ListParams::default()).await.expect("a list");
            let Some(missing) = clusters.iter().find(|cluster| !is_available(cluster)) else {
                return Ok(());
            };
            if begun.elapsed() > SETTLES_WITHIN {
                let status = missing.status.as_ref().map(|status| &status.conditions);
                return Err(format!("{} is not available: {status:?}", missing.name_any()));
            }
            sleep(LOOK_EVERY).await;
            self.check()?;
        }
    }
}

impl Written {
    /// Notes a request of a manager of these objects.
    fn note(&mut self, scope: Scope, sent: &Sent<'_>) {
        if *sent.method == Method::GET || !sent.path.ends_with("/status") {
            return;
        }
        *self.counts.entry(sent.path.to_owned()).or_default() += 1;
        // Claims of every manager use a pool. The name of the allocator in its status puts their writes in order.
        if POOLS.iter().any(|kind| sent.path.contains(kind)) {
            return;
        }
        let writer = *self.writers.entry(sent.path.to_owned()).or_insert(scope);
        if writer != scope {
            let what = format!(
                "{} is written by the manager of {writer:?} and by that of {scope:?}",
                sent.path
            );
            self.violation.get_or_insert(what);
        }
    }
}
