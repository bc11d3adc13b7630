//! A column: its heading and the function that makes its cells.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::age;

/// A column of a built-in kind.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) format: &'static str,
    /// Zero for the standard view, more for the wide one.
    pub(super) priority: u8,
    pub(super) cell: fn(Row<'_>) -> Value,
}

/// The input of a row: an object and the current time.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) object: &'a Value,
    pub(super) now: Timestamp,
}

impl Column {
    pub(super) const fn text(name: &'static str, cell: fn(Row<'_>) -> Value) -> Self {
        Self {
            name,
            kind: "string",
            format: "",
            priority: 0,
            cell,
        }
    }

    pub(super) const fn integer(name: &'static str, cell: fn(Row<'_>) -> Value) -> Self {
        Self {
            kind: "integer",
            ..Self::text(name, cell)
        }
    }

    pub(super) const fn truth(name: &'static str, cell: fn(Row<'_>) -> Value) -> Self {
        Self {
            kind: "boolean",
            ..Self::text(name, cell)
        }
    }

    /// The same, for the wide view only.
    pub(super) const fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }

    pub(super) const NAME: Self = Self {
        format: "name",
        ..Self::text("Name", |row| row.metadata("name").clone())
    };

    pub(super) const AGE: Self = Self::text("Age", |row| row.age_of(row.metadata("creationTimestamp")));

    pub(super) fn definition(&self) -> Value {
        json!({"name": self.name, "type": self.kind, "format": self.format, "description": "",
               "priority": self.priority})
    }
}

impl<'a> Row<'a> {
    pub(super) fn metadata(self, field: &str) -> &'a Value {
        &self.object["metadata"][field]
    }

    pub(super) fn spec(self, field: &str) -> &'a Value {
        &self.object["spec"][field]
    }

    pub(super) fn status(self, field: &str) -> &'a Value {
        &self.object["status"][field]
    }

    /// The age of an instant. `<unknown>` if it is missing.
    pub(super) fn age_of(self, since: &Value) -> Value {
        age(since.as_str(), self.now).into()
    }
}
