//! What all objects of a simulated cluster have: a name, a uid and the time of their creation.

use jiff::Timestamp;
use nephele_apiserver::{Key, Object};
use nephele_model::ClusterId;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

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
        Projected {
            key: Key::new(group, resource, namespace, name),
            value,
        }
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
    for part in [
        cluster.namespace.as_str(),
        &cluster.name,
        resource,
        namespace,
        name,
    ] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}
