//! What is behind the lock of a store.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    journal::{Kept, Recorded},
    key::{GroupResource, Key},
    log::{Change, ChangeKind, Log},
    object::{IndexKey, Object},
};
use crate::{
    apply::CustomSchema,
    conversion::Conversion,
    registry::{Registry, ResourceType},
};

/// Schemas by collection and version, each with the resource version of the definition that it was read from. A schema
/// is read when it is needed for the first time. It has a few kilobytes; its definition may have hundreds.
pub(super) type Schemas = BTreeMap<(GroupResource, String), (u64, Arc<CustomSchema>)>;

/// When each version of an event was written, oldest first. Versions that have been replaced since are skipped.
pub(super) type WrittenEvents = VecDeque<(Timestamp, u64, Key)>;

/// A check that a change makes necessary.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Check {
    /// A new owner reference may name an owner that does not exist.
    NewDependent(Key),
    /// The object with this uid is gone. Other objects may name it as their owner.
    Dependents(Box<str>),
    /// The last dependent of a deleted object may be gone.
    Owner(Key),
    /// The last object of the kind of a deleted definition may be gone.
    Definition(String),
    /// The last object in a deleted namespace may be gone.
    Namespace(String),
}

/// Everything behind the lock. Owned by the store; only `write`, `collect` and `definition` change it.
pub(super) struct State {
    pub(super) version: u64,
    pub(super) registry: Registry,
    pub(super) conversions: BTreeMap<String, Conversion>,
    pub(super) defined: BTreeMap<GroupResource, Arc<ResourceType>>,
    /// The schemas of custom kinds to whose objects something was applied.
    pub(super) schemas: Schemas,
    /// The collections of kinds that have had an object.
    pub(super) collections: BTreeMap<GroupResource, Collection>,
    pub(super) log: Log,
    /// The bytes of all objects.
    pub(super) bytes: usize,
    pub(super) bytes_max: usize,
    /// Objects by the uid of an owner.
    pub(super) dependents: BTreeMap<Box<str>, BTreeSet<IndexKey>>,
    /// Pods by the Node that they are bound to.
    pub(super) on_nodes: BTreeMap<Box<str>, BTreeSet<IndexKey>>,
    pub(super) events: WrittenEvents,
    /// Checks that deletions have queued; empty whenever the lock is free.
    pub(super) checks: BTreeSet<Check>,
    /// Changes to record in the journal; empty whenever the lock is free. None without a journal.
    pub(super) recorded: Option<Vec<Recorded>>,
}

/// The objects of one kind by namespace (empty for cluster-scoped kinds), then by name.
#[derive(Clone)]
pub(super) struct Collection {
    /// Shared by the log's entries.
    pub(super) name: Arc<GroupResource>,
    pub(super) objects: BTreeMap<Box<str>, BTreeMap<Box<str>, Arc<Object>>>,
    /// The bytes of its objects.
    pub(super) bytes: usize,
}

impl Collection {
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values().flat_map(BTreeMap::values)
    }
}

impl State {
    /// The same objects, definitions and past, without anything that is under way.
    pub(super) fn copy(&self) -> Self {
        Self {
            version: self.version,
            registry: self.registry.clone(),
            conversions: self.conversions.clone(),
            defined: self.defined.clone(),
            schemas: Schemas::default(),
            collections: self.collections.clone(),
            log: self.log.clone(),
            bytes: self.bytes,
            bytes_max: self.bytes_max,
            dependents: self.dependents.clone(),
            on_nodes: self.on_nodes.clone(),
            events: WrittenEvents::default(),
            checks: BTreeSet::new(),
            recorded: None,
        }
    }

    pub(super) fn resource_type(&self, resource: &GroupResource) -> Option<&Arc<ResourceType>> {
        self.registry.get(resource).or_else(|| self.defined.get(resource))
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.collections
            .get(&key.resource)?
            .objects
            .get(key.namespace.as_str())?
            .get(key.name.as_str())
    }

    pub(super) fn list(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Arc<Object>> {
        match (self.collections.get(resource), namespace) {
            (None, _) => Vec::new(),
            (Some(collection), None) => collection.all().cloned().collect(),
            (Some(collection), Some(namespace)) => collection
                .objects
                .get(namespace)
                .into_iter()
                .flat_map(BTreeMap::values)
                .cloned()
                .collect(),
        }
    }

    /// The objects of a collection after a namespace and name, in that order.
    pub(super) fn after<'a>(
        &'a self,
        resource: &GroupResource,
        namespace: Option<&'a str>,
        after: Option<(&'a str, &'a str)>,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let from = namespace.or(after.map(|(namespace, _)| namespace));
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let collection = self.collections.get(resource).into_iter();
        let namespaces =
            collection.flat_map(move |found| found.objects.range::<str, _>((from, Bound::Unbounded)));
        let namespaces =
            namespaces.take_while(move |(inner, _)| namespace.is_none_or(|namespace| ***inner == *namespace));
        namespaces.flat_map(move |(inner, names)| {
            let name = after
                .filter(|(namespace, _)| **inner == **namespace)
                .map(|(_, name)| name);
            names
                .range::<str, _>((name.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded))
                .map(|(_, object)| object)
        })
    }

