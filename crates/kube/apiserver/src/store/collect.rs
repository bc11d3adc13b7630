//! The consequences of deletions: garbage collection by owner references as in the real controller
//! (`kube-controller-manager`, `pkg/controller/garbagecollector`), deletion of a namespace's contents, and of the
//! objects of a kind whose definition is deleted.
//!
//! A deletion queues checks instead of calling the next deletion, so a chain of owners of any length needs no
//! stack. Each check that changes anything removes an object, an owner reference or a finalizer, or marks an object
//! deleted. The store has finitely many of those, so the work is bounded.

use std::{collections::HashSet, sync::Arc};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    definition,
    key::{GroupResource, Key},
    object::{IndexKey, Object, metadata_mut, metadata_text},
    state::{Check, State},
    write::{FOREGROUND, ORPHAN, Propagation},
};

/// An owner reference.
struct OwnerReference {
    uid: String,
    /// The key of the owner. None if its kind is not served.
    key: Option<Key>,
    /// Whether foreground deletion of the owner waits for the dependent.
    blocking: bool,
}

/// The state of an owner, as garbage collection sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    /// It exists, or its kind is not served and cannot be looked up: the dependent stays.
    Solid,
    /// Deleted, but waiting for its dependents.
    Waiting,
    /// It does not exist.
    Absent,
}

impl State {
    /// Runs the queued checks until the queue is empty.
    pub(super) fn settle(&mut self, now: Timestamp) {
        while let Some(check) = self.checks.pop_first() {
            match check {
                Check::NewDependent(key) => {
                    let absent = |owner: &OwnerReference| self.owner_state(owner, None) == OwnerState::Absent;
                    let orphan = self.get(&key).is_some_and(|object| {
                        !object.deleting && self.owner_references(object).iter().all(absent)
                    });
                    if orphan {
                        self.delete_dependent(now, &key, Propagation::Background);
                    }
                }
                Check::Dependents(uid) => {
                    for dependent in self.dependents_of(&uid) {
                        self.review_dependent(now, &dependent, &uid);
                    }
                }
                Check::Owner(key) => self.review_owner(now, &key),
                Check::Definition(name) => self.review_definition(now, &name),
                Check::Namespace(name) => self.review_namespace(now, &name),
            }
        }
    }

    /// The owner references of an object, with the key of each owner. An owner is in the dependent's namespace, or in
    /// none if its kind is cluster-scoped.
    fn owner_references(&self, object: &Object) -> Vec<OwnerReference> {
        self.owner_references_in(&object.value())
    }

    fn owner_references_in(&self, object: &Value) -> Vec<OwnerReference> {
        let references = object["metadata"]["ownerReferences"].as_array();
        references
            .into_iter()
            .flatten()
            .map(|reference| {
                let text = |field: &str| reference[field].as_str().unwrap_or_default();
                let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
                let defined = || {
                    let mut kinds = self.defined.values();
                    kinds.find(|kind| kind.group == group && kind.kind == text("kind"))
                };
                let kind = self.registry.named(group, text("kind")).or_else(defined);
                OwnerReference {
                    uid: text("uid").to_owned(),
                    key: kind.map(|kind| Key {
                        resource: kind.group_resource(),
                        namespace: if kind.namespaced {
                            metadata_text(object, "namespace")
                        } else {
                            ""
                        }
                        .to_owned(),
                        name: text("name").to_owned(),
                    }),
                    blocking: reference["blockOwnerDeletion"] == true,
                }
            })
            .collect()
    }

    /// Queues checks of the deleted owners of a dependent, which may have been the last one that they waited for.
    pub(super) fn check_owners(&mut self, dependent: &Value) {
        for owner in self
            .owner_references_in(dependent)
            .into_iter()
            .filter_map(|owner| owner.key)
        {
            if self.get(&owner).is_some_and(|found| found.deleting) {
                self.checks.insert(Check::Owner(owner));
            }
        }
    }

    /// The state of an owner; `gone` is a uid that is known not to exist.
    fn owner_state(&self, owner: &OwnerReference, gone: Option<&str>) -> OwnerState {
        if gone == Some(owner.uid.as_str()) {
            return OwnerState::Absent;
        }
        let Some(key) = &owner.key else {
            return OwnerState::Solid;
        };
        match self.get(key).filter(|found| *found.uid == *owner.uid) {
            None => OwnerState::Absent,
            Some(found) if owner.blocking && found.deleting && has_finalizer(found, FOREGROUND) => {
                OwnerState::Waiting
            }
            Some(_) => OwnerState::Solid,
        }
    }

