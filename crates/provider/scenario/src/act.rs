//! Does what the plan says. Each action can be repeated.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use nephele_api::cloud::v1alpha1::{CloudClock, Fault, FaultSpec, Scenario, SimulatedCloud};
use nephele_controller::{Event, Events, Readable, Severity, watch_filter_label};
use serde_json::{Value, json};

use crate::{
    clock, manifests,
    plan::{Deed, Ending},
    refusal::{Refusal, refusal},
    resource,
    script::{Change, Manifest, Part},
    validate::readable,
};

/// The right that steps about Faults need.
const FAULTS: &str = "faults.cloud.nephele.dev";
/// The right that steps about clocks need.
pub(crate) const CLOUDS: &str = "simulatedclouds.cloud.nephele.dev";
/// The right that steps about topologies need.
const CLUSTERS: &str = "clusters.cluster.x-k8s.io";

/// Acts in the namespace of a scenario.
pub(crate) struct Actor<'a> {
    pub(crate) client: &'a Client,
    pub(crate) events: &'a Events,
    pub(crate) object: &'a Scenario,
}

impl Actor<'_> {
    /// Does something for the scenario.
    pub(crate) async fn act(&self, deed: &Deed) -> Ending {
        let done = match deed {
            Deed::CreateFault { name, spec } => self.create_fault(name, spec).await,
            Deed::DeleteFault { name } => self.delete_fault(name).await,
            Deed::SetClock {
                cloud,
                version,
                clock,
            } => self.set_clock(cloud, version, clock).await,
            Deed::Change(change) => self.change(change).await,
            Deed::Say(text) => {
                self.events.publish(Event {
                    regarding: self.object.object_ref(&()),
                    severity: Severity::Normal,
                    reason: "Said",
                    action: "Say",
                    note: text.clone(),
                });
                Ok(text.clone())
            }
        };
        match done {
            Ok(message) => Ending::Done(message),
            Err(Refusal::Passing(message)) => Ending::Unclear(message),
            Err(Refusal::Lasting(message)) => Ending::Refused(message),
            Err(Refusal::NotFound) => Ending::Refused(format!("failed to {}: it is not there", told(deed))),
        }
    }

    fn namespace(&self) -> String {
        self.object.namespace().unwrap_or_default()
    }

    async fn create_fault(&self, name: &str, spec: &FaultSpec) -> Result<String, Refusal> {
        let api: Api<Fault> = Api::namespaced(self.client.clone(), &self.namespace());
        let mut fault = Fault::new(name, spec.clone());
        // The manager that runs the scenario also carries out its Faults.
        fault.metadata.labels =
            watch_filter_label(&self.object.metadata).map(|label| BTreeMap::from([label]));
        fault.metadata.owner_references = Some(vec![OwnerReference {
            api_version: Scenario::api_version(&()).into_owned(),
            kind: Scenario::kind(&()).into_owned(),
            name: self.object.name_any(),
            uid: self.object.uid().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        }]);
        match api.create(&PostParams::default(), &fault).await {
            Ok(_) => Ok(String::new()),
            // The next look at it tells whose it is.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(String::new()),
            Err(error) => {
                let what = format!("create Fault {name}");
                let right = format!("create {FAULTS}");
                Err(match refusal(&what, &right, &error) {
                    Refusal::NotFound => Refusal::Lasting(format!("failed to {what}: its namespace is gone")),
                    other => other,
                })
            }
        }
    }

    async fn delete_fault(&self, name: &str) -> Result<String, Refusal> {
        let api: Api<Fault> = Api::namespaced(self.client.clone(), &self.namespace());
        match api.delete(name, &DeleteParams::default()).await {
            Ok(_) => Ok(String::new()),
            Err(error) => match refusal(
                &format!("delete Fault {name}"),
                &format!("delete {FAULTS}"),
                &error,
            ) {
                Refusal::NotFound => Ok(String::new()),
                other => Err(other),
            },
        }
    }

    async fn set_clock(&self, cloud: &str, version: &str, clock: &CloudClock) -> Result<String, Refusal> {
        let api: Api<Readable<SimulatedCloud>> = Api::namespaced(self.client.clone(), &self.namespace());
        let patch = Patch::Merge(clock::patch(version, clock));
        let patched = api.patch(cloud, &PatchParams::default(), &patch).await;
        let what = format!("change the clock of SimulatedCloud {cloud}");
        patched
            .map(|_| String::new())
            .map_err(|error| refusal(&what, &format!("patch {CLOUDS}"), &error))
    }

    async fn change(&self, change: &Change) -> Result<String, Refusal> {
        match change {
            Change::Replicas { kind, name, replicas } => {
                let resource = resource::namespaced(self.client, kind).await?;
                let patch = json!({ "spec": { "replicas": replicas } });
                self.patch(&resource, name, &patch, &change.to_string()).await?;
                Ok(format!("{} {name} has spec.replicas {replicas}", kind.kind))
            }
            Change::Version { cluster, version } => {
                let (resource, found) = self.topology(cluster).await?;
                let patch = changed(&found, &json!({ "version": version }));
                self.patch(&resource, cluster, &patch, &change.to_string())
                    .await?;
                Ok(format!("Cluster {cluster} has spec.topology.version {version}"))
            }
            Change::Apply { field: _, manifests } => {
                let manifests =
                    manifests::read(manifests, &self.namespace(), readable).map_err(Refusal::Lasting)?;
                for manifest in &manifests {
                    self.apply(manifest).await?;
                }
                let named = manifests
                    .iter()
                    .map(|manifest| format!("{} {}", manifest.kind.kind, manifest.name));
                Ok(format!("applied {}", named.collect::<Vec<_>>().join(", ")))
            }
            Change::Delete { kind, name } => {
                let resource = resource::namespaced(self.client, kind).await?;
                let api: Api<DynamicObject> =
                    Api::namespaced_with(self.client.clone(), &self.namespace(), &resource);
                let right = format!("delete {}.{}", resource.plural, resource.group);
                match api.delete(name, &DeleteParams::default()).await {
                    Ok(_) => Ok(format!("{} {name} is deleted", kind.kind)),
                    Err(error) => match refusal(&change.to_string(), &right, &error) {
                        Refusal::NotFound => Ok(format!("there is no {} {name}", kind.kind)),
                        other => Err(other),
                    },
                }
            }
            Change::TopologyReplicas {
                cluster,
                part,
                replicas,
            } => {
                let (resource, found) = self.topology(cluster).await?;
                let scaled = scaled(&found, part, *replicas)
                    .ok_or_else(|| Refusal::Lasting(format!("Cluster {cluster} has no {part}")))?;
                self.patch(&resource, cluster, &changed(&found, &scaled), &change.to_string())
                    .await?;
                Ok(format!("{part} of Cluster {cluster} has {replicas} replicas"))
            }
        }
    }

    /// Creates an object, or changes it.
    async fn apply(&self, Manifest { kind, name, value }: &Manifest) -> Result<(), Refusal> {
        let resource = resource::namespaced(self.client, kind).await?;
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace(), &resource);
        let called = format!("{} {name}", kind.kind);
        let right = |verb: &str| format!("{verb} {}.{}", resource.plural, resource.group);
        let Err(error) = api
            .patch(name, &PatchParams::default(), &Patch::Merge(value))
            .await
        else {
            return Ok(());
        };
        match refusal(&format!("change {called}"), &right("patch"), &error) {
            Refusal::NotFound => {}
            other => return Err(other),
        }
        let object: DynamicObject = serde_json::from_value(value.clone())
            .map_err(|error| Refusal::Lasting(format!("failed to read {called}: {error}")))?;
        let created = api.create(&PostParams::default(), &object).await;
        created
            .map(drop)
            .map_err(|error| refusal(&format!("create {called}"), &right("create"), &error))
    }

    /// A Cluster with a topology.
    async fn topology(&self, cluster: &str) -> Result<(ApiResource, DynamicObject), Refusal> {
        let kind = GroupVersionKind::gvk(nephele_api::core::GROUP, "v1beta2", "Cluster");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace(), &resource);
        let found = api.get(cluster).await.map_err(|error| {
            let read = refusal(
                &format!("read Cluster {cluster}"),
                &format!("get {CLUSTERS}"),
                &error,
            );
            match read {
                Refusal::NotFound => Refusal::Lasting(format!("there is no Cluster {cluster}")),
                other => other,
            }
        })?;
        if !found.data["spec"]["topology"].is_object() {
            return Err(Refusal::Lasting(format!(
                "Cluster {cluster} has no topology; change its own objects instead"
            )));
        }
        Ok((resource, found))
    }

    async fn patch(
        &self,
        resource: &ApiResource,
        name: &str,
        patch: &Value,
        what: &str,
    ) -> Result<(), Refusal> {
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace(), resource);
        let patched = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        let right = format!("patch {}.{}", resource.plural, resource.group);
        patched
            .map(drop)
            .map_err(|error| match refusal(what, &right, &error) {
                Refusal::NotFound => Refusal::Lasting(format!("there is no {} {name}", resource.kind)),
                other => other,
            })
    }
}

