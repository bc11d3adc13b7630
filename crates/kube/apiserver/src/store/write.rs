//! Creates, updates and deletes objects.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Store, definition,
    error::StoreError,
    key::Key,
    object::{Object, metadata_mut, metadata_text},
    ownership::{Ownership, Written, is_same, set_managed_fields},
    prepare,
    state::{Check, State},
    validate,
};
use crate::{apply::Writer, parse_cost::LARGE_BYTES, registry::ResourceType, time::time};

/// Which part of an object an update may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything except status, if status has its own subresource.
    Main,
    /// Only status.
    Status,
    /// Everything: for the owner of the store, not for clients.
    Whole,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after it.
    #[default]
    Background,
    /// They are deleted before it.
    Foreground,
    /// They stay, without the owner reference.
    Orphan,
}

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// What happens to the dependents.
    pub propagation: Propagation,
    /// Delete only the object with this uid.
    pub uid: Option<String>,
    /// Delete only the object at this version.
    pub resource_version: Option<u64>,
}

/// The result of a deletion.
#[derive(Clone, Debug)]
pub enum Deletion {
    /// The object is gone; this was its last state.
    Gone(Arc<Object>),
    /// The object waits for its finalizers.
    Pending(Arc<Object>),
}

/// The finalizer that keeps an object until its dependents are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an object until its dependents no longer refer to it.
pub(super) const ORPHAN: &str = "orphan";

/// Namespaces that the real server creates at its start and that cannot be deleted.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// A change of an object.
type Edit<'a, E> = Box<dyn FnOnce(Value) -> Result<Value, E> + 'a>;

impl Store {
    /// Stores a new object. `value` is complete except for the fields that the server sets. A given `metadata.uid` or
    /// `creationTimestamp` is kept; clients may not set them. With an empty name in `key`, the name is generated from
    /// `metadata.generateName`.
    ///
    /// # Errors
    /// When the name is taken, the kind is not served, the namespace does not exist or the object is not valid.
    pub fn create(&self, now: Timestamp, key: &Key, value: Value) -> Result<Arc<Object>, StoreError> {
        self.change(now, |state| {
            state.create(&self.uid_seed, now, key, value, Ownership::Kept)
        })
    }

    /// As [`Store::create`], for a client. A dry run stores nothing.
    pub(crate) fn create_as(
        &self,
        now: Timestamp,
        key: &Key,
        value: Value,
        dry_run: bool,
        writer: &Writer<'_>,
    ) -> Result<Arc<Object>, StoreError> {
        let ownership = Ownership::Updated(writer);
        if dry_run {
            let (_, _, object) = self
                .state
                .lock()
                .prepare_new(&self.uid_seed, now, key, value, ownership)?;
            return Ok(Arc::new(object));
        }
        self.change(now, |state| {
            state.create(&self.uid_seed, now, key, value, ownership)
        })
    }

    /// Creates the default namespaces of a real server that are missing.
    pub fn create_default_namespaces(&self, now: Timestamp) {
        for name in NAMESPACES {
            match self.create(now, &Key::new("", "namespaces", "", name), json!({})) {
                Ok(_) | Err(StoreError::AlreadyExists { .. }) => {}
                Err(error) => panic!("a namespace with a valid name is refused only if it exists: {error}"),
            }
        }
    }

