//! The object store of one cluster: synchronous, in memory, one lock held for short blocks.
//!
//! Objects are stored as the bytes in which they are served. A single counter numbers every change of the store, as
//! etcd's revision does. A bounded log of the latest changes feeds the watchers, which pull: a watcher that falls
//! behind the log gets [`Expired`] and lists again. No store or watcher has a task, thread or queue, and a kind costs
//! nothing until it has an object, so an empty store is a few hundred bytes.

mod collect;
mod definition;
mod error;
mod events;
mod journal;
mod key;
mod log;
mod object;
mod ownership;
mod prepare;
mod restore;
#[cfg(test)]
mod restored;
mod schemas;
mod selectable;
mod state;
#[cfg(test)]
mod tests;
mod validate;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub(crate) use definition::key_of as definition_key;
pub use error::{Expired, Fault, StoreError};
pub(crate) use error::{Faults, shown};
use jiff::Timestamp;
pub use journal::{Journal, Kept, Recorded, Unkept};
pub use key::{GroupResource, Key};
use log::Log;
pub use log::{Change, ChangeKind};
use object::IndexKey;
pub use object::Object;
#[cfg(debug_assertions)]
pub use object::objects_parsed;
pub(crate) use object::{metadata_mut, metadata_text};
pub(crate) use ownership::managed_fields;
use parking_lot::Mutex;
pub(crate) use prepare::MANAGED_FIELDS;
pub use restore::RestoreError;
use state::{Collection, Schemas, State, WrittenEvents};
use tokio::sync::watch;
pub use validate::is_label;
pub(crate) use validate::{ANNOTATIONS_MAX, refuse};
pub use write::{DeleteOptions, Deletion, Part, Propagation};

use crate::{
    allowance::Allowance,
    conversion::Conversion,
    registry::{Registry, ResourceType},
};

/// The objects of one cluster.
pub struct Store {
    state: Mutex<State>,
    /// The newest resource version, for watchers to wait on.
    newest: watch::Sender<u64>,
    uid_seed: String,
    journal: Option<Arc<dyn Journal>>,
    /// Of all clients of the cluster; shared with copies.
    allowance: Arc<Allowance>,
}

