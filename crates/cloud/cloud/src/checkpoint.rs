//! The objects of clusters at one moment, and how clusters get them back.
//!
//! A checkpoint has the objects of each workload cluster. Everything else about a cluster follows from its management
//! objects, as after a restart. Whoever restores a checkpoint puts the objects here first, and then creates the
//! management objects again: each cluster takes its objects when it is created.
//!
//! The objects wait in memory, at most those of one checkpoint, until they are forgotten or the next ones replace them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nephele_apiserver::{Key, RestoreError, Store, StoreOptions};
use nephele_model::ClusterId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use thiserror::Error;

use crate::{content::Content, spec::ClusterSpec};

/// The objects of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterObjects {
    /// The namespace of the cluster.
    pub namespace: String,
    pub name: String,
    /// When it was created. Another cluster of this name does not get the objects.
    pub created_at: Timestamp,
    pub objects: Vec<ObjectRecord>,
}

/// An object of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRecord {
    /// API group; empty for the core group.
    pub group: String,
    pub resource: String,
    /// The namespace in the cluster; empty for cluster-scoped kinds.
    pub namespace: String,
    pub name: String,
    /// The object as clients see it. None if every cluster has it at first and a client deleted it.
    pub object: Option<Value>,
}

/// [`ClusterObjects`] as they are written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WrittenObjects<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) created_at: Timestamp,
    pub(crate) objects: Vec<WrittenRecord<'a>>,
}

/// An [`ObjectRecord`] as it is written.
#[derive(Serialize)]
pub(crate) struct WrittenRecord<'a> {
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
    object: Option<&'a RawValue>,
}

impl<'a> WrittenRecord<'a> {
    pub(crate) fn of(key: &'a Key, object: Option<&'a RawValue>) -> Self {
        let Key {
            resource,
            namespace,
            name,
        } = key;
        Self {
            group: &resource.group,
            resource: &resource.resource,
            namespace,
            name,
            object,
        }
    }
}

/// Why objects cannot be put back.
#[derive(Debug, Error)]
pub enum PutBackError {
    /// The cluster has objects.
    #[error("cluster {0} exists; delete it first")]
    Exists(ClusterId),
    /// An object cannot have been one of a cluster.
    #[error("failed to read the objects of cluster {cluster}")]
    Objects {
        cluster: ClusterId,
        #[source]
        source: Box<RestoreError>,
    },
    /// The objects need too much memory.
    #[error("the objects of all clusters have more than {0} bytes")]
    TooLarge(usize),
}

/// The objects that wait for their clusters.
#[derive(Debug, Default)]
pub(crate) struct PutBack(Mutex<BTreeMap<ClusterId, Waiting>>);

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) created_at: Timestamp,
    pub(crate) content: Content,
}

/// The most bytes of objects that wait: those of a thousand clusters with 250 KiB each.
pub(crate) const BYTES_MAX: usize = 256 * 1024 * 1024;

impl PutBack {
    /// The objects for a cluster, if there are some.
    pub(crate) fn of(&self, cluster: &ClusterSpec) -> Option<Content> {
        let waiting = self.0.lock();
        let found = waiting
            .get(&cluster.id)
            .filter(|waiting| waiting.created_at == cluster.created_at)?;
        Some(found.content.clone())
    }

    pub(crate) fn replace(&self, by: BTreeMap<ClusterId, Waiting>) {
        *self.0.lock() = by;
    }
}

impl Content {
    pub(crate) fn of(records: Vec<ObjectRecord>) -> Self {
        let mut content = Self::default();
        for ObjectRecord {
            group,
            resource,
            namespace,
            name,
            object,
        } in records
        {
            let key = Key::new(&group, &resource, &namespace, &name);
            match object {
                Some(object) => content.objects.push((key, object.to_string().into())),
                None => drop(content.deleted.insert(key)),
            }
        }
        content
    }

    /// Whether a store can have this content.
    pub(crate) fn check(&self) -> Result<(), RestoreError> {
        Store::restored(
            StoreOptions::default(),
            Timestamp::UNIX_EPOCH,
            self.objects.clone(),
            None,
        )
        .map(drop)
    }

    /// The names of the Nodes, which are those of their machines.
    pub(crate) fn node_names(&self) -> impl Iterator<Item = &str> {
        let nodes = self.objects.iter().filter(|(key, _)| {
            (key.resource.group.as_str(), key.resource.resource.as_str()) == ("", "nodes")
        });
        nodes.map(|(key, _)| key.name.as_str())
    }
}
