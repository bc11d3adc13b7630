//! A management API with the controller of ClusterFaults, and a cloud in which each Fault hits once at once.

use std::{collections::BTreeSet, fmt::Debug, num::NonZeroU16, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use nephele_api::cloud::v1alpha1::{ClusterFault, ClusterFaultStatus, Fault};
use nephele_controller::{Cache, PAUSED_ANNOTATION, WatchFilter};
use nephele_fault::{cluster, is_of_addresses};
use nephele_testkit::{Backstage, ManagementApi, eventually, eventually_of};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The time between two looks of the cloud at all Faults.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) struct Stage {
    api: ManagementApi,
    running: nephele_testkit::Stage,
}

/// A selector of all namespaces.
pub(crate) fn everywhere() -> Value {
    json!({})
}

impl Stage {
    pub(crate) fn start() -> Self {
        let api = ManagementApi::start();
        let client = api.client();
        Self::over(api, client)
    }

    /// A controller that may not do everything, by method and path.
    pub(crate) fn forbidding(forbidden: fn(&str, &str) -> bool) -> Self {
        let api = ManagementApi::start();
        let client = api.forbidding(forbidden);
        Self::over(api, client)
    }

    fn over(api: ManagementApi, client: Client) -> Self {
        let Backstage {
            client,
            registry: _,
            services,
            shutdown,
        } = Backstage::of(client, api.clock());
        let (faults, follow) = Cache::<Fault>::start(
            &services,
            Api::all(client.clone()),
            watcher::Config::default(),
            shutdown.clone(),
        );
        tokio::spawn(follow);
        let settings = cluster::Settings {
            name: "clusterfault",
            watch_filter: WatchFilter::default(),
            carries_out: |spec| !is_of_addresses(spec),
            concurrency: NonZeroU16::new(10).expect("ten"),
        };
        let run = cluster::run(client, &services, &faults, settings, shutdown.clone());
        let running = nephele_testkit::Stage::of(shutdown, run).with(play_cloud(api.client()));
        Self { api, running }
    }

    pub(crate) async fn stop(self) {
        self.running.stop().await;
    }

    fn cluster_faults(&self) -> Api<ClusterFault> {
        Api::all(self.api.client())
    }

    pub(crate) fn faults(&self, namespace: &str) -> Api<Fault> {
        Api::namespaced(self.api.client(), namespace)
    }

    pub(crate) async fn namespace(&self, name: &str, labels: &Value) {
        let namespace = json!({ "metadata": { "name": name, "labels": labels } });
        let namespace: Namespace = serde_json::from_value(namespace).expect("a namespace");
        let api: Api<Namespace> = Api::all(self.api.client());
        api.create(&PostParams::default(), &namespace)
            .await
            .expect("the namespace is taken");
    }

    /// Sets the label `workshop` of a namespace.
    pub(crate) async fn label(&self, name: &str, value: &str) {
        let api: Api<Namespace> = Api::all(self.api.client());
        patch(
            &api,
            name,
            &json!({ "metadata": { "labels": { "workshop": value } } }),
        )
        .await;
    }

    /// A ClusterFault that refuses operations for a reason. Changes it if it exists.
    pub(crate) async fn cluster_fault(&self, name: &str, selector: &Value, reason: &str) {
        let effect = json!({ "fail": { "reason": reason } });
        self.put(name, &json!({ "namespaceSelector": selector, "effect": effect }))
            .await;
    }

