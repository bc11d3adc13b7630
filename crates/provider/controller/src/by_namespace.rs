use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::{
    Resource, ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use parking_lot::Mutex;

/// The objects of one kind by their namespace, so that what happens in one namespace costs no walk over the objects of all
/// others. Cheap to clone.
///
/// It has the names, and the store has the objects. Whoever learns of a change finds it here.
pub struct ByNamespace<K: Resource<DynamicType = ()> + 'static> {
    store: Store<K>,
    names: Arc<Mutex<Names>>,
}

/// The names of objects by their namespace.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeMap<String, BTreeSet<String>>);

impl<K: Resource<DynamicType = ()> + Clone + 'static> Clone for ByNamespace<K> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            names: Arc::clone(&self.names),
        }
    }
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> ByNamespace<K> {
    pub(crate) fn new(store: Store<K>) -> Self {
        let names = Arc::default();
        Self { store, names }
    }

    /// The object of this name, if it exists.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.store.get(&ObjectRef::new(name).within(namespace))
    }

    /// The objects of all namespaces, in any order.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<K>> {
        self.store.state()
    }

    /// The objects of a namespace, in the order of their names.
    #[must_use]
    pub fn of(&self, namespace: &str) -> Vec<Arc<K>> {
        let names = self.names.lock();
        let names = names.0.get(namespace).into_iter().flatten();
        names.filter_map(|name| self.get(namespace, name)).collect()
    }

    /// As [`ByNamespace::of`], without the objects.
    #[must_use]
    pub fn refs_of(&self, namespace: &str) -> Vec<ObjectRef<K>> {
        let names = self.names.lock();
        let names = names.0.get(namespace).into_iter().flatten();
        names.map(|name| ObjectRef::new(name).within(namespace)).collect()
    }

    /// Takes an object that the store has now.
    pub(crate) fn applied(&self, object: &K) {
        self.names.lock().add(object);
    }

    /// Drops an object that the store does not have any more.
    pub(crate) fn deleted(&self, object: &K) {
        self.names.lock().remove(object);
    }

    /// Takes the names of the first list, which the store has now.
    pub(crate) fn listed(&self, names: Names) {
        *self.names.lock() = names;
    }
}

impl Names {
    pub(crate) fn add<K: Resource>(&mut self, object: &K) {
        let namespace = object.namespace().unwrap_or_default();
        self.0.entry(namespace).or_default().insert(object.name_any());
    }

    /// Leaves nothing behind of a namespace without objects: namespaces come and go.
    fn remove<K: Resource>(&mut self, object: &K) {
        let namespace = object.namespace().unwrap_or_default();
        if let Some(present) = self.0.get_mut(&namespace) {
            present.remove(&object.name_any());
            if present.is_empty() {
                self.0.remove(&namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
    use kube::runtime::{reflector, watcher};
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Apply(u8, u8),
        Delete(u8, u8),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let key = || (0..3_u8, 0..3_u8);
        let step = prop_oneof![
            3 => key().prop_map(|(namespace, name)| Step::Apply(namespace, name)),
            2 => key().prop_map(|(namespace, name)| Step::Delete(namespace, name)),
        ];
        prop::collection::vec(step, 1..40)
    }

    fn config_map((namespace, name): (u8, u8)) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_string()),
                namespace: Some(namespace.to_string()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    proptest! {
        #[test]
        fn each_namespace_has_the_objects_that_a_walk_over_all_finds(steps in steps()) {
            let (store, mut writer) = reflector::store::<ConfigMap>();
            let by_namespace = ByNamespace::new(store.clone());
            for step in steps {
                match step {
                    Step::Apply(namespace, name) => {
                        let object = config_map((namespace, name));
                        writer.apply_watcher_event(&watcher::Event::Apply(object.clone()));
                        by_namespace.applied(&object);
                    }
                    Step::Delete(namespace, name) => {
                        let object = config_map((namespace, name));
                        writer.apply_watcher_event(&watcher::Event::Delete(object.clone()));
                        by_namespace.deleted(&object);
                    }
                }
                for namespace in ["0", "1", "2"] {
                    let mut all: Vec<_> = store.state();
                    all.retain(|object| object.metadata.namespace.as_deref() == Some(namespace));
                    all.sort_by_key(|object| object.name_any());
                    let refs: Vec<_> = all.iter().map(|object| ObjectRef::from_obj(&**object)).collect();
                    prop_assert_eq!(by_namespace.of(namespace), all);
                    prop_assert_eq!(by_namespace.refs_of(namespace), refs);
                }
                let namespaces: BTreeSet<_> = store.state().iter().filter_map(|object| object.namespace()).collect();
                let kept: BTreeSet<_> = by_namespace.names.lock().0.keys().cloned().collect();
                prop_assert_eq!(kept, namespaces);
            }
        }
    }
}
