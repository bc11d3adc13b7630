//! A value as its schema sees it.

use serde_json::{Map, Value};

use super::schema::{ListType, Schema};

/// A value that may be missing.
#[derive(Clone, Copy, Debug)]
pub(super) enum View<'v> {
    Missing,
    /// Counts as an empty map or list beside a map or list.
    Null,
    /// A scalar, or a map or list that is one value.
    Leaf,
    Map(&'v Map<String, Value>),
    /// A list whose elements have steps of their own.
    List(&'v [Value]),
}

impl<'v> View<'v> {
    pub(super) fn of(schema: Schema<'_>, value: Option<&'v Value>) -> Self {
        match value {
            None => Self::Missing,
            Some(Value::Null) => Self::Null,
            Some(Value::Object(map)) if !schema.is_atomic_map() => Self::Map(map),
            Some(Value::Array(list)) if !matches!(schema.list_type(), ListType::Atomic) => Self::List(list),
            Some(_) => Self::Leaf,
        }
    }

    /// Whether it has parts with steps of their own. What has none is compared as a whole.
    pub(super) fn has_parts(self) -> bool {
        match self {
            Self::Missing | Self::Null | Self::Leaf => false,
            Self::Map(map) => !map.is_empty(),
            Self::List(list) => !list.is_empty(),
        }
    }

    /// The fields of a map, in order; none of everything else.
    pub(super) fn fields(self) -> impl Iterator<Item = (&'v String, &'v Value)> {
        match self {
            Self::Map(map) => Some(map),
            Self::Missing | Self::Null | Self::Leaf | Self::List(_) => None,
        }
        .into_iter()
        .flatten()
    }

    /// The field of a map.
    pub(super) fn get(self, name: &str) -> Option<&'v Value> {
        match self {
            Self::Map(map) => map.get(name),
            Self::Missing | Self::Null | Self::Leaf | Self::List(_) => None,
        }
    }

    /// The elements of a list; none of everything else.
    pub(super) fn elements(self) -> &'v [Value] {
        match self {
            Self::List(list) => list,
            Self::Missing | Self::Null | Self::Leaf | Self::Map(_) => &[],
        }
    }
}
