//! Sets of fields as JSON (`FieldsV1`, `structured-merge-diff/fieldpath/serialize.go`): each step is a name, and `.` is
//! the path itself. A step without anything below it is contained.

use serde_json::{Map, Value};
use thiserror::Error;

use super::{super::path_element::PathElement, FieldSet, Node};
use crate::depth::DEPTH_MAX;

const SELF: &str = ".";

/// Why a value is not a set of fields.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum FieldsError {
    /// A part of it is not an object.
    #[error("a set of fields is not an object")]
    NoObject,
    /// A name in it is not a step.
    #[error("{0:?} is not a path element")]
    Step(String),
    /// Its paths are longer than those of any object.
    #[error("a set of fields nests deeper than {DEPTH_MAX} levels")]
    TooDeep,
}

impl FieldSet {
    /// Reads a set.
    ///
    /// # Errors
    /// When it is malformed or has longer paths than any object.
    pub(crate) fn read(value: &Value) -> Result<Self, FieldsError> {
        Ok(read_node(value, DEPTH_MAX)?.below)
    }

    /// The set as JSON.
    pub(crate) fn write(&self) -> Value {
        Value::Object(self.write_into(Map::new()))
    }

    fn write_into(&self, mut map: Map<String, Value>) -> Map<String, Value> {
        for (step, node) in &self.0 {
            let mut inner = Map::new();
            if node.contained && !node.below.is_empty() {
                inner.insert(SELF.to_owned(), Value::Object(Map::new()));
            }
            map.insert(step.write(), Value::Object(node.below.write_into(inner)));
        }
        map
    }
}

fn read_node(value: &Value, levels: usize) -> Result<Node, FieldsError> {
    let levels = levels.checked_sub(1).ok_or(FieldsError::TooDeep)?;
    let map = value.as_object().ok_or(FieldsError::NoObject)?;
    let mut node = Node {
        contained: map.contains_key(SELF),
        below: FieldSet::default(),
    };
    for (name, value) in map.iter().filter(|(name, _)| *name != SELF) {
        match PathElement::read(name) {
            None => return Err(FieldsError::Step(name.chars().take(64).collect())),
            // A later version of Kubernetes may know it.
            Some(None) => {}
            Some(Some(step)) => {
                let inner = read_node(value, levels)?;
                node.below.attach(step, inner.contained, inner.below);
            }
        }
    }
    node.contained |= node.below.is_empty();
    Ok(node)
}
