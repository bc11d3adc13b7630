//! What this library reads of objects. The types of Cluster API would be a dependency that fits one version of it.

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde::{Deserialize, de::DeserializeOwned};

/// On the Machines of a cluster: the name of the cluster.
pub(crate) const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// On the Machines of a control plane.
pub(crate) const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// On an InMemoryMachine: terminates its instance behind Cluster API's back.
pub(crate) const TERMINATE_ANNOTATION: &str =
    "inmemorymachine.infrastructure.cluster.x-k8s.io/terminate-instance";

const CLOUD_GROUP: &str = "cloud.nephele.dev";

pub(crate) fn cluster() -> ApiResource {
    resource("cluster.x-k8s.io", "Cluster", "clusters")
}

pub(crate) fn machine() -> ApiResource {
    resource("cluster.x-k8s.io", "Machine", "machines")
}

pub(crate) fn in_memory_machine() -> ApiResource {
    resource(
        "infrastructure.cluster.x-k8s.io",
        "InMemoryMachine",
        "inmemorymachines",
    )
}

pub(crate) fn fault() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(CLOUD_GROUP, "v1alpha1", "Fault"), "faults")
}

pub(crate) fn cluster_fault() -> ApiResource {
    let kind = GroupVersionKind::gvk(CLOUD_GROUP, "v1alpha1", "ClusterFault");
    ApiResource::from_gvk_with_plural(&kind, "clusterfaults")
}

fn resource(group: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1beta2", kind), plural)
}

/// Reads what a type has of an object.
pub(crate) fn decode<T: DeserializeOwned>(object: &DynamicObject) -> serde_json::Result<T> {
    T::deserialize(&object.data)
}

/// Of a Fault or a ClusterFault.
#[derive(Deserialize)]
pub(crate) struct FaultBody {
    #[serde(default)]
    pub(crate) status: FaultStatus,
}

#[derive(Default, Deserialize)]
pub(crate) struct FaultStatus {
    #[serde(default)]
    pub(crate) hits: u64,
}

#[derive(Deserialize)]
pub(crate) struct ClusterBody {
    #[serde(default)]
    pub(crate) status: ClusterStatus,
}

#[derive(Default, Deserialize)]
pub(crate) struct ClusterStatus {
    #[serde(default)]
    pub(crate) conditions: Conditions,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MachineBody {
    pub(crate) spec: MachineSpec,
    #[serde(default)]
    pub(crate) status: MachineStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MachineSpec {
    pub(crate) infrastructure_ref: Reference,
}

#[derive(Deserialize)]
pub(crate) struct Reference {
    pub(crate) kind: String,
    pub(crate) name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MachineStatus {
    pub(crate) node_ref: Option<NodeReference>,
    #[serde(default)]
    pub(crate) conditions: Conditions,
}

#[derive(Deserialize)]
pub(crate) struct NodeReference {
    pub(crate) name: String,
}

#[derive(Default, Deserialize)]
pub(crate) struct Conditions(Vec<Condition>);

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    message: String,
}

impl Conditions {
    pub(crate) fn is_true(&self, kind: &str) -> bool {
        self.0
            .iter()
            .any(|condition| condition.kind == kind && condition.status == "True")
    }

    /// The conditions of these types that are not true, in words.
    pub(crate) fn untrue(&self, kinds: &[&str]) -> String {
        let described = kinds.iter().flat_map(|kind| {
            let untrue = self
                .0
                .iter()
                .filter(move |condition| condition.kind == *kind && condition.status != "True");
            untrue.map(
                |Condition {
                     kind,
                     status,
                     message,
                 }| format!("{kind} is {status}: {message}"),
            )
        });
        described.collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_that_are_not_true_are_described_in_the_given_order() {
        let status: ClusterStatus = serde_json::from_value(json!({"conditions": [
            {"type": "Available", "status": "False", "message": "no machines"},
            {"type": "TopologyReconciled", "status": "Unknown"},
            {"type": "Paused", "status": "True"},
        ]}))
        .unwrap();
        let conditions = status.conditions;
        assert!(
            conditions.is_true("Paused") && !conditions.is_true("Available") && !conditions.is_true("Absent")
        );
        let expected = "TopologyReconciled is Unknown: ; Available is False: no machines";
        assert_eq!(
            conditions.untrue(&["TopologyReconciled", "Available", "Paused"]),
            expected
        );
    }

    #[test]
    fn cluster_of_which_nothing_is_known_has_no_conditions() {
        let object = DynamicObject::new("small", &cluster()).data(json!({"spec": {}}));
        let body: ClusterBody = decode(&object).unwrap();
        assert_eq!(body.status.conditions.untrue(&["Available"]), "");
    }
}
