//! The object store of one cluster: synchronous, in memory, one lock held for short blocks.
//!
//! Objects are kept as the bytes they are served as. A single counter numbers every change of the store, as etcd's
//! revision does, and a bounded log of the latest changes feeds the watchers, which pull: a watcher that falls off
//! the log's end is told so and lists again. There is no task, thread or queue per store or watcher in here.

mod collect;
mod definition;
mod error;
mod log;
mod object;
mod prepare;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

pub use definition::resource_type_of_definition;
pub use error::{Expired, StoreError};
pub use log::{Change, ChangeKind, LogBounds};
pub use object::{GroupResource, Key, Object};
pub(crate) use object::{metadata_mut, metadata_text};
pub use write::{DeleteOptions, Deletion, Part, Propagation};

use crate::registry::{Registry, ResourceType};
use log::Log;

/// The objects of one cluster.
pub struct Store {
    state: Mutex<State>,
    /// The newest resource version, for watchers to wait on.
    newest: watch::Sender<u64>,
    uid_seed: String,
}

/// What a store is made with.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// What uids are derived from, with the object's name and version: the same history gives the same uids.
    pub uid_seed: String,
    /// Where the counter starts. A server that restarts without its past starts higher than before, so that clients
    /// who come back with an old version are told to list again.
    pub first_version: u64,
    /// The built-in kinds.
    pub registry: Registry,
    /// How much the event log keeps. The default, 512 changes or 256 KiB, is about ten minutes of a cluster with
    /// six machines whose controllers are busy, and a quarter of the memory a cluster may cost.
    pub log: LogBounds,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            uid_seed: String::new(),
            first_version: 1,
            registry: Registry::kubernetes(),
            log: LogBounds { entries_max: 512, bytes_max: 256 * 1024 },
        }
    }
}

/// Everything behind the lock. Owned by the store; only `write` and `collect` change it.
struct State {
    version: u64,
    collections: BTreeMap<GroupResource, Collection>,
    log: Log,
    /// Objects by the uid of an owner.
    dependents: BTreeMap<Box<str>, Vec<Key>>,
}

/// The objects of one kind.
struct Collection {
    kind: Arc<ResourceType>,
    /// Shared by the log's entries.
    name: Arc<GroupResource>,
    objects: BTreeMap<(Box<str>, Box<str>), Arc<Object>>,
}

impl Collection {
    fn new(kind: Arc<ResourceType>) -> Self {
        let name = Arc::new(kind.group_resource());
        Self { kind, name, objects: BTreeMap::new() }
    }
}

/// A list at one instant.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The objects, by namespace and name.
    pub objects: Vec<Arc<Object>>,
    /// The store's counter at that instant.
    pub resource_version: u64,
}

impl Store {
    /// An empty store.
    #[must_use]
    pub fn new(options: StoreOptions) -> Arc<Self> {
        let StoreOptions { uid_seed, first_version, registry, log } = options;
        // To clients, version 0 means "any".
        let version = first_version.max(1);
        let collections =
            registry.types.into_iter().map(|kind| (kind.group_resource(), Collection::new(kind))).collect();
        let state = State { version, collections, log: Log::new(log, version), dependents: BTreeMap::new() };
        Arc::new(Self { state: Mutex::new(state), newest: watch::Sender::new(version), uid_seed })
    }

    /// The counter: the version of the newest change.
    #[must_use]
    pub fn resource_version(&self) -> u64 {
        self.state.lock().version
    }

    /// The kind behind a collection, while it is served.
    #[must_use]
    pub fn resource_type(&self, resource: &GroupResource) -> Option<Arc<ResourceType>> {
        self.state.lock().collections.get(resource).map(|collection| collection.kind.clone())
    }

    /// All served kinds, ordered by group and plural.
    #[must_use]
    pub fn resource_types(&self) -> Vec<Arc<ResourceType>> {
        self.state.lock().collections.values().map(|collection| collection.kind.clone()).collect()
    }

    /// An object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.state.lock().get(key)
    }

    /// The objects of a collection, of one namespace or of all, by namespace and name.
    #[must_use]
    pub fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Listed {
        let state = self.state.lock();
        let objects = match (state.collections.get(resource), namespace) {
            (None, _) => Vec::new(),
            (Some(collection), None) => collection.objects.values().cloned().collect(),
            (Some(collection), Some(namespace)) => collection
                .objects
                .range((namespace.into(), Box::from(""))..)
                .take_while(|((of, _), _)| &**of == namespace)
                .map(|(_, object)| object.clone())
                .collect(),
        };
        Listed { objects, resource_version: state.version }
    }

    /// The changes of a collection after `version`, oldest first.
    ///
    /// # Errors
    /// When the log no longer reaches back that far.
    pub fn changes_since(&self, version: u64, resource: &GroupResource) -> Result<Vec<Change>, Expired> {
        self.state.lock().log.since(version, resource)
    }

    /// Tells when there is something newer: the receiver's value is the newest resource version.
    #[must_use]
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.lock().collections.values().map(|collection| collection.objects.len()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs a change under the lock and tells the watchers afterwards.
    fn change<T>(&self, run: impl FnOnce(&mut State) -> T) -> T {
        let (result, version) = {
            let mut state = self.state.lock();
            let result = run(&mut state);
            (result, state.version)
        };
        self.newest.send_if_modified(|newest| {
            let grew = *newest < version;
            *newest = (*newest).max(version);
            grew
        });
        result
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("resource_version", &self.resource_version()).finish_non_exhaustive()
    }
}

impl State {
    fn get(&self, key: &Key) -> Option<Arc<Object>> {
        let collection = self.collections.get(&key.resource)?;
        collection.objects.get(&(key.namespace.as_str().into(), key.name.as_str().into())).cloned()
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Puts a version of an object in place, indexes it and logs the change.
    fn put(&mut self, key: &Key, object: Object) -> Arc<Object> {
        let object = Arc::new(object);
        let collection =
            self.collections.get_mut(&key.resource).expect("writers check that the kind is served");
        let place = (object.namespace.clone(), object.name.clone());
        let previous = collection.objects.insert(place, object.clone());
        let resource = collection.name.clone();
        if let Some(previous) = &previous {
            self.forget_owners(key, previous);
        }
        for owner in &object.owners {
            self.dependents.entry(owner.clone()).or_default().push(key.clone());
        }
        let kind = if previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.log.push(Change { resource, kind, object: object.clone(), previous });
        object
    }

    /// Takes an object away and logs its last state under a new version.
    fn take(&mut self, key: &Key) -> Option<Arc<Object>> {
        let collection = self.collections.get_mut(&key.resource)?;
        let place = (key.namespace.as_str().into(), key.name.as_str().into());
        let previous = collection.objects.remove(&place)?;
        let resource = collection.name.clone();
        self.forget_owners(key, &previous);
        let version = self.next_version();
        let mut value = previous.value();
        metadata_mut(&mut value).insert("resourceVersion".to_owned(), version.to_string().into());
        let object = Arc::new(Object::new(&value, version));
        self.log.push(Change {
            resource,
            kind: ChangeKind::Deleted,
            object: object.clone(),
            previous: Some(previous),
        });
        Some(object)
    }

    fn forget_owners(&mut self, key: &Key, object: &Object) {
        for owner in &object.owners {
            if let Some(keys) = self.dependents.get_mut(owner) {
                keys.retain(|other| other != key);
                if keys.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }
}
