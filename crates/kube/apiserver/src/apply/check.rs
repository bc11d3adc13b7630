//! Checks the lists of an applied object (`structured-merge-diff/typed/validate.go`).

use std::collections::BTreeSet;

use serde_json::Value;
use thiserror::Error;

use super::{
    path_element::PathElement,
    schema::{ListType, Schema},
    view::View,
};

/// How many bytes of a path or of an element an error shows.
const SHOWN_MAX: usize = 1024;

/// Why an applied list cannot be merged.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum ListError {
    /// Two elements are the same.
    #[error("{path}: duplicate entries for key {element}")]
    Duplicate { path: String, element: String },
    /// An element of a set is not a scalar.
    #[error("{path}: element {index}: associative list without keys has an element that is not a scalar")]
    NoScalar { path: String, index: usize },
    /// An element of a list of maps is not a map.
    #[error("{path}: element {index}: associative list with keys may not have non-map elements")]
    NoMap { path: String, index: usize },
    /// Nothing identifies an element.
    #[error(
        "{path}: element {index}: associative list with keys has an element that omits all key fields {keys} (and doesn't have default values for any key fields)"
    )]
    NoKeys {
        path: String,
        index: usize,
        keys: String,
    },
}

/// Checks that the elements of all merged lists can be told apart.
///
/// # Errors
/// The first list in which they cannot.
pub(super) fn check(schema: Schema<'_>, value: &Value) -> Result<(), ListError> {
    walk(schema, value, &mut Vec::new())
}

fn walk(schema: Schema<'_>, value: &Value, path: &mut Vec<PathElement>) -> Result<(), ListError> {
    match View::of(schema, Some(value)) {
        View::Map(map) => {
            for (name, value) in map {
                path.push(PathElement::field(name));
                walk(schema.field(name).schema, value, path)?;
                path.pop();
            }
        }
        View::List(list) => {
            let mut seen = BTreeSet::new();
            for (index, element) in list.iter().enumerate() {
                let step = schema
                    .step_to(element)
                    .ok_or_else(|| unknown(schema, element, index, path))?;
                if !seen.insert(step.clone()) {
                    let element = cut(step.to_string());
                    return Err(ListError::Duplicate {
                        path: shown(path),
                        element,
                    });
                }
                path.push(step);
                walk(schema.element(), element, path)?;
                path.pop();
            }
        }
        View::Missing | View::Null | View::Leaf => {}
    }
    Ok(())
}

fn unknown(schema: Schema<'_>, element: &Value, index: usize, path: &[PathElement]) -> ListError {
    let path = shown(path);
    match schema.list_type() {
        ListType::By(keys) if element.is_object() => {
            let keys: Vec<_> = keys.iter().map(|key| &*key.name).collect();
            ListError::NoKeys {
                path,
                index,
                keys: format!("{keys:?}"),
            }
        }
        ListType::By(_) => ListError::NoMap { path, index },
        ListType::Set | ListType::Atomic => ListError::NoScalar { path, index },
    }
}

fn shown(path: &[PathElement]) -> String {
    let mut text = String::new();
    for step in path {
        text = cut(text + &step.to_string());
    }
    text
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(SHOWN_MAX));
    text
}
