//! Keeps the objects of clusters over a restart, as records in a partition of the state file per cluster.
//!
//! All objects of a cluster are kept, also those of the projection, because clients change these too: a Node keeps the
//! labels that it was given. Everything that follows from management objects is derived again when the cluster
//! returns. Missing objects of the projection are created. Changes of a machine since then are applied to its Node and its
//! pods. Objects of machines that no longer exist are removed. An object of the projection that a client deleted leaves
//! a mark, so that it is not created again, unless something in a real cluster restores it; objects of machines leave none.
//!
//! A partition belongs to the cluster of that name that was created at that time. The creation time is the Cluster's
//! own. Unlike a uid, it stays the same when objects are moved or restored. A cluster that is created again has another
//! time and starts empty.
//!
//! Resource versions grow over a restart, whatever was lost. The counter starts at the milliseconds of the wall clock,
//! which grow faster than the changes of any cluster. It also starts at least [`UNKEPT_MAX`] above the latest version
//! that was kept, in case the clock was set back. So no version stands for two states, and clients with a watch have to
//! list again.

use std::{collections::BTreeSet, future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use jiff::Timestamp;
use nephele_apiserver::{Journal, Kept, Key, Object, Recorded, Store, StoreOptions, Unkept};
use nephele_model::{ClusterId, MachineId};
use nephele_state::{Opened, Partition, State};
use parking_lot::Mutex;

use crate::{
    checkpoint::PutBack, content::Content, error::ClusterError, identity::control_plane_node, projection,
    spec::ClusterSpec,
};

/// An upper bound for the versions that a store assigns between two commits, which a crash may lose. If a commit took a
/// minute, this would be a thousand changes per second.
const UNKEPT_MAX: u64 = 1 << 16;

/// The record of an object of the projection that a client deleted.
const DELETED: Bytes = Bytes::new();

/// Keeps the objects of all clusters. Without a state directory it keeps nothing over a restart.
#[derive(Default)]
pub(crate) struct Persister {
    state: Option<State>,
    /// The objects of a checkpoint that wait for their clusters.
    pub(crate) put_back: PutBack,
    /// The machines that have objects, by namespace and name. None until they were listed.
    machines: Mutex<Option<BTreeSet<(String, String)>>>,
}

/// The store of a cluster.
pub(crate) struct PersistedStore {
    pub(crate) store: Arc<Store>,
    /// Whether the store had kept objects when the cluster was created.
    pub(crate) was_restored: bool,
    pub(crate) deleted: Deleted,
}

/// The objects of the projection that clients deleted. Changed under the store's lock.
pub(crate) type Deleted = Arc<Mutex<BTreeSet<Key>>>;

impl Persister {
    /// Keeps objects in this state, or only those that are put back.
    pub(crate) fn new(state: Option<State>) -> Self {
        Self {
            state,
            ..Self::default()
        }
    }

    /// The store of a cluster, with the objects that were put back, or else with its kept objects.
    pub(crate) fn store(
        &self,
        cluster: &ClusterSpec,
        now: Timestamp,
    ) -> Result<PersistedStore, ClusterError> {
        let options = StoreOptions {
            uid_seed: cluster.id.to_string(),
            // Milliseconds grow faster than the changes of any cluster, so versions grow over a restart.
            first_version: u64::try_from(now.as_millisecond()).unwrap_or(1),
            takes_turns: true,
            ..StoreOptions::default()
        };
        let put_back = self.put_back.of(cluster);
        if let Some(content) = &put_back {
            self.expect_machines(&cluster.id.namespace, content.node_names());
        }
        let Some(state) = &self.state else {
            let was_restored = put_back.is_some();
            let Content { objects, deleted } = put_back.unwrap_or_default();
            let store = Store::restored(options, now, objects, None).map_err(ClusterError::Restore)?;
            return Ok(PersistedStore {
                store,
                was_restored,
                deleted: Arc::new(Mutex::new(deleted)),
            });
        };
        let name = cluster.id.to_string();
        if put_back.is_some() {
            state.remove(&name);
        }
        let opened = state
            .partition(&name, &cluster.created_at.to_string())
            .map_err(ClusterError::State)?;
        let Opened {
            partition,
            records,
            mark,
        } = opened;
        let content = match put_back {
            Some(content) => {
                partition.write(options.first_version, records_of(&content));
                content
            }
            None => content_of(records)?,
        };
        let Content { objects, deleted } = content;
        let was_restored = !(objects.is_empty() && deleted.is_empty());
        if was_restored {
            let objects = objects.len();
            let deleted = deleted.len();
            tracing::info!(cluster = %cluster.id, objects, deleted, "Restored a cluster's objects");
        }
        let deleted = Arc::new(Mutex::new(deleted));
        let journal = ClusterJournal {
            partition,
            cluster: cluster.id.clone(),
            deleted: Arc::clone(&deleted),
        };
        let first_version = options.first_version.max(mark.saturating_add(UNKEPT_MAX));
        let options = StoreOptions {
            first_version,
            ..options
        };
        let store =
            Store::restored(options, now, objects, Some(Arc::new(journal))).map_err(ClusterError::Restore)?;
        Ok(PersistedStore {
            store,
            was_restored,
            deleted,
        })
    }

    /// Deletes the kept objects of a cluster.
    pub(crate) fn forget(&self, cluster: &ClusterId) {
        if let Some(state) = &self.state {
            state.remove(&cluster.to_string());
        }
    }

    /// The clusters that have kept objects.
    pub(crate) fn clusters(&self) -> BTreeSet<ClusterId> {
        let names = self.state.as_ref().map(State::names).unwrap_or_default();
        let id = |name: &String| {
            let (namespace, name) = name.split_once('/')?;
            Some(ClusterId {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        };
        names.iter().filter_map(id).collect()
    }

    /// Whether a cluster has kept objects.
    pub(crate) fn knows(&self, id: &ClusterId) -> bool {
        self.state
            .as_ref()
            .is_some_and(|state| state.names().contains(&id.to_string()))
    }

    /// Stores which machines have objects. Returns whether there is a state directory.
    pub(crate) fn note_machines(&self, there: BTreeSet<(String, String)>) -> bool {
        let keeps = self.state.is_some();
        if keeps {
            *self.machines.lock() = Some(there);
        }
        keeps
    }

    /// Stores that these machines will have objects, too.
    fn expect_machines<'a>(&self, namespace: &str, names: impl Iterator<Item = &'a str>) {
        if let Some(machines) = &mut *self.machines.lock() {
            machines.extend(names.map(|name| (namespace.to_owned(), name.to_owned())));
        }
    }

    /// Removes a machine whose object is gone or will be soon.
    pub(crate) fn forget_machine(&self, machine: &MachineId) {
        if let Some(machines) = &mut *self.machines.lock() {
            machines.remove(&(machine.cluster.namespace.clone(), machine.name.clone()));
        }
    }

    /// Whether a machine with this Node may exist: the machines were not listed yet, or it was among them.
    pub(crate) fn may_have_node(&self, namespace: &str, node: &str) -> bool {
        let machines = self.machines.lock();
        let Some(there) = machines.as_ref() else {
            return true;
        };
        let of_namespace = there
            .range((namespace.to_owned(), String::new())..)
            .take_while(|(of, _)| of == namespace);
        there.contains(&(namespace.to_owned(), node.to_owned()))
            || of_namespace
                .into_iter()
                .any(|(_, name)| control_plane_node(name) == node)
    }

    /// Writes all pending changes and closes the directory.
    pub(crate) async fn close(&self) {
        if let Some(state) = &self.state {
            state.close().await;
        }
    }
}

/// Keeps the objects of one cluster.
struct ClusterJournal {
    partition: Partition,
    cluster: ClusterId,
    deleted: Deleted,
}

impl ClusterJournal {
    /// Whether an object is of the projection and stays deleted when a client deletes it. Objects of a machine come and
    /// go with the machine.
    fn marks(&self, key: &Key, object: &Object) -> bool {
        let resource = key.resource.resource.as_str();
        !matches!(resource, "nodes" | "pods" | "leases") && projection::made(&self.cluster, key, object)
    }
}

impl Journal for ClusterJournal {
    fn record(&self, resource_version: u64, changes: Vec<Recorded>) {
        let mut deleted = self.deleted.lock();
        let record = |Recorded { key, state }| {
            let record = record_of(&key);
            let value = match state {
                Kept::There(object) => {
                    deleted.remove(&key);
                    Some(object.bytes.clone())
                }
                Kept::Gone(object) if self.marks(&key, &object) => {
                    deleted.insert(key);
                    Some(DELETED)
                }
                Kept::Gone(_) => None,
            };
            (record, value)
        };
        let records = changes.into_iter().map(record).collect();
        self.partition.write(resource_version, records);
    }

    fn kept(&self) -> Pin<Box<dyn Future<Output = Result<(), Unkept>> + Send>> {
        let kept = self.partition.kept();
        Box::pin(async move { kept.await.map_err(|error| Unkept(error.to_string())) })
    }

    fn admits(&self) -> Result<(), Unkept> {
        self.partition.admits().map_err(|error| Unkept(error.to_string()))
    }
}

/// The records of a store's content.
fn records_of(content: &Content) -> Vec<(Vec<u8>, Option<Bytes>)> {
    let there = content
        .objects
        .iter()
        .map(|(key, bytes)| (record_of(key), Some(bytes.clone())));
    let deleted = content.deleted.iter().map(|key| (record_of(key), Some(DELETED)));
    there.chain(deleted).collect()
}

fn content_of(records: Vec<(Vec<u8>, Bytes)>) -> Result<Content, ClusterError> {
    let mut content = Content::default();
    for (record, value) in records {
        let Some(key) = key_of(&record) else {
            return Err(ClusterError::Record(record));
        };
        if value.is_empty() {
            content.deleted.insert(key);
        } else {
            content.objects.push((key, value));
        }
    }
    Ok(content)
}

/// The key of the record of an object: its parts, which contain no zero bytes, joined by zero bytes.
fn record_of(key: &Key) -> Vec<u8> {
    let parts = [
        &key.resource.group,
        &key.resource.resource,
        &key.namespace,
        &key.name,
    ];
    parts.map(String::as_str).join("\0").into_bytes()
}

fn key_of(record: &[u8]) -> Option<Key> {
    let text = std::str::from_utf8(record).ok()?;
    let mut parts = text.split('\0');
    let key = Key::new(parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_has_the_name_of_its_object() {
        for key in [
            Key::new("", "nodes", "", "a"),
            Key::new("apps", "deployments", "kube-system", "a.b-c"),
        ] {
            assert_eq!(key_of(&record_of(&key)), Some(key));
        }
        for record in [&b"a\0b\0c"[..], b"a\0b\0c\0d\0e", b"", b"\xff\0b\0c\0d"] {
            assert_eq!(key_of(record), None);
        }
    }
}
