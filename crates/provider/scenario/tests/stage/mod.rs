//! A management API with the controller of Scenarios, and a cloud that takes all Faults and clocks at once.

use std::{num::NonZeroU16, time::Duration};

use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use nephele_api::cloud::v1alpha1::{CloudClock, Fault, Scenario, ScenarioStatus, SimulatedCloud};
use nephele_scenario::Settings;
use nephele_testkit::{
    Backstage, ManagementApi, eventually,
    objects::{self, NAMESPACE},
};
use serde_json::{Value, json};

pub(crate) struct Stage {
    pub(crate) api: ManagementApi,
    running: nephele_testkit::Stage,
}

pub(crate) fn scenario(name: &str, steps: &Value) -> Scenario {
    let object = json!({ "metadata": { "name": name, "namespace": NAMESPACE }, "spec": { "steps": steps } });
    serde_json::from_value(object).expect("a Scenario")
}

/// A step that creates a Fault.
pub(crate) fn fault(name: &str) -> Value {
    json!({ "fault": { "name": name, "spec": { "effect": { "freeze": {} } } } })
}

pub(crate) fn status(scenario: &Scenario) -> ScenarioStatus {
    scenario.status.clone().unwrap_or_default()
}

pub(crate) fn phases(scenario: &Scenario) -> Vec<String> {
    status(scenario)
        .steps
        .into_iter()
        .map(|step| step.phase)
        .collect()
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

    pub(crate) fn over(api: ManagementApi, client: Client) -> Self {
        let Backstage {
            client,
            registry: _,
            services,
            shutdown,
        } = Backstage::of(client, api.clock());
        let settings = Settings {
            watch_namespace: None,
            watch_filter: None,
            concurrency: NonZeroU16::new(10).expect("ten"),
            has_stand_in: true,
        };
        let run = nephele_scenario::run(client.clone(), client, services, settings, shutdown.clone());
        let running = nephele_testkit::Stage::of(shutdown, run).with(play_cloud(api.clone()));
        Self { api, running }
    }

    pub(crate) async fn stop(self) -> ManagementApi {
        self.running.stop().await;
        self.api
    }

    pub(crate) async fn restart(self) -> Self {
        let api = self.stop().await;
        let client = api.client();
        Self::over(api, client)
    }

    /// As [`Stage::restart`], but nothing that has begun is finished.
    pub(crate) async fn kill_and_restart(self) -> Self {
        self.running.kill().await;
        let client = self.api.client();
        Self::over(self.api, client)
    }

    pub(crate) async fn scenario(&self, steps: &Value) {
        self.scenario_called("s", steps).await;
    }

    pub(crate) async fn scenario_called(&self, name: &str, steps: &Value) {
        self.api.create(&scenario(name, steps)).await;
    }

    pub(crate) async fn change(&self, steps: &Value) {
        self.api
            .patch::<Scenario>("s", &json!({ "spec": { "steps": steps } }))
            .await;
    }

    pub(crate) async fn phase(&self, phase: &str) -> Scenario {
        self.api
            .eventually("s", phase, |scenario| status(scenario).phase == phase)
            .await
    }

    /// Waits until the steps have these phases.
    pub(crate) async fn steps(&self, wanted: &[&str]) -> Scenario {
        self.api
            .eventually("s", &format!("to be at {wanted:?}"), |scenario| {
                phases(scenario) == wanted
            })
            .await
    }

    pub(crate) async fn machine(&self, cluster: &str, name: &str, phase: &str) {
        self.api.create(&objects::worker(cluster, name)).await;
        self.api
            .patch_status::<nephele_api::core::Machine>(name, &json!({ "phase": phase }))
            .await;
    }

    fn dynamic(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1beta2", kind));
        Api::namespaced_with(self.api.client(), NAMESPACE, &resource)
    }

    pub(crate) async fn create(&self, group: &str, kind: &str, name: &str, spec: &Value) {
        let object = serde_json::from_value(json!({
            "apiVersion": format!("{group}/v1beta2"), "kind": kind, "metadata": { "name": name }, "spec": spec,
        }));
        let object: DynamicObject = object.expect("an object");
        let created = self
            .dynamic(group, kind)
            .create(&PostParams::default(), &object)
            .await;
        created.expect("the object is taken");
    }

    pub(crate) async fn read(&self, group: &str, kind: &str, name: &str) -> DynamicObject {
        self.dynamic(group, kind).get(name).await.expect("it is there")
    }

    /// Waits until Events of these types and reasons were published about the scenario.
    pub(crate) async fn eventually_told(&self, wanted: &[[String; 2]]) {
        let look = async || {
            let told = self.api.story("Scenario", "s").await;
            let kinds = told
                .iter()
                .map(|[severity, reason, _]| [severity.clone(), reason.clone()]);
            if kinds.eq(wanted.iter().cloned()) {
                Ok(())
            } else {
                Err(told)
            }
        };
        eventually("the Events of the scenario", look).await;
    }
}

/// Plays the cloud: each Fault and each clock is in force as soon as it is seen.
async fn play_cloud(api: ManagementApi) {
    loop {
        let faults = api
            .api::<Fault>()
            .list(&ListParams::default())
            .await
            .expect("a list");
        for fault in faults.into_iter().filter(|fault| fault.status.is_none()) {
            let patch = kube::api::Patch::Merge(json!({ "status": { "phase": "Active" } }));
            // It may be gone by now.
            let _ = api
                .api::<Fault>()
                .patch_status(&fault.name_any(), &Default::default(), &patch)
                .await;
        }
        let clouds = api
            .api::<SimulatedCloud>()
            .list(&ListParams::default())
            .await
            .expect("a list");
        for cloud in clouds {
            let set = serde_json::to_value(&cloud.spec.clock).expect("JSON");
            let in_force = cloud.status.as_ref().and_then(|status| status.clock.as_ref());
            if in_force.map(|clock| serde_json::to_value(clock).expect("JSON")) != Some(set.clone()) {
                // A clock that was never changed is not in the status.
                let is_changed = cloud.spec.clock != CloudClock::default();
                let status = json!({ "zones": 0, "clock": is_changed.then_some(set) });
                if cloud.status.is_some() && !is_changed {
                    continue;
                }
                let patch = kube::api::Patch::Merge(json!({ "status": status }));
                let _ = api
                    .api::<SimulatedCloud>()
                    .patch_status(&cloud.name_any(), &Default::default(), &patch)
                    .await;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
