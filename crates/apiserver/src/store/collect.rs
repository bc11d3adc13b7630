//! What a deletion does to other objects: garbage collection by owner references, and a namespace's contents.

use std::collections::VecDeque;

use jiff::Timestamp;
use serde_json::Value;

use super::State;
use super::object::{Key, Object, metadata_mut};
use super::write::{DeleteOptions, FOREGROUND, ORPHAN};

impl State {
    /// Acts on the dependents of an object that is gone or going, and on its contents if it is a namespace. The work
    /// is bounded by the objects of the store: each is visited once per owner that it loses.
    pub(super) fn collect(&mut self, now: Timestamp, key: &Key, uid: &str) {
        let owner = self.get(key).filter(|object| *object.uid == *uid);
        let going = owner.as_ref().map(|object| finalizers(object));
        if going.as_ref().is_some_and(|finalizers| finalizers.iter().any(|f| f == ORPHAN)) {
            for dependent in self.dependents_of(uid) {
                self.drop_owner(&dependent, uid);
            }
            self.drop_finalizer(now, key, ORPHAN);
            return;
        }
        let foreground = going.as_ref().is_some_and(|finalizers| finalizers.iter().any(|f| f == FOREGROUND));
        if owner.is_none() || foreground {
            let mut queue = VecDeque::from(self.dependents_of(uid));
            while let Some(dependent) = queue.pop_front() {
                if !foreground && self.has_another_owner(&dependent, uid) {
                    self.drop_owner(&dependent, uid);
                    continue;
                }
                let deleting = self.get(&dependent).is_none_or(|object| object.deleting);
                if !deleting {
                    // It was found under this lock, so that the only refusal left is that it is gone already.
                    let _ = self.delete(now, &dependent, &DeleteOptions::default());
                }
            }
        }
        if foreground && self.dependents_of(uid).is_empty() {
            self.drop_finalizer(now, key, FOREGROUND);
        }
        if owner.is_some() && key.resource.resource == "namespaces" && key.resource.group.is_empty() {
            self.empty_namespace(now, key);
        }
    }

    /// A removed object may have been the last that an owner or a namespace waited for.
    pub(super) fn finish_waiting_owners(&mut self, now: Timestamp, gone: &Object) {
        for uid in &gone.owners {
            if self.dependents.contains_key(uid) {
                continue;
            }
            let waiting = self
                .collections
                .values()
                .flat_map(|collection| {
                    collection.objects.values().map(move |object| (collection.name.clone(), object))
                })
                .find(|(_, object)| object.uid == *uid && object.deleting && object.has_finalizers)
                .map(|(resource, object)| Key {
                    resource: (*resource).clone(),
                    namespace: object.namespace.to_string(),
                    name: object.name.to_string(),
                });
            if let Some(owner) = waiting {
                self.drop_finalizer(now, &owner, FOREGROUND);
            }
        }
        if !gone.namespace.is_empty() {
            let namespace = Key::new("", "namespaces", "", &gone.namespace);
            if self.get(&namespace).is_some_and(|object| object.deleting) {
                self.remove_if_empty(now, &namespace);
            }
        }
    }

    fn dependents_of(&self, uid: &str) -> Vec<Key> {
        self.dependents.get(uid).cloned().unwrap_or_default()
    }

    fn has_another_owner(&self, key: &Key, uid: &str) -> bool {
        let Some(object) = self.get(key) else { return false };
        let others: Vec<_> = object.owners.iter().filter(|owner| ***owner != *uid).collect();
        others.iter().any(|owner| {
            self.collections
                .values()
                .any(|collection| collection.objects.values().any(|other| other.uid == **owner))
        })
    }

    fn drop_owner(&mut self, key: &Key, uid: &str) {
        self.edit_metadata_list(key, "ownerReferences", |owner| owner["uid"] == uid);
    }

    fn drop_finalizer(&mut self, now: Timestamp, key: &Key, finalizer: &str) {
        self.edit_metadata_list(key, "finalizers", |other| other == finalizer);
        let ready = self.get(key).is_some_and(|object| object.deleting && !object.has_finalizers);
        if ready {
            self.remove(now, key);
        }
    }

    fn edit_metadata_list(&mut self, key: &Key, field: &str, drop: impl Fn(&Value) -> bool) {
        let Some(object) = self.get(key) else { return };
        let mut value = object.value();
        let metadata = metadata_mut(&mut value);
        let Some(list) = metadata.get_mut(field).and_then(Value::as_array_mut) else { return };
        let before = list.len();
        list.retain(|item| !drop(item));
        if list.len() == before {
            return;
        }
        if list.is_empty() {
            metadata.remove(field);
        }
        let version = self.next_version();
        metadata_mut(&mut value).insert("resourceVersion".to_owned(), version.to_string().into());
        self.put(key, Object::new(&value, version));
    }

    fn empty_namespace(&mut self, now: Timestamp, namespace: &Key) {
        let contents: Vec<Key> = self
            .collections
            .values()
            .flat_map(|collection| collection.objects.values().map(move |object| (&collection.name, object)))
            .filter(|(_, object)| *object.namespace == *namespace.name && !object.deleting)
            .map(|(resource, object)| Key {
                resource: (**resource).clone(),
                namespace: object.namespace.to_string(),
                name: object.name.to_string(),
            })
            .collect();
        for key in contents {
            let _ = self.delete(now, &key, &DeleteOptions::default());
        }
        self.remove_if_empty(now, namespace);
    }

    fn remove_if_empty(&mut self, now: Timestamp, namespace: &Key) {
        let in_use = self
            .collections
            .values()
            .any(|collection| collection.objects.values().any(|object| *object.namespace == *namespace.name));
        let ready = self.get(namespace).is_some_and(|object| object.deleting && !object.has_finalizers);
        if ready && !in_use {
            self.remove(now, namespace);
        }
    }
}

fn finalizers(object: &Object) -> Vec<String> {
    let value = object.value();
    let list = value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
