//! Who owns the fields that an update changes (`structured-merge-diff/merge/update.go`).

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    compare::compare,
    field_set::FieldSet,
    managers::{Managed, ManagerId, Managers, Operation},
    path_element::PathElement,
    schema::Schema,
};

/// The manager of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    /// The version of its objects.
    pub(crate) api_version: &'a str,
    /// The subresource that it writes, empty for none.
    pub(crate) subresource: &'a str,
}

impl Writer<'_> {
    pub(super) fn id(&self, operation: Operation) -> ManagerId {
        let manager = if self.manager.is_empty() {
            "unknown"
        } else {
            self.manager
        };
        ManagerId::new(operation, manager, self.api_version, self.subresource)
    }
}

/// Fields that no manager owns, because the server does (`stripmeta.go`).
static SERVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let mut set = FieldSet::default();
    for field in ["apiVersion", "kind", "metadata"] {
        set.insert(&[PathElement::field(field)]);
    }
    for field in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        set.insert(&[PathElement::field("metadata"), PathElement::field(field)]);
    }
    set
});

pub(super) fn without_server_owned(fields: &FieldSet) -> FieldSet {
    fields.difference(&SERVER_OWNED)
}

/// The managers after `writer` changed `live` to `new`: it owns what it changed or added, and what is gone has no owner.
/// If it changed nothing, nothing is different.
pub(crate) fn update(
    schema: Schema<'_>,
    live: &Value,
    new: &Value,
    mut managers: Managers,
    writer: &Writer<'_>,
    now: Timestamp,
) -> Managers {
    let changes = compare(schema, live, new);
    let changed = changes.modified.union(&changes.added);
    managers.take(&changed);
    managers.take(&changes.removed);
    let fields = without_server_owned(&changed);
    if !fields.is_empty() {
        let api_version = writer.api_version.to_owned();
        managers.put(
            writer.id(Operation::Update),
            Managed {
                api_version,
                time: Some(now),
                fields,
            },
        );
    }
    managers.join_old_updates();
    managers
}
