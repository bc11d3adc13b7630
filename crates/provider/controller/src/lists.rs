//! What a new list changes, object by object. At its end, the work of thousands of objects would keep the thread.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher::Event,
    },
};

use crate::by_namespace::Names;

/// What happens with objects and lists.
pub(crate) enum Step<K> {
    Apply(K),
    Delete(K),
    Begin,
    /// An object of the list that has begun.
    Listed(K),
    /// The list that ends does not have this object any more.
    Missing(Arc<K>),
    End {
        /// The objects that are not in the list, and those whose names others have in it.
        gone: Vec<Arc<K>>,
        names: Names,
    },
}

/// The list that is being read.
pub(crate) struct Lists<K: Resource<DynamicType = ()> + Clone + 'static> {
    store: Store<K>,
    identities: HashSet<String>,
    names: Names,
    replaced: Vec<Arc<K>>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Lists<K> {
    /// Lists of objects that come into this store.
    pub(crate) fn new(store: Store<K>) -> Self {
        Self {
            store,
            identities: HashSet::new(),
            names: Names::default(),
            replaced: Vec::new(),
        }
    }

    /// The steps of an event, after the store took the steps before.
    pub(crate) fn steps(&mut self, event: Event<K>) -> Vec<Step<K>> {
        match event {
            Event::Apply(object) => vec![Step::Apply(object)],
            Event::Delete(object) => vec![Step::Delete(object)],
            Event::Init => {
                *self = Self::new(self.store.clone());
                vec![Step::Begin]
            }
            Event::InitApply(object) => {
                self.names.add(&object);
                let identity = identity(object.meta());
                let before = self.store.get(&ObjectRef::from_obj(&object));
                let is_other = |before: &Arc<K>| self::identity(before.meta()) != identity;
                self.replaced.extend(before.filter(is_other));
                self.identities.insert(identity.into_owned());
                vec![Step::Listed(object)]
            }
            Event::InitDone => self.end(),
        }
    }

    fn end(&mut self) -> Vec<Step<K>> {
        let Self {
            identities,
            names,
            replaced,
            ..
        } = std::mem::replace(self, Self::new(self.store.clone()));
        let mut missing = self.store.state();
        missing.retain(|object| !identities.contains(&*identity(object.meta())));
        let gone = [replaced, missing.clone()].concat();
        let steps = missing.into_iter().map(Step::Missing);
        steps.chain([Step::End { gone, names }]).collect()
    }
}

/// What tells an object from another one of its name: its uid, or its name where it has none.
fn identity(metadata: &ObjectMeta) -> Cow<'_, str> {
    match (&metadata.uid, &metadata.namespace, &metadata.name) {
        (Some(uid), ..) => Cow::Borrowed(uid),
        (None, namespace, name) => Cow::Owned(format!(
            "{}/{}",
            namespace.as_deref().unwrap_or_default(),
            name.as_deref().unwrap_or_default()
        )),
    }
}
