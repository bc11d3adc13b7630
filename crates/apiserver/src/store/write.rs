//! Creating, updating and deleting.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::error::StoreError;
use super::object::{Key, Object, metadata_mut, metadata_text};
use super::prepare;
use super::{State, Store, definition};
use crate::registry::ResourceType;

/// Which part of an object an update may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but status, where status has its own subresource.
    Main,
    /// Status alone.
    Status,
    /// Everything: for the owner of the store, not for its clients.
    Whole,
}

/// What becomes of the objects that a deleted one owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They go after it.
    #[default]
    Background,
    /// They go before it.
    Foreground,
    /// They stay, without the owner.
    Orphan,
}

/// How to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// What becomes of dependents.
    pub propagation: Propagation,
    /// Delete only the object with this uid.
    pub uid: Option<String>,
    /// Delete only this version.
    pub resource_version: Option<u64>,
}

/// What a deletion did.
#[derive(Clone, Debug)]
pub enum Deletion {
    /// The object is gone; this was its last state.
    Gone(Arc<Object>),
    /// The object waits for its finalizers.
    Pending(Arc<Object>),
}

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

impl Store {
    /// Stores a new object. `value` is whole but for what the server writes; `metadata.uid` and `creationTimestamp`
    /// are kept when the caller gives them, which clients may not.
    ///
    /// # Errors
    /// When the name is taken, the kind is not served, the namespace is not there or the object is not valid.
    pub fn create(&self, now: Timestamp, key: &Key, value: Value) -> Result<Arc<Object>, StoreError> {
        self.change(|state| {
            let created = state.create(&self.uid_seed, now, key, value)?;
            Ok(created)
        })
    }

    /// What [`Store::create`] would answer, without storing.
    ///
    /// # Errors
    /// As [`Store::create`].
    pub fn create_dry_run(&self, now: Timestamp, key: &Key, value: Value) -> Result<Arc<Object>, StoreError> {
        let mut state = self.state.lock();
        let kind = state.kind(key)?;
        let version = state.version;
        let (_, object) = state.prepare_new(&self.uid_seed, now, key, value, &kind, version)?;
        Ok(Arc::new(object))
    }

    /// Replaces (part of) an object by what `edit` makes of it. `edit` runs under the lock and must be quick.
    /// Nothing is written, and no version spent, when the outcome equals what is there.
    ///
    /// # Errors
    /// What `edit` says, or that the object is not there, or not valid afterwards.
    pub fn update<E>(
        &self,
        now: Timestamp,
        key: &Key,
        part: Part,
        dry_run: bool,
        edit: impl FnOnce(Value) -> Result<Value, E>,
    ) -> Result<Arc<Object>, E>
    where
        E: From<StoreError>,
    {
        self.change(|state| {
            let kind = state.kind(key)?;
            let current = state.get(key).ok_or_else(|| not_found(key))?;
            let before = current.value();
            let mut next = edit(before.clone())?;
            prepare::keep_server_metadata(&before, &mut next);
            match part {
                Part::Main if kind.status => copy_field(&before, &mut next, "status"),
                Part::Status => {
                    let status = next.get("status").cloned();
                    next = before.clone();
                    let object = next.as_object_mut().expect("stored objects are JSON objects");
                    match status {
                        Some(status) => object.insert("status".to_owned(), status),
                        None => object.remove("status"),
                    };
                }
                Part::Main | Part::Whole => {}
            }
            prepare::tidy_metadata(&mut next);
            let metadata = metadata_mut(&mut next);
            metadata.insert("resourceVersion".to_owned(), current.resource_version.to_string().into());
            if next == before {
                return Ok(current);
            }
            prepare::validate(&kind, &next)?;
            if kind.generation && !prepare::desires_the_same(&kind, &before, &next) {
                let generation = before["metadata"]["generation"].as_i64().unwrap_or(0);
                metadata_mut(&mut next).insert("generation".to_owned(), generation.saturating_add(1).into());
            }
            if dry_run {
                return Ok(Arc::new(Object::new(&next, current.resource_version)));
            }
            let version = state.next_version();
            metadata_mut(&mut next).insert("resourceVersion".to_owned(), version.to_string().into());
            let object = Object::new(&next, version);
            if object.deleting && !object.has_finalizers {
                // The last finalizer went: this was the object's last version.
                return Ok(state.remove(now, key).expect("the object was read under this lock"));
            }
            let stored = state.put(key, object);
            definition::served_kinds_changed(state, &kind, &stored);
            Ok(stored)
        })
    }

