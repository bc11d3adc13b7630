//! What clients wrote to clusters, kept over a restart: the objects of a cluster's store as records of its partition.
//!
//! All objects of a cluster are kept, those of the projection among them, as clients change these too: a Node keeps the
//! labels that it was given. What follows from management objects is made to follow again when the cluster comes back:
//! what the projection makes is made if it is not there; what was changed about a machine since is changed on its Node
//! and its pods; and what stands for a machine that is not there any more goes. An object of the projection that a
//! client deleted leaves a mark behind, so that it does not come back, but for what stands for a machine.
//!
//! A partition belongs to the cluster of that name that was created at that time. The time is the Cluster's own and
//! stays when its objects are moved or restored, as a uid would not; a cluster that is made again has another one and
//! begins anew.
//!
//! Versions grow over a restart whatever was lost: the counter starts at the milliseconds of the wall clock, which grow
//! faster than any cluster changes, and further than [`UNKEPT_MAX`] beyond the latest version that was kept, should the
//! clock have been set back. So nobody is told of two states under one version, and who watched has to list again.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use nephele_apiserver::{Journal, Kept, Key, Object, Recorded, Store, StoreOptions, Unkept};
use nephele_state::{OpenError, Opened, Partition, State};
use parking_lot::Mutex;

use crate::error::ClusterError;
use crate::identity::{ClusterId, MachineId};
use crate::metrics::Metrics;
use crate::network::Network;
use crate::projection;
use crate::spec::ClusterSpec;

/// More versions than a store spends between two commits, those that a crash may take away. A commit that took a minute
/// would have to miss a thousand changes a second.
const UNKEPT_MAX: u64 = 1 << 16;

/// Stands for an object of the projection that a client deleted.
const DELETED: Bytes = Bytes::new();

/// Keeps the objects of all clusters, or none.
#[derive(Default)]
pub(crate) struct Keeper {
    state: Option<State>,
    /// The machines that there are objects for, by namespace and name, once they have been counted.
    machines: Mutex<Option<BTreeSet<(String, String)>>>,
}

/// The store of a cluster.
pub(crate) struct KeptStore {
    pub(crate) store: Arc<Store>,
    /// Whether there were objects in it when the cluster was made.
    pub(crate) came_back: bool,
    pub(crate) deleted: Deleted,
}

/// The objects of the projection that clients deleted. Noted under the store's lock.
pub(crate) type Deleted = Arc<Mutex<BTreeSet<Key>>>;

impl Keeper {
    /// Opens the directory, if there is one. Without sockets it is in memory, and there is no thread that writes: time
    /// that is simulated would not wait for either.
    pub(crate) fn open(
        directory: Option<&Path>,
        network: &Network,
        metrics: &Metrics,
    ) -> Result<Self, OpenError> {
        let Some(directory) = directory else { return Ok(Self::default()) };
        let observer = Arc::new(metrics.clone());
        let state = match network {
            Network::Sockets => State::open(directory, observer)?,
            Network::InProcess(network) => State::open_in_memory(network.disk(), observer)?,
        };
        tracing::info!(directory = %directory.display(), clusters = state.names().len(), "Opened the state directory");
        Ok(Self { state: Some(state), machines: Mutex::default() })
    }

    /// The store of a cluster, with what was kept of it.
    pub(crate) fn store(&self, cluster: &ClusterSpec, now: Timestamp) -> Result<KeptStore, ClusterError> {
        let options = StoreOptions {
            uid_seed: cluster.id.to_string(),
            // Milliseconds grow faster than any cluster changes, so that versions grow over a restart.
            first_version: u64::try_from(now.as_millisecond()).unwrap_or(1),
            ..StoreOptions::default()
        };
        let Some(state) = &self.state else {
            return Ok(KeptStore {
                store: Store::new(options),
                came_back: false,
                deleted: Deleted::default(),
            });
        };
        let name = cluster.id.to_string();
        let opened = state.partition(&name, &cluster.created_at.to_string()).map_err(ClusterError::State)?;
        let Opened { partition, records, mark } = opened;
        let came_back = !records.is_empty();
        let mut deleted = BTreeSet::new();
        let mut objects = Vec::with_capacity(records.len());
        for (record, value) in records {
            let Some(key) = key_of(&record) else { return Err(ClusterError::Record(record)) };
            if value.is_empty() {
                deleted.insert(key);
            } else {
                objects.push((key, value));
            }
        }
        if came_back {
            let (objects, deleted) = (objects.len(), deleted.len());
            tracing::info!(cluster = %cluster.id, objects, deleted, "Brought back a cluster's objects");
        }
        let deleted = Arc::new(Mutex::new(deleted));
        let journal =
            ClusterJournal { partition, cluster: cluster.id.clone(), deleted: Arc::clone(&deleted) };
        let first_version = options.first_version.max(mark.saturating_add(UNKEPT_MAX));
        let options = StoreOptions { first_version, ..options };
        let store =
            Store::restored(options, now, objects, Arc::new(journal)).map_err(ClusterError::Restore)?;
        Ok(KeptStore { store, came_back, deleted })
    }

    /// Forgets what is kept of a cluster.
    pub(crate) fn forget(&self, cluster: &ClusterId) {
        if let Some(state) = &self.state {
            state.remove(&cluster.to_string());
        }
    }

    /// The clusters of which something is kept.
    pub(crate) fn clusters(&self) -> BTreeSet<ClusterId> {
        let names = self.state.as_ref().map(State::names).unwrap_or_default();
        let id = |name: &String| {
            let (namespace, name) = name.split_once('/')?;
            Some(ClusterId { namespace: namespace.to_owned(), name: name.to_owned() })
        };
        names.iter().filter_map(id).collect()
    }

    /// Whether something is kept of a cluster.
    pub(crate) fn knows(&self, id: &ClusterId) -> bool {
        self.state.as_ref().is_some_and(|state| state.names().contains(&id.to_string()))
    }

    /// Notes which machines there are objects for. Tells whether that matters to anybody.
    pub(crate) fn note_machines(&self, there: BTreeSet<(String, String)>) -> bool {
        let keeps = self.state.is_some();
        if keeps {
            *self.machines.lock() = Some(there);
        }
        keeps
    }

    /// There is no object of that machine any more, or soon.
    pub(crate) fn forget_machine(&self, machine: &MachineId) {
        if let Some(machines) = &mut *self.machines.lock() {
            machines.remove(&(machine.cluster.namespace.clone(), machine.name.clone()));
        }
    }

    /// Whether a machine may be there: nobody has counted, or it was among those that were.
    pub(crate) fn may_have_machine(&self, namespace: &str, name: &str) -> bool {
        let machines = self.machines.lock();
        machines.as_ref().is_none_or(|there| there.contains(&(namespace.to_owned(), name.to_owned())))
    }

    /// Keeps what is not kept yet, and lets go of the directory.
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
    /// Whether an object is the projection's, and goes for good when a client deletes it. What stands for a machine
    /// comes and goes with that.
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

/// The key of the record of an object: its parts, which have no zeros in them, with a zero between two.
fn record_of(key: &Key) -> Vec<u8> {
    let parts = [&key.resource.group, &key.resource.resource, &key.namespace, &key.name];
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
        for key in [Key::new("", "nodes", "", "a"), Key::new("apps", "deployments", "kube-system", "a.b-c")] {
            assert_eq!(key_of(&record_of(&key)), Some(key));
        }
        for record in [&b"a\0b\0c"[..], b"a\0b\0c\0d\0e", b"", b"\xff\0b\0c\0d"] {
            assert_eq!(key_of(record), None);
        }
    }
}