    /// Replaces an object, or a part of it, by the result of `edit`. `edit` runs under the lock and must be quick. If
    /// the result equals the stored object, nothing is written and the version stays the same.
    ///
    /// # Errors
    /// The error of `edit`, or an error when the object does not exist or the result is not valid.
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
        self.change(now, |state| {
            state.edit(now, key, part, dry_run, Ownership::Kept, edit)
        })
    }

    /// As [`Store::update`], for a client.
    pub(crate) fn update_as<E: From<StoreError>>(
        &self,
        now: Timestamp,
        key: &Key,
        part: Part,
        dry_run: bool,
        writer: &Writer<'_>,
        edit: impl FnOnce(Value) -> Result<Value, E>,
    ) -> Result<Arc<Object>, E> {
        let edit = self.outside(key, edit)?;
        self.change(now, |state| {
            state.edit(now, key, part, dry_run, Ownership::Updated(writer), edit)
        })
    }

    /// Runs the edit of a large object before the store is locked, so that no request waits for it. If another request changes
    /// the object meanwhile, the edit fails.
    fn outside<'a, E: From<StoreError> + 'a>(
        &self,
        key: &Key,
        edit: impl FnOnce(Value) -> Result<Value, E> + 'a,
    ) -> Result<Edit<'a, E>, E> {
        let Some(current) = self.get(key).filter(|object| object.bytes.len() > LARGE_BYTES) else {
            return Ok(Box::new(edit));
        };
        let next = edit(current.value())?;
        let Key { resource, name, .. } = key.clone();
        let version = current.resource_version.to_string();
        Ok(Box::new(move |current| {
            if metadata_text(&current, "resourceVersion") == version {
                return Ok(next);
            }
            let message = "the object has been modified; please apply your changes to the latest version and \
                           try again";
            Err(StoreError::Conflict {
                resource,
                name,
                message: message.to_owned(),
            }
            .into())
        }))
    }

    /// Applies to an object: `edit` gets the stored object and returns the new one with its `managedFields`. Creates
    /// the object if it does not exist, but not for a subresource. Returns whether it did.
    pub(crate) fn apply<E: From<StoreError>>(
        &self,
        now: Timestamp,
        key: &Key,
        part: Part,
        dry_run: bool,
        edit: impl FnOnce(Option<Value>) -> Result<Value, E>,
    ) -> Result<(Arc<Object>, bool), E> {
        self.change(now, |state| {
            if part == Part::Status || state.get(key).is_some() {
                let edit = |current| edit(Some(current));
                let object = state.edit(now, key, part, dry_run, Ownership::Applied, edit)?;
                return Ok((object, false));
            }
            let value = edit(None)?;
            let object = if dry_run {
                let new = state.prepare_new(&self.uid_seed, now, key, value, Ownership::Applied)?;
                Arc::new(new.2)
            } else {
                state.create(&self.uid_seed, now, key, value, Ownership::Applied)?
            };
            Ok((object, true))
        })
    }

    /// Changes an object in place, including status. For the owner of the store.
    ///
    /// # Errors
    /// When the object does not exist, or is not valid afterwards.
    pub fn modify(
        &self,
        now: Timestamp,
        key: &Key,
        edit: impl FnOnce(&mut Value),
    ) -> Result<Arc<Object>, StoreError> {
        self.update(now, key, Part::Whole, false, |mut value| {
            edit(&mut value);
            Ok(value)
        })
    }

    /// Replaces an object, including status, whatever its resource version. For the owner of the store.
    ///
    /// # Errors
    /// When the object does not exist, or `value` is not valid.
    pub fn replace(&self, now: Timestamp, key: &Key, value: Value) -> Result<Arc<Object>, StoreError> {
        self.update(now, key, Part::Whole, false, |_| Ok(value))
    }

    /// Deletes an object, or marks it deleted while it has finalizers.
    ///
    /// # Errors
    /// When the object does not exist, or a precondition fails.
    pub fn delete(&self, now: Timestamp, key: &Key, options: &DeleteOptions) -> Result<Deletion, StoreError> {
        self.change(now, |state| {
            let object = state.check_delete(key, options)?;
            let gone = state.start_delete(now, key, &object, options.propagation);
            // The dependents or contents of the object may already be gone.
            state.settle(now);
            match state.get(key).filter(|left| left.uid == object.uid) {
                Some(left) => Ok(Deletion::Pending(left.clone())),
                None => Ok(Deletion::Gone(gone.unwrap_or(object))),
            }
        })
    }

    /// The object or the error that [`Store::delete`] would return, without deleting.
    ///
    /// # Errors
    /// As [`Store::delete`].
    pub fn delete_dry_run(&self, key: &Key, options: &DeleteOptions) -> Result<Arc<Object>, StoreError> {
        self.state.lock().check_delete(key, options)
    }
}