    /// Deletes an object, or marks it deleted while it has finalizers.
    ///
    /// # Errors
    /// When it is not there, or not the one that was meant.
    pub fn delete(&self, now: Timestamp, key: &Key, options: &DeleteOptions) -> Result<Deletion, StoreError> {
        self.change(|state| state.delete(now, key, options))
    }

    /// What [`Store::delete`] would refuse, and the object as it is.
    ///
    /// # Errors
    /// As [`Store::delete`].
    pub fn delete_dry_run(&self, key: &Key, options: &DeleteOptions) -> Result<Arc<Object>, StoreError> {
        self.state.lock().check_delete(key, options)
    }
}

impl State {
    pub(super) fn kind(&self, key: &Key) -> Result<Arc<ResourceType>, StoreError> {
        let collection = self.collections.get(&key.resource).ok_or(StoreError::UnknownResource)?;
        Ok(collection.kind.clone())
    }

    fn create(
        &mut self,
        seed: &str,
        now: Timestamp,
        key: &Key,
        value: Value,
    ) -> Result<Arc<Object>, StoreError> {
        let kind = self.kind(key)?;
        let version = self.version + 1;
        let (key, object) = self.prepare_new(seed, now, key, value, &kind, version)?;
        self.version = version;
        let object = self.put(&key, object);
        definition::served_kinds_changed(self, &kind, &object);
        Ok(object)
    }

