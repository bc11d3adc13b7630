//! The objects of a simulated cluster: pure functions from the cloud's state to Kubernetes objects.
//!
//! Names, uids and creation times depend only on the cluster, the object and the times at which stages were reached. So
//! a restarted process projects the same objects with the same identities. Objects are created only if they do not
//! exist, so changes by clients are never overwritten.

mod addons;
mod base;
mod conditions;
mod kubeadm;
mod node;
mod static_pod;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use nephele_apiserver::{Key, Object};
use nephele_model::ClusterId;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

pub use addons::DNS_IMAGE_TAG;
pub(crate) use addons::{addon_keys, addons, count_nodes, roll_out};
pub(crate) use base::base;
pub(crate) use conditions::{clock_skew, renew_heartbeats, show_symptoms, skewed};
pub(crate) use kubeadm::kubeadm;
pub(crate) use node::{
    change_node, fill_status, has_status, has_wrong_provider_id, is_node_of, node, renew_lease, renewed,
    set_wrong_provider_id,
};
pub(crate) use static_pod::{API_SERVER_PORT, Component, change_pod, static_pod};

use crate::spec::ClusterSpec;

/// An object to create.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Projected {
    pub(crate) key: Key,
    pub(crate) value: Value,
}

/// The inputs that all projected objects of a cluster share.
pub(crate) struct Scope<'a> {
    pub(crate) cluster: &'a ClusterSpec,
    /// The creation time of the objects.
    pub(crate) at: Timestamp,
}

impl Scope<'_> {
    /// Completes `value` with name, uid and creation time.
    pub(crate) fn object(
        &self,
        group: &str,
        resource: &str,
        namespace: &str,
        name: &str,
        mut value: Value,
    ) -> Projected {
        let metadata = &mut value["metadata"];
        metadata["name"] = name.into();
        if !namespace.is_empty() {
            metadata["namespace"] = namespace.into();
        }
        metadata["uid"] = uid(&self.cluster.id, resource, namespace, name).into();
        metadata["creationTimestamp"] = time(self.at).into();
        Projected { key: Key::new(group, resource, namespace, name), value }
    }
}

/// A time in RFC 3339 with seconds, as Kubernetes writes it.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Whether the projection created an object, even if clients changed it since. Clients cannot choose uids.
pub(crate) fn made(cluster: &ClusterId, key: &Key, object: &Object) -> bool {
    *object.uid == *uid(cluster, &key.resource.resource, &key.namespace, &key.name)
}

/// The uid of a projected object. It is the same whenever the object is projected.
pub(crate) fn uid(cluster: &ClusterId, resource: &str, namespace: &str, name: &str) -> String {
    let mut hash = Sha256::new();
    for part in [cluster.namespace.as_str(), &cluster.name, resource, namespace, name] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