impl State {
    fn kind(&self, key: &Key) -> Result<Arc<ResourceType>, StoreError> {
        self.resource_type(&key.resource)
            .cloned()
            .ok_or(StoreError::UnknownResource)
    }

    fn create(
        &mut self,
        seed: &str,
        now: Timestamp,
        key: &Key,
        value: Value,
        ownership: Ownership<'_>,
    ) -> Result<Arc<Object>, StoreError> {
        let (kind, key, object) = self.prepare_new(seed, now, key, value, ownership)?;
        self.admit_bytes(object.bytes.len(), ownership)?;
        let object = self.put(&key, object);
        if !object.owners.is_empty() {
            self.checks.insert(Check::NewDependent(key.clone()));
        }
        self.note_event(now, &key, &object);
        definition::written(self, &kind, &object);
        Ok(object)
    }

    /// All steps of a creation before the object is stored.
    fn prepare_new(
        &mut self,
        seed: &str,
        now: Timestamp,
        key: &Key,
        mut value: Value,
        ownership: Ownership<'_>,
    ) -> Result<(Arc<ResourceType>, Key, Object), StoreError> {
        let kind = self.kind(key)?;
        let version = self.version + 1;
        let mut key = key.clone();
        if key.name.is_empty() {
            let prefix = metadata_text(&value, "generateName");
            if !prefix.is_empty() {
                let basis = prepare::uid(seed, &key.resource.resource, &key.namespace, prefix, version);
                key.name = prepare::generate_name(prefix, &basis);
            }
        }
        if kind.namespaced {
            self.admit_to_namespace(&key)?;
        } else {
            key.namespace.clear();
        }
        if self.get(&key).is_some() {
            return Err(StoreError::AlreadyExists {
                resource: key.resource,
                name: key.name,
            });
        }
        let given = prepare::tidy_metadata(&mut value);
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
        metadata
            .entry("creationTimestamp")
            .or_insert_with(|| time(now).into());
        if kind.generation {
            metadata.insert("generation".to_owned(), 1.into());
        }
        metadata.insert("resourceVersion".to_owned(), version.to_string().into());
        prepare::set_type(&kind, &mut value);
        if is_namespaces(&key) {
            prepare::complete_namespace(&mut value);
        }
        validate::validate(&kind, &value)?;
        if kind.is_definition() {
            definition::complete(&mut value, now);
        }
        let before = json!({});
        let written = Written {
            kind: &kind,
            before: &before,
            next: &value,
            given,
            now,
        };
        let managed_fields = written.managed_fields(ownership, |version| self.schema_of(&kind, version));
        set_managed_fields(&mut value, managed_fields);
        let object = Object::of_client(&value, version)?;
        Ok((kind, key, object))
    }

    /// Whether clients may store so many bytes more. What the owner of the store makes is bounded by what it is made for.
    fn admit_bytes(&self, more: usize, ownership: Ownership<'_>) -> Result<(), StoreError> {
        let is_client = !matches!(ownership, Ownership::Kept);
        let is_full = self.bytes.saturating_add(more) > self.bytes_max;
        if is_client && more > 0 && is_full {
            Err(StoreError::NoSpace)
        } else {
            Ok(())
        }
    }

    /// Checks the namespace of a namespaced object, which must exist and not be deleted.
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

    /// Replaces an object, or a part of it, by the result of `edit`.
    fn edit<E: From<StoreError>>(
        &mut self,
        now: Timestamp,
        key: &Key,
        part: Part,
        dry_run: bool,
        ownership: Ownership<'_>,
        edit: impl FnOnce(Value) -> Result<Value, E>,
    ) -> Result<Arc<Object>, E> {
        let kind = self.kind(key)?;
        let current = self.get(key).cloned().ok_or_else(|| not_found(key))?;
        let before = current.value();
        let next = edit(before.clone())?;
        let update = Update {
            key,
            kind: &kind,
            current: &current,
            before: &before,
            part,
            dry_run,
            ownership,
        };
        Ok(self.update(now, &update, next)?)
    }