    /// An owner of the object is gone or waits for it. Without another owner the object is deleted; otherwise its
    /// references to those owners are removed.
    fn review_dependent(&mut self, now: Timestamp, key: &Key, gone: &str) {
        let Some(object) = self.get(key).cloned() else {
            return;
        };
        let owners = self.owner_references(&object);
        let states: Vec<_> = owners
            .iter()
            .map(|owner| self.owner_state(owner, Some(gone)))
            .collect();
        if states.contains(&OwnerState::Solid) {
            let solid: HashSet<&str> = owners
                .iter()
                .zip(&states)
                .filter(|(_, state)| **state == OwnerState::Solid)
                .map(|(owner, _)| owner.uid.as_str())
                .collect();
            self.retain_in(key, "ownerReferences", |reference| {
                reference["uid"].as_str().is_some_and(|uid| solid.contains(uid))
            });
            return;
        }
        if object.deleting {
            return;
        }
        let waited_for = states.contains(&OwnerState::Waiting) && self.dependents.contains_key(&object.uid);
        if waited_for {
            let circle = self.dependents_of(&object.uid).iter().any(|dependent| {
                self.get(dependent)
                    .is_some_and(|found| found.deleting && has_finalizer(found, FOREGROUND))
            });
            if circle {
                // Two owners that wait for each other would wait forever. Like the real collector, unblock one.
                self.rewrite(key, unblock_owners);
            }
            self.delete_dependent(now, key, Propagation::Foreground);
        } else {
            self.delete_dependent(now, key, Propagation::Background);
        }
    }

    fn delete_dependent(&mut self, now: Timestamp, key: &Key, propagation: Propagation) {
        if let Some(object) = self.get(key).cloned() {
            self.start_delete(now, key, &object, propagation);
        }
    }

    /// A deleted owner is removed when its dependents are gone or no longer refer to it.
    fn review_owner(&mut self, now: Timestamp, key: &Key) {
        let Some(owner) = self.get(key).filter(|object| object.deleting).cloned() else {
            return;
        };
        if has_finalizer(&owner, ORPHAN) {
            for dependent in self.dependents_of(&owner.uid) {
                self.retain_in(&dependent, "ownerReferences", |reference| {
                    reference["uid"].as_str() != Some(&owner.uid)
                });
            }
            self.retain_in(key, "finalizers", |finalizer| finalizer != ORPHAN);
        } else if has_finalizer(&owner, FOREGROUND) {
            for dependent in self.blocking_dependents(&owner.uid) {
                self.review_dependent(now, &dependent, "");
            }
            if self.blocking_dependents(&owner.uid).is_empty() {
                self.retain_in(key, "finalizers", |finalizer| finalizer != FOREGROUND);
            }
        }
    }

    fn review_definition(&mut self, now: Timestamp, name: &str) {
        let Some(resource) = definition::defined_by(self, name) else {
            return;
        };
        for key in self.keys_not_deleted(&resource, None) {
            self.delete_dependent(now, &key, Propagation::Background);
        }
        if self.list(&resource, None).is_empty() {
            self.retain_in(&definition::key_of(name), "finalizers", |finalizer| {
                finalizer != definition::CLEANUP
            });
        }
    }

    fn review_namespace(&mut self, now: Timestamp, name: &str) {
        let resources: Vec<_> = self
            .collections
            .iter()
            .filter(|(_, collection)| collection.objects.contains_key(name))
            .map(|(resource, _)| resource.clone())
            .collect();
        for resource in resources {
            for key in self.keys_not_deleted(&resource, Some(name)) {
                self.delete_dependent(now, &key, Propagation::Background);
            }
        }
        let namespace = Key::new("", "namespaces", "", name);
        let ready = self
            .get(&namespace)
            .is_some_and(|found| found.deleting && !found.has_finalizers);
        if ready && !self.holds_content(&namespace) {
            self.remove(&namespace);
        }
    }

    fn keys_not_deleted(&self, resource: &GroupResource, namespace: Option<&str>) -> Vec<Key> {
        let objects = self.list(resource, namespace);
        let key = |object: &Arc<Object>| object.key(resource);
        objects
            .iter()
            .filter(|object| !object.deleting)
            .map(key)
            .collect()
    }

    fn dependents_of(&self, uid: &str) -> Vec<Key> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .map(IndexKey::key)
            .collect()
    }

    fn blocking_dependents(&self, uid: &str) -> Vec<Key> {
        let mut keys = self.dependents_of(uid);
        keys.retain(|key| {
            self.get(key).is_some_and(|dependent| {
                self.owner_references(dependent)
                    .iter()
                    .any(|owner| owner.uid == uid && owner.blocking)
            })
        });
        keys
    }

    /// Keeps the elements of a metadata list that `keep` accepts. A deleted object is removed when no finalizers are
    /// left.
    fn retain_in(&mut self, key: &Key, field: &str, keep: impl Fn(&Value) -> bool) {
        self.rewrite(key, |value| {
            let metadata = metadata_mut(value);
            let Some(list) = metadata.get_mut(field).and_then(Value::as_array_mut) else {
                return false;
            };
            let before = list.len();
            list.retain(keep);
            let changed = list.len() < before;
            if list.is_empty() {
                metadata.remove(field);
            }
            changed
        });
        let ready = self
            .get(key)
            .is_some_and(|object| object.deleting && !object.has_finalizers);
        if ready && !self.holds_content(key) {
            self.remove(key);
        }
    }
}

fn has_finalizer(object: &Object, name: &str) -> bool {
    object.has_finalizers
        && object.value()["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|list| list.iter().any(|f| f == name))
}

fn unblock_owners(value: &mut Value) -> bool {
    let references = metadata_mut(value)
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut);
    let mut changed = false;
    for reference in references.into_iter().flatten().filter_map(Value::as_object_mut) {
        changed |= reference.insert("blockOwnerDeletion".to_owned(), false.into()) == Some(true.into());
    }
    changed
}
