//! Removes fields from a value (`structured-merge-diff/typed/remove.go`).

use serde_json::Value;

use super::field_set::FieldSet;
use super::path_element::PathElement;
use super::schema::Schema;
use super::view::View;

/// The value without the fields of a set, and without what is below them.
pub(super) fn remove(schema: Schema<'_>, value: &Value, set: &FieldSet) -> Value {
    match View::of(schema, Some(value)) {
        View::Map(map) => {
            let kept = map.iter().filter_map(|(name, value)| {
                let kept = remove_one(schema.field(name).schema, value, set, &PathElement::field(name))?;
                Some((name.clone(), kept))
            });
            Value::Object(kept.collect())
        }
        View::List(list) => {
            let kept = list.iter().filter_map(|element| match schema.step_to(element) {
                Some(step) => remove_one(schema.element(), element, set, &step),
                None => Some(element.clone()),
            });
            Value::Array(kept.collect())
        }
        View::Missing | View::Null | View::Leaf => value.clone(),
    }
}

/// The part at a step. None if it is removed.
fn remove_one(schema: Schema<'_>, part: &Value, set: &FieldSet, step: &PathElement) -> Option<Value> {
    if set.contains(step) {
        return None;
    }
    Some(match set.below(step) {
        Some(below) => remove(schema, part, below),
        None => part.clone(),
    })
}