    fn update(
        &mut self,
        now: Timestamp,
        update: &Update<'_>,
        mut next: Value,
    ) -> Result<Arc<Object>, StoreError> {
        let Update {
            key,
            kind,
            current,
            before,
            part,
            dry_run,
            ownership,
        } = *update;
        let given = prepare::tidy_metadata(&mut next);
        match part {
            Part::Main if kind.status => prepare::copy_field(before, &mut next, "status"),
            Part::Status => {
                let mut whole = before.clone();
                prepare::copy_field(&next, &mut whole, "status");
                next = whole;
            }
            Part::Main | Part::Whole => {}
        }
        metadata_mut(&mut next).remove(prepare::MANAGED_FIELDS);
        prepare::keep_server_metadata(before, &mut next);
        prepare::set_type(kind, &mut next);
        let metadata = metadata_mut(&mut next);
        metadata.insert(
            "resourceVersion".to_owned(),
            current.resource_version.to_string().into(),
        );
        let written = Written {
            kind,
            before,
            next: &next,
            given,
            now,
        };
        let managed_fields = written.managed_fields(ownership, |version| self.schema_of(kind, version));
        set_managed_fields(&mut next, managed_fields);
        if is_same(before, &next) {
            return Ok(current.clone());
        }
        validate::validate(kind, &next)?;
        validate::validate_update(kind, before, &next)?;
        if kind.is_definition() {
            definition::complete(&mut next, now);
        }
        if kind.generation && !prepare::desires_the_same(kind, before, &next) {
            bump_generation(&mut next);
        }
        let version = if dry_run {
            current.resource_version
        } else {
            self.version + 1
        };
        metadata_mut(&mut next).insert("resourceVersion".to_owned(), version.to_string().into());
        let object = match (Object::of_client(&next, version), ownership) {
            (Err(StoreError::TooLarge { .. }), Ownership::Updated(_)) => {
                // As in the real server, an update does not fail because of what it does not contain.
                metadata_mut(&mut next).remove(prepare::MANAGED_FIELDS);
                Object::of_client(&next, version)?
            }
            (object, _) => object?,
        };
        self.admit_bytes(object.bytes.len().saturating_sub(current.bytes.len()), ownership)?;
        if dry_run {
            return Ok(Arc::new(object));
        }
        if object.deleting && !object.has_finalizers && !self.holds_content(key) {
            // The last finalizer was removed. As in the real server, this deletes the object and creates no version of
            // its own.
            self.remove(key);
            return Ok(Arc::new(object));
        }
        let stored = self.put(key, object);
        if stored.owners != current.owners && !stored.owners.is_empty() {
            self.checks.insert(Check::NewDependent(key.clone()));
        }
        if !current.owners.is_empty() {
            self.check_owners(before);
        }
        self.note_event(now, key, &stored);
        definition::written(self, kind, &stored);
        Ok(stored)
    }