/// A patch of the topology of this Cluster, as it was read: lists are replaced as a whole.
fn changed(cluster: &DynamicObject, topology: &Value) -> Value {
    json!({ "metadata": { "resourceVersion": cluster.resource_version() }, "spec": { "topology": topology } })
}

/// A patch of a topology. None when it has no such part.
fn scaled(cluster: &DynamicObject, part: &Part, replicas: i32) -> Option<Value> {
    let (list, name) = match part {
        Part::ControlPlane => return Some(json!({ "controlPlane": { "replicas": replicas } })),
        Part::MachineDeployment(name) => ("machineDeployments", name),
        Part::MachinePool(name) => ("machinePools", name),
    };
    let mut entries = cluster.data["spec"]["topology"]["workers"][list]
        .as_array()?
        .clone();
    let entry = entries.iter_mut().find(|entry| entry["name"] == name.as_str())?;
    entry["replicas"] = replicas.into();
    Some(json!({ "workers": { list: entries } }))
}

/// An action, for messages.
fn told(deed: &Deed) -> String {
    match deed {
        Deed::CreateFault { name, .. } => format!("create Fault {name}"),
        Deed::DeleteFault { name } => format!("delete Fault {name}"),
        Deed::SetClock { cloud, .. } => format!("change the clock of SimulatedCloud {cloud}"),
        Deed::Change(change) => change.to_string(),
        Deed::Say(_) => "say it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_entry_of_a_topology_is_scaled_and_the_rest_stays() {
        let cluster: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": { "name": "demo", "resourceVersion": "7" },
            "spec": { "topology": { "workers": { "machineDeployments": [
                { "name": "a", "class": "c", "replicas": 1 }, { "name": "b", "class": "c", "replicas": 1 },
            ] } } },
        }))
        .expect("an object");
        let deployment = |name: &str| Part::MachineDeployment(name.into());
        let entries = json!([{ "name": "a", "class": "c", "replicas": 1 }, { "name": "b", "class": "c", "replicas": 5 }]);
        assert_eq!(
            scaled(&cluster, &deployment("b"), 5),
            Some(json!({ "workers": { "machineDeployments": entries } }))
        );
        assert_eq!(scaled(&cluster, &deployment("z"), 5), None);
        assert_eq!(scaled(&cluster, &Part::MachinePool("a".into()), 5), None);
        assert_eq!(
            scaled(&cluster, &Part::ControlPlane, 3),
            Some(json!({ "controlPlane": { "replicas": 3 } }))
        );
        let patch = changed(&cluster, &json!({ "version": "v1.36.3" }));
        assert_eq!(
            patch,
            json!({ "metadata": { "resourceVersion": "7" }, "spec": { "topology": { "version": "v1.36.3" } } })
        );
    }
}