/// The options of a new store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The seed of uids. A uid also depends on the object's name and version, so the same history gives the same uids.
    pub uid_seed: String,
    pub registry: Registry,
    /// How the kinds of CustomResourceDefinitions are converted, by their group.
    pub conversions: BTreeMap<String, Conversion>,
    /// How many changes the event log keeps at most. The default, 512, is about ten minutes of a cluster with six
    /// machines whose controllers are busy.
    pub event_log_capacity: usize,
    /// How many bytes of objects the event log keeps at most; the newest change is kept whatever its size. The
    /// default, 128 KiB, is a quarter of the memory that a cluster may cost.
    pub event_log_bytes_max: usize,
    /// How many bytes of objects clients may store, as etcd's `--quota-backend-bytes`. The default, 64 MiB, is 16,000
    /// objects of 4 KiB.
    pub bytes_max: usize,
    /// Whether requests take turns where there are many, so that the tasks of other servers on the same threads go first. Not
    /// for callers in the same process: they may get a turn and not use it for a while.
    pub takes_turns: bool,
    /// The initial value of the counter. A server that restarts without its past must start higher than before, so that
    /// clients with an old version list again.
    pub first_version: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            uid_seed: String::new(),
            registry: Registry::kubernetes(),
            conversions: BTreeMap::new(),
            event_log_capacity: 512,
            event_log_bytes_max: 128 * 1024,
            bytes_max: 64 * 1024 * 1024,
            takes_turns: false,
            first_version: 1,
        }
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
        Self::with_journal(options, None)
    }

    fn with_journal(options: StoreOptions, journal: Option<Arc<dyn Journal>>) -> Arc<Self> {
        let StoreOptions {
            uid_seed,
            registry,
            conversions,
            event_log_capacity,
            event_log_bytes_max,
            bytes_max,
            takes_turns,
            first_version,
        } = options;
        // To clients, version 0 means "any".
        let version = first_version.max(1);
        let state = State {
            version,
            registry,
            conversions,
            defined: BTreeMap::new(),
            schemas: Schemas::default(),
            collections: BTreeMap::new(),
            log: Log::new(event_log_capacity, event_log_bytes_max, version),
            bytes: 0,
            bytes_max,
            dependents: BTreeMap::new(),
            on_nodes: BTreeMap::new(),
            events: WrittenEvents::default(),
            checks: BTreeSet::new(),
            recorded: journal.is_some().then(Vec::new),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            newest: watch::Sender::new(version),
            uid_seed,
            journal,
            allowance: Arc::new(Allowance::new(takes_turns)),
        })
    }

    /// Another store with the objects of this one as they are now, and the same counter. Neither sees later changes of
    /// the other. It has no journal. Costs a few pointers for each object and change.
    #[must_use]
    pub fn copy(&self) -> Arc<Self> {
        let state = self.state.lock();
        let copy = state.copy();
        let newest = watch::Sender::new(state.version);
        let uid_seed = self.uid_seed.clone();
        let allowance = self.allowance.clone();
        Arc::new(Self {
            state: Mutex::new(copy),
            newest,
            uid_seed,
            journal: None,
            allowance,
        })
    }

    /// The counter, which is the version of the newest change.
    #[must_use]
    pub fn resource_version(&self) -> u64 {
        self.state.lock().version
    }

    /// The kind of a collection. None if it is not served.
    #[must_use]
    pub fn resource_type(&self, resource: &GroupResource) -> Option<Arc<ResourceType>> {
        self.state.lock().resource_type(resource).cloned()
    }

    /// All served kinds: the built-in ones in the registry's order, then those of definitions by group and plural.
    #[must_use]
    pub fn resource_types(&self) -> Vec<Arc<ResourceType>> {
        let state = self.state.lock();
        state
            .registry
            .types()
            .chain(state.defined.values())
            .cloned()
            .collect()
    }

    /// Whether all served kinds are those of a plain cluster.
    pub(crate) fn has_only_built_in_types(&self) -> bool {
        let state = self.state.lock();
        state.defined.is_empty() && state.registry.is_kubernetes()
    }

    /// The object with this key. None if it does not exist.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.state.lock().get(key).cloned()
    }

    /// The objects of a collection, of one namespace or of all, by namespace and name.
    #[must_use]
    pub fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Listed {
        let state = self.state.lock();
        Listed {
            objects: state.list(resource, namespace),
            resource_version: state.version,
        }
    }

    /// The number of objects of a collection.
    #[must_use]
    pub fn count(&self, resource: &GroupResource) -> usize {
        let state = self.state.lock();
        state
            .collections
            .get(resource)
            .map_or(0, |found| found.objects.values().map(BTreeMap::len).sum())
    }

    /// The keys of the pods that are bound to a Node, found without a look at the others.
    #[must_use]
    pub fn pods_on(&self, node: &str) -> Vec<Key> {
        let is_pod = |key: &Key| key.resource.group.is_empty() && key.resource.resource == "pods";
        let state = self.state.lock();
        state
            .on_nodes
            .get(node)
            .into_iter()
            .flatten()
            .map(IndexKey::key)
            .filter(is_pod)
            .collect()
    }

    /// Objects of a collection as of `version`: the present with the later changes undone. Returns at most `limit`
    /// objects after the namespace and name `after`, so that a caller that lists in pages keeps no object in memory
    /// between pages.
    ///
    /// # Errors
    /// When the log does not reach back that far.
    pub fn list_at(
        &self,
        resource: &GroupResource,
        namespace: Option<&str>,
        version: u64,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Arc<Object>>, Expired> {
        let state = self.state.lock();
        // The first change of an object after `version` has the object's state at `version` as its previous state.
        let mut past = BTreeMap::new();
        for change in state.log.since(version, resource, usize::MAX)? {
            let place = (change.object.namespace.clone(), change.object.name.clone());
            let inside = namespace.is_none_or(|namespace| *place.0 == *namespace);
            if inside && after.is_none_or(|after| (&*place.0, &*place.1) > after) {
                past.entry(place).or_insert(change.previous);
            }
        }
        let mut past = past.into_iter().peekable();
        let mut present = state.after(resource, namespace, after).peekable();
        let mut page = Vec::new();
        while page.len() < limit {
            let here = present.peek().map(|object| (&*object.namespace, &*object.name));
            let there = past.peek().map(|((namespace, name), _)| (&**namespace, &**name));
            match (here, there) {
                (None, None) => break,
                (Some(here), there) if there.is_none_or(|there| here < there) => {
                    page.extend(present.next().cloned());
                }
                (here, there) => {
                    if here == there {
                        present.next();
                    }
                    page.extend(past.next().and_then(|(_, previous)| previous));
                }
            }
        }
        Ok(page)
    }

    /// The changes of a collection after `version`, oldest first, `limit` at most.
    ///
    /// # Errors
    /// When the log does not reach back that far.
    pub fn changes_since(
        &self,
        version: u64,
        resource: &GroupResource,
        limit: usize,
    ) -> Result<Vec<Change>, Expired> {
        self.state.lock().log.since(version, resource, limit)
    }

    /// The receiver's value is the newest resource version. A watcher subscribes, lists, and then calls
    /// [`Store::changes_since`] whenever the value has grown.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// The objects of all collections at one instant, by key.
    #[must_use]
    pub fn objects(&self) -> Vec<(Key, Arc<Object>)> {
        let state = self.state.lock();
        let of = |(resource, collection): (&GroupResource, &Collection)| {
            collection
                .all()
                .map(|object| (object.key(resource), object.clone()))
                .collect::<Vec<_>>()
        };
        state.collections.iter().flat_map(of).collect()
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state
            .lock()
            .collections
            .values()
            .map(|collection| collection.all().count())
            .sum()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of all objects.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// The bytes of one object, or of a collection without a name.
    pub(crate) fn bytes_of(&self, resource: &GroupResource, namespace: &str, name: Option<&str>) -> usize {
        let state = self.state.lock();
        let Some(collection) = state.collections.get(resource) else {
            return 0;
        };
        let Some(name) = name else { return collection.bytes };
        let object = collection
            .objects
            .get(namespace)
            .and_then(|names| names.get(name));
        object.map_or(0, |object| object.bytes.len())
    }

    /// At most how many bytes of objects go with an object.
    pub(crate) fn bytes_deleted_with(&self, resource: &GroupResource, namespace: &str, name: &str) -> usize {
        let state = self.state.lock();
        let objects = state
            .collections
            .get(resource)
            .and_then(|collection| collection.objects.get(namespace));
        objects.and_then(|names| names.get(name)).map_or(0, |object| {
            let is_alone = !state.dependents.contains_key(&object.uid)
                && !matches!(
                    resource.resource.as_str(),
                    "namespaces" | "customresourcedefinitions"
                );
            if is_alone { object.bytes.len() } else { state.bytes }
        })
    }

    /// Ready when all earlier changes are kept. Ready at once without a journal.
    ///
    /// # Errors
    /// When the changes cannot be kept for now.
    pub async fn kept(&self) -> Result<(), Unkept> {
        match &self.journal {
            Some(journal) => journal.kept().await,
            None => Ok(()),
        }
    }

    /// Whether a change made now is likely to be kept. Always true without a journal.
    ///
    /// # Errors
    /// When it is not likely to be kept.
    pub fn admits(&self) -> Result<(), Unkept> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.admits())
    }

    pub(crate) fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    /// Runs a change and its consequences under the lock, then wakes the watchers.
    fn change<T>(&self, now: Timestamp, run: impl FnOnce(&mut State) -> T) -> T {
        let (result, version) = {
            let mut state = self.state.lock();
            let result = run(&mut state);
            state.settle(now);
            if let Some(journal) = &self.journal
                && let Some(recorded) = state.recorded.as_mut().filter(|recorded| !recorded.is_empty())
            {
                let recorded = std::mem::take(recorded);
                journal.record(state.version, recorded);
            }
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
        f.debug_struct("Store")
            .field("resource_version", &self.resource_version())
            .finish_non_exhaustive()
    }
}
