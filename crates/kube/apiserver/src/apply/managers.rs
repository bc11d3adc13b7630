//! Who owns which fields of an object: `metadata.managedFields`
//! (`apimachinery/pkg/util/managedfields/internal/managedfields.go`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};
use thiserror::Error;

use super::field_set::{FieldSet, FieldsError};
use crate::time::time;

/// How many managers may have updates; the oldest are joined (`DefaultMaxUpdateManagers`).
const UPDATERS_MAX: usize = 10;

/// The manager that gets the fields of joined updates.
const ANCIENT: &str = "ancient-changes";

/// How a manager writes fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// What distinguishes the entries of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ManagerId {
    pub(crate) operation: Operation,
    pub(crate) name: String,
    /// Empty for appliers, who stay the same when they change to another version.
    version: String,
    pub(crate) subresource: String,
}

impl ManagerId {
    pub(crate) fn new(operation: Operation, name: &str, api_version: &str, subresource: &str) -> Self {
        let version = match operation {
            Operation::Apply => String::new(),
            Operation::Update => api_version.to_owned(),
        };
        Self {
            operation,
            name: name.to_owned(),
            version,
            subresource: subresource.to_owned(),
        }
    }
}

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Managed {
    pub(crate) api_version: String,
    /// When the manager last changed something.
    pub(crate) time: Option<Timestamp>,
    pub(crate) fields: FieldSet,
}

/// All managers of an object. No set is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Managers(pub(super) BTreeMap<ManagerId, Managed>);

