//! Who owns the fields of an object after a write.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{object::metadata_mut, prepare::MANAGED_FIELDS};
use crate::{
    apply::{KindSchema, Managers, Versions, Writer, are_same_but_for_times, is_reset, update},
    registry::ResourceType,
};

/// How a write changes `metadata.managedFields`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ownership<'a> {
    /// Not at all: the owner of the store writes.
    Kept,
    /// The writer gets the fields that it changes, once something was applied to the object.
    Updated(&'a Writer<'a>),
    /// The new object has them already: something was applied to it.
    Applied,
}

/// The `managedFields` of a written object.
pub(super) struct Written<'a> {
    pub(super) kind: &'a ResourceType,
    pub(super) before: &'a Value,
    /// The new object, without `managedFields`.
    pub(super) next: &'a Value,
    /// The `managedFields` that the new object came with.
    pub(super) given: Option<Value>,
    pub(super) now: Timestamp,
}

impl Written<'_> {
    /// The `managedFields` to store. Objects to which nothing was applied have none, and cost nothing here.
    pub(super) fn managed_fields(
        self,
        ownership: Ownership<'_>,
        schema: impl FnMut(&str) -> KindSchema,
    ) -> Option<Value> {
        let stored = managed_fields(self.before);
        match ownership {
            Ownership::Kept => stored.cloned(),
            Ownership::Applied => self.given,
            Ownership::Updated(_) if stored.is_none() && self.given.is_none() => None,
            Ownership::Updated(writer) => {
                let mut managers = managers(stored, self.given.as_ref(), writer);
                managers.retain_versions(&self.kind.api_versions());
                if managers.is_empty() {
                    return None;
                }
                self.updated(managers, writer, schema).write()
            }
        }
    }
}

impl Written<'_> {
    /// The managers after an update, which is compared in the version of its writer.
    fn updated(
        &self,
        managers: Managers,
        writer: &Writer<'_>,
        mut schema: impl FnMut(&str) -> KindSchema,
    ) -> Managers {
        let mut before = self.before.clone();
        metadata_mut(&mut before).remove(MANAGED_FIELDS);
        let mut of_version = |api_version: &str| schema(api_version.rsplit('/').next().unwrap_or_default());
        if self.kind.conversion.is_none() {
            let schema = of_version(writer.api_version);
            return update(schema.root(), &before, self.next, managers, writer, self.now);
        }
        let api_versions = self.kind.api_versions().into_iter();
        let schemas: BTreeMap<_, _> = api_versions
            .map(|api_version| (api_version.clone(), of_version(&api_version)))
            .collect();
        let versions = Versions {
            kind: &self.kind.kind,
            conversion: self.kind.conversion,
            schemas: &schemas,
            live: &before,
            api_version: writer.api_version,
        };
        let [old, new] = [&before, self.next].map(|object| {
            // What cannot be converted is compared as it is stored.
            self.kind
                .converted(object, writer.api_version)
                .unwrap_or_else(|_| object.clone())
        });
        let inward = versions.inward(&managers);
        let schema = of_version(writer.api_version);
        let after = update(schema.root(), &old, &new, inward.clone(), writer, self.now);
        versions.outward(&managers, &inward, after)
    }
}

/// The `managedFields` of an object.
pub(crate) fn managed_fields(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get(MANAGED_FIELDS)
}

pub(super) fn set_managed_fields(value: &mut Value, managed_fields: Option<Value>) {
    if let Some(managed_fields) = managed_fields {
        metadata_mut(value).insert(MANAGED_FIELDS.to_owned(), managed_fields);
    }
}

/// Whether an update changes nothing. The times of the managers alone are no change
/// (`apiserver/pkg/endpoints/handlers/fieldmanager/equality.go`).
pub(super) fn is_same(before: &Value, next: &Value) -> bool {
    match (managed_fields(before), managed_fields(next)) {
        (Some(old), Some(new)) if old != new && are_same_but_for_times(old, new) => {
            let mut with_old_times = next.clone();
            set_managed_fields(&mut with_old_times, Some(old.clone()));
            *before == with_old_times
        }
        _ => before == next,
    }
}

/// The managers before an update. A client may reset or change them, but not through a subresource. What it does not
/// send or sends malformed stays as it is (`decodeLiveOrNew` in `managedfields/internal/fieldmanager.go`).
fn managers(stored: Option<&Value>, given: Option<&Value>, writer: &Writer<'_>) -> Managers {
    let given = given.filter(|_| writer.subresource.is_empty());
    if given.is_some_and(is_reset) {
        return Managers::default();
    }
    let given = Managers::of(given);
    if given.is_empty() {
        Managers::of(stored)
    } else {
        given
    }
}
