//! What a new list changes, object by object. At its end, the work of thousands of objects would keep the thread.

use std::{borrow::Cow, collections::HashSet, sync::Arc, vec};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher::Event,
    },
};

/// What happens with objects and lists.
pub(crate) enum Step<K> {
    Apply(K),
    Delete(K),
    Begin,
    /// An object of the list that has begun.
    Listed(K),
    /// The list that ends has this object.
    Kept,
    /// The list that ends does not have this object any more.
    Missing(Arc<K>),
    End {
        /// The objects that are not in the list, and those whose names others have in it.
        gone: Vec<Arc<K>>,
    },
}

/// The steps of an event, one after the other: that of the end of a list has one for each object, so its reader can pause.
pub(crate) enum Steps<K> {
    One(Option<Step<K>>),
    Ending(Option<Ending<K>>),
}

/// A list that ends.
pub(crate) struct Ending<K> {
    /// What the store has and is not compared with the list yet.
    stored: vec::IntoIter<Arc<K>>,
    /// The identities of the list that are not found in the store yet.
    identities: HashSet<String>,
    gone: Vec<Arc<K>>,
}

impl<K> Steps<K> {
    /// Nothing happens.
    pub(crate) fn none() -> Self {
        Self::One(None)
    }
}

impl<K: Resource> Iterator for Steps<K> {
    type Item = Step<K>;

    fn next(&mut self) -> Option<Step<K>> {
        match self {
            Self::One(step) => step.take(),
            Self::Ending(ending) => {
                let Some(object) = ending.as_mut()?.stored.next() else {
                    let Ending { gone, .. } = ending.take()?;
                    return Some(Step::End { gone });
                };
                let Ending { identities, gone, .. } = ending.as_mut()?;
                if identities.remove(&*identity(object.meta())) {
                    return Some(Step::Kept);
                }
                gone.push(Arc::clone(&object));
                Some(Step::Missing(object))
            }
        }
    }
}

/// The list that is being read.
pub(crate) struct Lists<K: Resource<DynamicType = ()> + Clone + 'static> {
    store: Store<K>,
    /// What the list has, if the store had anything when the list began.
    identities: Option<HashSet<String>>,
    /// What others have the names of.
    replaced: Vec<Arc<K>>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Lists<K> {
    /// Lists of objects that come into this store.
    pub(crate) fn new(store: Store<K>) -> Self {
        Self {
            store,
            identities: None,
            replaced: Vec::new(),
        }
    }

    /// The steps of an event, after the store took the steps before.
    pub(crate) fn steps(&mut self, event: Event<K>) -> Steps<K> {
        let step = match event {
            Event::Apply(object) => Step::Apply(object),
            Event::Delete(object) => Step::Delete(object),
            Event::Init => {
                *self = Self::new(self.store.clone());
                let stored = self.store.len();
                self.identities = (stored > 0).then(|| HashSet::with_capacity(stored));
                Step::Begin
            }
            Event::InitApply(object) => {
                let identity = identity(object.meta());
                let before = self.store.get(&ObjectRef::from_obj(&object));
                let is_other = |before: &Arc<K>| self::identity(before.meta()) != identity;
                self.replaced.extend(before.filter(is_other));
                if let Some(identities) = &mut self.identities {
                    identities.insert(identity.into_owned());
                }
                Step::Listed(object)
            }
            Event::InitDone => return self.end(),
        };
        Steps::One(Some(step))
    }

    fn end(&mut self) -> Steps<K> {
        let Self {
            identities, replaced, ..
        } = std::mem::replace(self, Self::new(self.store.clone()));
        let stored = match identities {
            Some(_) => self.store.state(),
            None => Vec::new(),
        };
        Steps::Ending(Some(Ending {
            stored: stored.into_iter(),
            identities: identities.unwrap_or_default(),
            gone: replaced,
        }))
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::runtime::{reflector, watcher};

    use super::*;

    fn config_map(name: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                uid: Some(format!("uid of {name}")),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    /// Whoever reads the steps can pause between two of them.
    #[test]
    fn the_end_of_a_list_has_a_step_for_each_object_of_the_store() {
        let (store, mut writer) = reflector::store::<ConfigMap>();
        for name in ["a", "b", "c"] {
            writer.apply_watcher_event(&watcher::Event::Apply(config_map(name)));
        }
        let mut lists = Lists::new(store);
        let begin = [Event::Init, Event::InitApply(config_map("b"))];
        assert_eq!(begin.into_iter().flat_map(|event| lists.steps(event)).count(), 2);
        let mut kept = 0;
        let mut missing = Vec::new();
        let mut ended = Vec::new();
        for step in lists.steps(Event::InitDone) {
            match step {
                Step::Kept => kept += 1,
                Step::Missing(object) => missing.push(object),
                Step::End { gone } => ended.push(gone),
                _ => panic!("no other step"),
            }
        }
        missing.sort_by_key(|object| object.metadata.name.clone());
        assert_eq!((kept, missing.len()), (1, 2));
        ended
            .iter_mut()
            .for_each(|gone| gone.sort_by_key(|object| object.metadata.name.clone()));
        assert_eq!(ended, [missing]);
    }

    #[test]
    fn a_list_into_an_empty_store_is_compared_with_nothing() {
        let (store, _writer) = reflector::store::<ConfigMap>();
        let mut lists = Lists::new(store);
        let events = [Event::Init, Event::InitApply(config_map("a")), Event::InitDone];
        let steps: Vec<_> = events.into_iter().flat_map(|event| lists.steps(event)).collect();
        assert!(matches!(
            &steps[..],
            [Step::Begin, Step::Listed(_), Step::End { gone }] if gone.is_empty()
        ));
    }
}