/// Why `managedFields` cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum ManagersError {
    /// It is not a list of objects.
    #[error("managedFields is not a list of objects")]
    NoList,
    /// A field of an entry has a wrong value.
    #[error("failed to read {0} of an entry of managedFields")]
    Field(&'static str),
    /// The fields of an entry cannot be read.
    #[error("failed to read the fields of an entry of managedFields")]
    Fields(#[source] FieldsError),
}

impl Managers {
    /// Reads `managedFields`.
    ///
    /// # Errors
    /// When an entry is malformed.
    pub(crate) fn read(value: &Value) -> Result<Self, ManagersError> {
        let mut managers = BTreeMap::new();
        for entry in value.as_array().ok_or(ManagersError::NoList)? {
            let entry = entry.as_object().ok_or(ManagersError::NoList)?;
            let (id, managed) = read_entry(entry)?;
            if !managed.fields.is_empty() {
                managers.insert(id, managed);
            }
        }
        Ok(Self(managers))
    }

    /// The managers of an object. None if it has no `managedFields`, or if they are malformed: a client or an older
    /// record may have written them, and they must not be in the way of other writes.
    pub(crate) fn of(managed_fields: Option<&Value>) -> Self {
        managed_fields
            .and_then(|value| Self::read(value).ok())
            .unwrap_or_default()
    }

    /// `managedFields`: appliers first, then by time and name. None if nothing has an owner.
    pub(crate) fn write(&self) -> Option<Value> {
        let mut entries: Vec<_> = self.0.iter().collect();
        entries.sort_by_key(|(id, managed)| {
            let seconds = managed.time.map_or(0, Timestamp::as_second);
            (
                id.operation,
                seconds,
                &id.name,
                &managed.api_version,
                &id.subresource,
            )
        });
        let entries: Vec<_> = entries
            .into_iter()
            .map(|(id, managed)| write_entry(id, managed))
            .collect();
        (!entries.is_empty()).then_some(Value::Array(entries))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets managers of versions that are not served any more. Their fields cannot be compared.
    pub(crate) fn retain_versions(&mut self, served: &[String]) {
        self.0.retain(|_, managed| served.contains(&managed.api_version));
    }

    /// Takes fields from all managers.
    pub(super) fn take(&mut self, fields: &FieldSet) {
        if !fields.is_empty() {
            for managed in self.0.values_mut() {
                managed.fields = managed.fields.difference(fields);
            }
            self.0.retain(|_, managed| !managed.fields.is_empty());
        }
    }

    /// Joins the oldest updates of a version when too many managers have some (`capmanagers.go`).
    pub(super) fn join_old_updates(&mut self) {
        let is_update = |id: &ManagerId| id.operation == Operation::Update;
        let mut updates: Vec<_> = self.0.iter().filter(|(id, _)| is_update(id)).collect();
        let mut count = updates.len();
        updates.sort_by_key(|(id, managed)| (managed.time.map_or(0, Timestamp::as_second), *id));
        let updates: Vec<ManagerId> = updates.into_iter().map(|(id, _)| id.clone()).collect();
        let mut first_of: BTreeMap<String, ManagerId> = BTreeMap::new();
        for id in updates {
            if count <= UPDATERS_MAX {
                return;
            }
            let version = id.version.clone();
            let Some(first) = first_of.get(&version) else {
                first_of.insert(version, id);
                continue;
            };
            let bucket = ManagerId::new(Operation::Update, ANCIENT, &version, "");
            for joined in [first, &id] {
                if *joined != bucket
                    && let Some(managed) = self.0.remove(joined)
                {
                    count -= usize::from(self.0.contains_key(&bucket));
                    self.put(bucket.clone(), managed);
                }
            }
        }
    }

    /// Adds fields to a manager, which gets the time and version of the addition.
    pub(super) fn put(&mut self, id: ManagerId, mut managed: Managed) {
        if let Some(previous) = self.0.get(&id) {
            managed.fields.add(&previous.fields);
        }
        self.0.insert(id, managed);
    }
}

/// Whether `managedFields` in a request say that nothing has an owner: an empty list, or one empty entry
/// (`isResetManagedFields`).
pub(crate) fn is_reset(value: &Value) -> bool {
    match value.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(Value::is_null),
        _ => false,
    }
}

/// Whether two versions of `managedFields` differ in their times at most.
pub(crate) fn are_same_but_for_times(a: &Value, b: &Value) -> bool {
    let (Ok(mut a), Ok(mut b)) = (Managers::read(a), Managers::read(b)) else {
        return a == b;
    };
    for managed in a.0.values_mut().chain(b.0.values_mut()) {
        managed.time = None;
    }
    a == b
}

fn read_entry(entry: &Map<String, Value>) -> Result<(ManagerId, Managed), ManagersError> {
    let text = |field: &'static str| match entry.get(field) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(ManagersError::Field(field)),
    };
    let operation = match text("operation")? {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err(ManagersError::Field("operation")),
    };
    let api_version = Some(text("apiVersion")?).filter(|version| !version.is_empty());
    let api_version = api_version.ok_or(ManagersError::Field("apiVersion"))?;
    if text("fieldsType")? != "FieldsV1" {
        return Err(ManagersError::Field("fieldsType"));
    }
    let time = match text("time")? {
        "" => None,
        time => Some(time.parse().map_err(|_| ManagersError::Field("time"))?),
    };
    let fields = match entry.get("fieldsV1") {
        None | Some(Value::Null) => FieldSet::default(),
        Some(fields) => FieldSet::read(fields).map_err(ManagersError::Fields)?,
    };
    let id = ManagerId::new(operation, text("manager")?, api_version, text("subresource")?);
    Ok((
        id,
        Managed {
            api_version: api_version.to_owned(),
            time,
            fields,
        },
    ))
}

fn write_entry(id: &ManagerId, managed: &Managed) -> Value {
    let operation = match id.operation {
        Operation::Apply => "Apply",
        Operation::Update => "Update",
    };
    let time = managed.time.map(time).unwrap_or_default();
    let mut entry = Map::new();
    for (field, text) in [
        ("manager", id.name.as_str()),
        ("operation", operation),
        ("apiVersion", &managed.api_version),
        ("time", &time),
        ("fieldsType", "FieldsV1"),
        ("subresource", &id.subresource),
    ] {
        if !text.is_empty() {
            entry.insert(field.to_owned(), text.into());
        }
    }
    entry.insert("fieldsV1".to_owned(), managed.fields.write());
    Value::Object(entry)
}

#[cfg(test)]
mod tests;