    pub(crate) async fn put(&self, name: &str, spec: &Value) {
        let api = self.cluster_faults();
        if api.get_opt(name).await.expect("an answer").is_some() {
            patch(&api, name, &json!({ "spec": spec })).await;
            return;
        }
        let object = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }));
        let created = api
            .create(&PostParams::default(), &object.expect("a ClusterFault"))
            .await;
        created.expect("the ClusterFault is taken");
    }

    /// Pauses a ClusterFault, or resumes it.
    pub(crate) async fn pause(&self, name: &str, paused: bool) {
        let annotations = json!({ PAUSED_ANNOTATION: paused.then_some("") });
        patch(
            &self.cluster_faults(),
            name,
            &json!({ "metadata": { "annotations": annotations } }),
        )
        .await;
    }

    /// A user deletes a ClusterFault.
    pub(crate) async fn delete(&self, name: &str) {
        self.cluster_faults()
            .delete(name, &DeleteParams::default())
            .await
            .expect("it is there");
    }

    /// A user creates a Fault.
    pub(crate) async fn own_fault(&self, namespace: &str, name: &str) -> Fault {
        let fault = json!({ "metadata": { "name": name }, "spec": { "effect": { "freeze": {} } } });
        let fault = serde_json::from_value(fault).expect("a Fault");
        self.faults(namespace)
            .create(&PostParams::default(), &fault)
            .await
            .expect("the Fault is taken")
    }

    /// A user edits a Fault.
    pub(crate) async fn edit(&self, namespace: &str, name: &str, edit: &Value) {
        patch(&self.faults(namespace), name, edit).await;
    }

    pub(crate) async fn fault(&self, namespace: &str, name: &str) -> Option<Fault> {
        self.faults(namespace).get_opt(name).await.expect("an answer")
    }

    /// The namespaces that have a Fault of this name, in order.
    pub(crate) async fn namespaces_with(&self, name: &str) -> Vec<String> {
        let all = Api::<Fault>::all(self.api.client())
            .list(&ListParams::default())
            .await
            .expect("a list");
        let named = all.iter().filter(|fault| fault.name_any() == name);
        named
            .filter_map(Fault::namespace)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Waits until these namespaces have a Fault of this name, and no others.
    pub(crate) async fn until_namespaces_with(&self, name: &str, wanted: &[&str]) {
        let what = format!("{name} to be in {wanted:?}");
        let look = async || {
            let found = self.namespaces_with(name).await;
            if found == wanted { Ok(()) } else { Err(found) }
        };
        eventually(&what, look).await;
    }

    /// Waits until a Fault is as wanted, and returns it.
    pub(crate) async fn until_fault(
        &self,
        namespace: &str,
        name: &str,
        wanted: impl Fn(&Fault) -> bool + Send + Sync,
    ) -> Fault {
        let is_so = |fault: Option<&Fault>| fault.is_some_and(&wanted);
        let found = eventually_of(&self.faults(namespace), name, "to be as wanted", is_so).await;
        found.expect("it is there")
    }

    /// Waits until the status of the ClusterFault `all` is as wanted, and returns it.
    pub(crate) async fn until(
        &self,
        what: &str,
        wanted: impl Fn(&ClusterFaultStatus) -> bool + Send + Sync,
    ) -> ClusterFaultStatus {
        let is_so = |object: Option<&ClusterFault>| {
            object
                .and_then(|object| object.status.as_ref())
                .is_some_and(&wanted)
        };
        let found = eventually_of(&self.cluster_faults(), "all", what, is_so).await;
        found.and_then(|object| object.status).expect("it has a status")
    }
}

async fn patch<K>(api: &Api<K>, name: &str, patch: &Value)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let patched = api
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await;
    patched.expect("the change is taken");
}

/// Plays the cloud: each Fault hits once as soon as it is seen.
async fn play_cloud(client: Client) {
    loop {
        let faults = Api::<Fault>::all(client.clone())
            .list(&ListParams::default())
            .await
            .expect("a list");
        for fault in faults {
            let generation = fault.metadata.generation;
            let conditions = fault.status.iter().flat_map(|status| &status.conditions);
            if conditions
                .into_iter()
                .any(|condition| condition.observed_generation == generation)
            {
                continue;
            }
            let ready = json!({
                "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-03-04T05:06:07Z", "observedGeneration": generation,
            });
            let status = json!({ "phase": "Active", "matched": 1, "hits": 1, "conditions": [ready] });
            let api = Api::<Fault>::namespaced(client.clone(), &fault.namespace().unwrap_or_default());
            // It may be gone by now.
            let patch = Patch::Merge(json!({ "status": status }));
            let _ = api
                .patch_status(&fault.name_any(), &PatchParams::default(), &patch)
                .await;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
