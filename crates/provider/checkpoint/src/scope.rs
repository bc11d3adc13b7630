//! Which objects of a namespace belong to a checkpoint. Pure.

use std::collections::BTreeSet;

use kube::{ResourceExt as _, core::DynamicObject};
use nephele_api::{cloud::CLUSTER_FAULT_LABEL, labels};

use crate::kinds::Kind;

/// The label of an object that `clusterctl move` takes along.
const MOVE: &str = "clusterctl.cluster.x-k8s.io/move";

/// The objects that belong to clusters: all of Cluster API's and the simulated cloud's kinds; of Secrets and ConfigMaps
/// those that say so, and those that such an object owns. A Fault of a ClusterFault belongs to that one, which is not part of
/// any checkpoint.
pub(crate) fn members(all: Vec<(Kind, DynamicObject)>) -> Vec<(Kind, DynamicObject)> {
    let mut members: BTreeSet<String> = BTreeSet::new();
    loop {
        let before = members.len();
        for (kind, object) in &all {
            if object.labels().contains_key(CLUSTER_FAULT_LABEL) {
                continue;
            }
            if !kind.is_of_kubernetes() || says_so(object) || is_owned(object, &members) {
                members.extend(object.uid());
            }
        }
        if members.len() == before {
            break;
        }
    }
    all.into_iter()
        .filter(|(_, object)| object.uid().is_some_and(|uid| members.contains(&uid)))
        .collect()
}

fn says_so(object: &DynamicObject) -> bool {
    let labels = object.labels();
    labels.contains_key(labels::CLUSTER_NAME) || labels.contains_key(MOVE)
}

fn is_owned(object: &DynamicObject, members: &BTreeSet<String>) -> bool {
    object
        .owner_references()
        .iter()
        .any(|owner| members.contains(&owner.uid))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use kube::core::{ApiResource, GroupVersionKind};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_belongs_to_a_checkpoint_if_it_says_so_or_a_member_owns_it() {
        let secret = Kind {
            resource: ApiResource::erase::<Secret>(&()),
            has_status: false,
        };
        let cluster = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
        let cluster = Kind {
            resource: ApiResource::from_gvk(&cluster),
            has_status: true,
        };
        let fault = GroupVersionKind::gvk("cloud.nephele.dev", "v1alpha1", "Fault");
        let fault = Kind {
            resource: ApiResource::from_gvk(&fault),
            has_status: true,
        };
        let object = |name: &str, labels: serde_json::Value, owner: Option<&str>| {
            let owners: Vec<_> = owner
                .map(|uid| json!({"apiVersion": "v1", "kind": "K", "name": uid, "uid": uid}))
                .into_iter()
                .collect();
            let metadata = json!({"name": name, "uid": name, "labels": labels, "ownerReferences": owners});
            serde_json::from_value::<DynamicObject>(json!({ "metadata": metadata })).expect("an object")
        };
        let all = vec![
            (secret.clone(), object("of-owned", json!({}), Some("owned"))),
            (secret.clone(), object("owned", json!({}), Some("demo"))),
            (
                secret.clone(),
                object("labelled", json!({"cluster.x-k8s.io/cluster-name": "demo"}), None),
            ),
            (
                secret.clone(),
                object("moved", json!({"clusterctl.cluster.x-k8s.io/move": ""}), None),
            ),
            (
                secret.clone(),
                object("of-the-user", json!({"app": "shop"}), None),
            ),
            (secret, object("of-another", json!({}), Some("another"))),
            (cluster, object("demo", json!({}), None)),
            (
                fault,
                object(
                    "of-a-cluster-fault",
                    json!({"cloud.nephele.dev/cluster-fault": "a"}),
                    None,
                ),
            ),
        ];
        let names: Vec<_> = members(all).iter().map(|(_, object)| object.name_any()).collect();
        assert_eq!(names, ["of-owned", "owned", "labelled", "moved", "demo"]);
    }
}
