//! Removes fields from a value (`structured-merge-diff/typed/remove.go`).

use serde_json::Value;

use super::{field_set::FieldSet, path_element::PathElement, schema::Schema, view::View};

/// What remains of a map or list whose last part is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emptied {
    /// An empty map or list.
    Empty,
    /// Null, which is a field itself where an empty list is none.
    Null,
}

/// The value without the fields of a set, and without what is below them.
pub(super) fn remove(schema: Schema<'_>, value: &Value, set: &FieldSet, emptied: Emptied) -> Value {
    let one = |schema, part, step| remove_one(schema, part, set, &step, emptied);
    let (left, is_empty) = match View::of(schema, Some(value)) {
        View::Map(map) => {
            let kept = map.iter().filter_map(|(name, value)| {
                let kept = one(schema.field(name).schema, value, PathElement::field(name))?;
                Some((name.clone(), kept))
            });
            let kept: serde_json::Map<_, _> = kept.collect();
            let is_empty = kept.is_empty();
            (Value::Object(kept), is_empty)
        }
        View::List(list) => {
            let kept = list.iter().filter_map(|element| match schema.step_to(element) {
                Some(step) => one(schema.element(), element, step),
                None => Some(element.clone()),
            });
            let kept: Vec<_> = kept.collect();
            let is_empty = kept.is_empty();
            (Value::Array(kept), is_empty)
        }
        View::Missing | View::Null | View::Leaf => (value.clone(), false),
    };
    if is_empty && emptied == Emptied::Null {
        Value::Null
    } else {
        left
    }
}

/// The part at a step. None if it is removed.
fn remove_one(
    schema: Schema<'_>,
    part: &Value,
    set: &FieldSet,
    step: &PathElement,
    emptied: Emptied,
) -> Option<Value> {
    if set.contains(step) {
        return None;
    }
    Some(match set.below(step) {
        Some(below) => remove(schema, part, below, emptied),
        None => part.clone(),
    })
}