    fn check_delete(&self, key: &Key, options: &DeleteOptions) -> Result<Arc<Object>, StoreError> {
        self.kind(key)?;
        let object = self.get(key).ok_or_else(|| not_found(key))?;
        let conflict = |message: String| {
            Err(StoreError::Conflict {
                resource: key.resource.clone(),
                name: key.name.clone(),
                message,
            })
        };
        if is_namespaces(key) && NAMESPACES.contains(&key.name.as_str()) {
            return Err(StoreError::Forbidden {
                resource: key.resource.clone(),
                name: key.name.clone(),
                message: "this namespace may not be deleted".to_owned(),
            });
        }
        match (&options.uid, options.resource_version) {
            (Some(uid), _) if **uid != *object.uid => conflict(format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                object.uid
            )),
            (_, Some(version)) if version != object.resource_version => conflict(format!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
                object.resource_version
            )),
            _ => Ok(object.clone()),
        }
    }

    /// Removes the object at once and returns its last state, or marks it deleted and queues a check.
    pub(super) fn start_delete(
        &mut self,
        now: Timestamp,
        key: &Key,
        object: &Object,
        propagation: Propagation,
    ) -> Option<Arc<Object>> {
        let has_dependents = self.dependents.contains_key(&object.uid);
        let mut finalizer = match propagation {
            Propagation::Foreground if has_dependents => Some(FOREGROUND),
            Propagation::Orphan if has_dependents => Some(ORPHAN),
            _ => None,
        };
        let mut check = finalizer.map(|_| Check::Owner(key.clone()));
        let contents = self.holds_content(key);
        if contents && is_namespaces(key) {
            check = Some(Check::Namespace(key.name.clone()));
        } else if contents {
            finalizer = Some(definition::CLEANUP);
            check = Some(Check::Definition(key.name.clone()));
        }
        if check.is_none() && !object.has_finalizers {
            return self.remove(key);
        }
        self.rewrite(key, |value| {
            let metadata = metadata_mut(value);
            let mut changed = false;
            if !metadata.contains_key("deletionTimestamp") {
                metadata.insert("deletionTimestamp".to_owned(), time(now).into());
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
            if changed {
                bump_generation(value);
                if is_namespaces(key) {
                    value["status"] = json!({"phase": "Terminating"});
                }
            }
            changed
        });
        self.checks.extend(check);
        None
    }

    /// Stores an object after `edit` changed it, if `edit` returns true.
    pub(super) fn rewrite(&mut self, key: &Key, edit: impl FnOnce(&mut Value) -> bool) {
        let Some(object) = self.get(key) else { return };
        let mut value = object.value();
        if edit(&mut value) {
            let version = self.version + 1;
            metadata_mut(&mut value).insert("resourceVersion".to_owned(), version.to_string().into());
            self.put(key, Object::new(&value, version));
        }
    }

    /// Removes an object for good and queues the resulting checks.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Arc<Object>> {
        let gone = self.take(key)?;
        definition::removed(self, key, &gone);
        if self.dependents.contains_key(&gone.uid) {
            self.checks.insert(Check::Dependents(gone.uid.clone()));
        }
        if !gone.owners.is_empty() {
            self.check_owners(&gone.value());
        }
        if !gone.namespace.is_empty() {
            let namespace = Key::new("", "namespaces", "", &gone.namespace);
            if self.get(&namespace).is_some_and(|found| found.deleting) {
                self.checks.insert(Check::Namespace(namespace.name));
            }
        }
        if self.registry.get(&key.resource).is_none() {
            let name = definition::name_of(&key.resource);
            if self
                .get(&definition::key_of(&name))
                .is_some_and(|found| found.deleting)
            {
                self.checks.insert(Check::Definition(name));
            }
        }
        Some(gone)
    }

    /// Whether the object contains others: a namespace with objects in it, or a definition whose kind has objects.
    pub(super) fn holds_content(&self, key: &Key) -> bool {
        is_namespaces(key)
            && self
                .collections
                .values()
                .any(|c| c.objects.contains_key(key.name.as_str()))
            || key.resource == *definition::COLLECTION && definition::in_use(self, &key.name)
    }
}

/// One update, as [`State::update`] needs it.
#[derive(Clone, Copy)]
struct Update<'a> {
    key: &'a Key,
    kind: &'a ResourceType,
    current: &'a Arc<Object>,
    before: &'a Value,
    part: Part,
    dry_run: bool,
    ownership: Ownership<'a>,
}

pub(super) fn is_namespaces(key: &Key) -> bool {
    key.resource.group.is_empty() && key.resource.resource == "namespaces"
}

fn bump_generation(value: &mut Value) {
    let metadata = metadata_mut(value);
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata.insert("generation".to_owned(), generation.saturating_add(1).into());
    }
}

pub(super) fn not_found(key: &Key) -> StoreError {
    StoreError::NotFound {
        resource: key.resource.clone(),
        name: key.name.clone(),
    }
}