    /// Everything that creating does short of storing.
    fn prepare_new(
        &mut self,
        seed: &str,
        now: Timestamp,
        key: &Key,
        mut value: Value,
        kind: &ResourceType,
        version: u64,
    ) -> Result<(Key, Object), StoreError> {
        let mut key = key.clone();
        if key.name.is_empty() {
            let prefix = metadata_text(&value, "generateName").to_owned();
            if !prefix.is_empty() {
                let basis = prepare::uid(seed, &key.resource.resource, &key.namespace, &prefix, version);
                // As the real server: a long prefix is cut so that the suffix fits into 63 characters.
                let cut =
                    prefix.char_indices().map(|(at, _)| at).take_while(|&at| at <= 58).last().unwrap_or(0);
                let prefix = if prefix.len() > 58 { &prefix[..cut] } else { &prefix };
                key.name = format!("{prefix}{}", prepare::name_suffix(&basis));
            }
        }
        if kind.namespaced {
            self.admit_to_namespace(&key)?;
        }
        if self.get(&key).is_some() {
            return Err(StoreError::AlreadyExists { resource: key.resource.clone(), name: key.name.clone() });
        }
        let metadata = metadata_mut(&mut value);
        metadata.insert("name".to_owned(), key.name.clone().into());
        if kind.namespaced {
            metadata.insert("namespace".to_owned(), key.namespace.clone().into());
        } else {
            metadata.remove("namespace");
        }
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
            metadata.remove(field);
        }
        metadata.entry("uid").or_insert_with(|| {
            prepare::uid(seed, &key.resource.resource, &key.namespace, &key.name, version).into()
        });
        metadata.entry("creationTimestamp").or_insert_with(|| prepare::time(now).into());
        if kind.generation {
            metadata.insert("generation".to_owned(), 1.into());
        }
        metadata.insert("resourceVersion".to_owned(), version.to_string().into());
        prepare::tidy_metadata(&mut value);
        match (&*kind.plural, kind.group.is_empty()) {
            ("namespaces", true) => complete_namespace(&mut value),
            ("customresourcedefinitions", _) => definition::complete(&mut value, now),
            _ => {}
        }
        prepare::validate(kind, &value)?;
        Ok((key, Object::new(&value, version)))
    }

    /// A namespaced object needs its namespace, and one that stays.
    fn admit_to_namespace(&self, key: &Key) -> Result<(), StoreError> {
        let namespace = Key::new("", "namespaces", "", &key.namespace);
        let found = self.get(&namespace).ok_or_else(|| not_found(&namespace))?;
        if found.deleting {
            return Err(StoreError::NamespaceTerminating {
                resource: key.resource.clone(),
                name: key.name.clone(),
                namespace: key.namespace.clone(),
            });
        }
        Ok(())
    }

    fn check_delete(&self, key: &Key, options: &DeleteOptions) -> Result<Arc<Object>, StoreError> {
        self.kind(key)?;
        let object = self.get(key).ok_or_else(|| not_found(key))?;
        let conflict = |message: String| {
            Err(StoreError::Conflict { resource: key.resource.clone(), name: key.name.clone(), message })
        };
        match (&options.uid, options.resource_version) {
            (Some(uid), _) if **uid != *object.uid => conflict(format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object.uid
            )),
            (_, Some(version)) if version != object.resource_version => conflict(format!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
                object.resource_version
            )),
            _ => Ok(object),
        }
    }

    pub(super) fn delete(
        &mut self,
        now: Timestamp,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<Deletion, StoreError> {
        let object = self.check_delete(key, options)?;
        let has_dependents = self.dependents.contains_key(&object.uid);
        let finalizer = match options.propagation {
            Propagation::Foreground if has_dependents => Some(FOREGROUND),
            Propagation::Orphan if has_dependents => Some(ORPHAN),
            _ => None,
        };
        let holds_content = key.resource.group.is_empty() && key.resource.resource == "namespaces";
        if finalizer.is_none() && !object.has_finalizers && !holds_content {
            let gone = self.remove(now, key).expect("the object was read under this lock");
            return Ok(Deletion::Gone(gone));
        }
        if !object.deleting || finalizer.is_some() {
            self.mark_deleted(now, key, finalizer);
        }
        self.collect(now, key, &object.uid);
        match self.get(key) {
            Some(pending) => Ok(Deletion::Pending(pending)),
            None => Ok(Deletion::Gone(object)),
        }
    }

    fn mark_deleted(&mut self, now: Timestamp, key: &Key, finalizer: Option<&str>) {
        let Some(object) = self.get(key) else { return };
        let mut value = object.value();
        let metadata = metadata_mut(&mut value);
        let mut changed = false;
        if !metadata.contains_key("deletionTimestamp") {
            metadata.insert("deletionTimestamp".to_owned(), prepare::time(now).into());
            metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            changed = true;
        }
        if let Some(finalizer) = finalizer {
            let list = metadata.entry("finalizers").or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut()
                && !list.iter().any(|other| other == finalizer)
            {
                list.push(finalizer.into());
                changed = true;
            }
        }
        if key.resource.resource == "namespaces" && key.resource.group.is_empty() {
            value["status"] = json!({"phase": "Terminating"});
        }
        if changed {
            let version = self.next_version();
            metadata_mut(&mut value).insert("resourceVersion".to_owned(), version.to_string().into());
            self.put(key, Object::new(&value, version));
        }
    }

    /// Takes an object away for good, and then what it owned alone.
    pub(super) fn remove(&mut self, now: Timestamp, key: &Key) -> Option<Arc<Object>> {
        let gone = self.take(key)?;
        definition::served_kind_removed(self, key, &gone);
        self.collect(now, key, &gone.uid);
        self.finish_waiting_owners(now, &gone);
        Some(gone)
    }
}

fn copy_field(from: &Value, to: &mut Value, field: &str) {
    if let Some(object) = to.as_object_mut() {
        match from.get(field) {
            Some(value) => object.insert(field.to_owned(), value.clone()),
            None => object.remove(field),
        };
    }
}

/// The label and phase that the real server's admission and registry give a namespace.
fn complete_namespace(value: &mut Value) {
    let name = metadata_text(value, "name").to_owned();
    let labels = metadata_mut(value).entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    if let Some(object) = value.as_object_mut() {
        object.entry("spec").or_insert_with(|| json!({"finalizers": ["kubernetes"]}));
        object.insert("status".to_owned(), json!({"phase": "Active"}));
    }
}

pub(super) fn not_found(key: &Key) -> StoreError {
    StoreError::NotFound { resource: key.resource.clone(), name: key.name.clone() }
}