    /// Stores a version of an object, indexes it and logs the change.
    pub(super) fn put(&mut self, key: &Key, object: Object) -> Arc<Object> {
        self.version = object.resource_version;
        let (object, resource, previous) = self.place(key, object);
        let kind = if previous.is_some() {
            ChangeKind::Modified
        } else {
            ChangeKind::Added
        };
        self.log.push(Change {
            resource,
            kind,
            object: object.clone(),
            previous,
        });
        if let Some(recorded) = &mut self.recorded {
            recorded.push(Recorded {
                key: key.clone(),
                state: Kept::There(object.clone()),
            });
        }
        object
    }

    /// Stores a version of an object and indexes it. Returns the object, its collection and the version it
    /// replaced.
    pub(super) fn place(
        &mut self,
        key: &Key,
        object: Object,
    ) -> (Arc<Object>, Arc<GroupResource>, Option<Arc<Object>>) {
        let object = Arc::new(object);
        let collection = self
            .collections
            .entry(key.resource.clone())
            .or_insert_with(|| Collection {
                name: Arc::new(key.resource.clone()),
                objects: BTreeMap::new(),
                bytes: 0,
            });
        let resource = collection.name.clone();
        let names = collection.objects.entry(object.namespace.clone()).or_default();
        let previous = names.insert(object.name.clone(), object.clone());
        let before = previous.as_ref().map_or(0, |previous| previous.bytes.len());
        collection.bytes = collection.bytes + object.bytes.len() - before;
        self.bytes = self.bytes + object.bytes.len() - before;
        if previous
            .as_ref()
            .is_none_or(|previous| previous.owners != object.owners)
        {
            let dependent = IndexKey::new(&resource, &object);
            if let Some(previous) = &previous {
                self.forget_owners(&dependent, previous);
            }
            for owner in &object.owners {
                self.dependents
                    .entry(owner.clone())
                    .or_default()
                    .insert(dependent.clone());
            }
        }
        if previous.as_ref().and_then(|previous| previous.node.as_ref()) != object.node.as_ref() {
            let pod = IndexKey::new(&resource, &object);
            if let Some(previous) = &previous {
                self.forget_node(&pod, previous);
            }
            if let Some(node) = &object.node {
                self.on_nodes.entry(node.clone()).or_default().insert(pod);
            }
        }
        (object, resource, previous)
    }

    /// Removes an object and logs its last state under a new version.
    pub(super) fn take(&mut self, key: &Key) -> Option<Arc<Object>> {
        let collection = self.collections.get_mut(&key.resource)?;
        let names = collection.objects.get_mut(key.namespace.as_str())?;
        let previous = names.remove(key.name.as_str())?;
        collection.bytes -= previous.bytes.len();
        self.bytes -= previous.bytes.len();
        if names.is_empty() {
            collection.objects.remove(key.namespace.as_str());
        }
        let resource = collection.name.clone();
        let gone = IndexKey::new(&resource, &previous);
        self.forget_owners(&gone, &previous);
        self.forget_node(&gone, &previous);
        self.version += 1;
        let object = Arc::new(previous.at_version(self.version));
        self.log.push(Change {
            resource,
            kind: ChangeKind::Deleted,
            object: object.clone(),
            previous: Some(previous),
        });
        if let Some(recorded) = &mut self.recorded {
            recorded.push(Recorded {
                key: key.clone(),
                state: Kept::Gone(object.clone()),
            });
        }
        Some(object)
    }

    fn forget_node(&mut self, pod: &IndexKey, object: &Object) {
        let Some(node) = &object.node else { return };
        if let Some(pods) = self.on_nodes.get_mut(node) {
            pods.remove(pod);
            if pods.is_empty() {
                self.on_nodes.remove(node);
            }
        }
    }

    fn forget_owners(&mut self, dependent: &IndexKey, object: &Object) {
        for owner in &object.owners {
            if let Some(dependents) = self.dependents.get_mut(owner) {
                dependents.remove(dependent);
                if dependents.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }
}
