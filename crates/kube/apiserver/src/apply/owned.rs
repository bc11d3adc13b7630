//! The fields of a value (`structured-merge-diff/typed/tofieldset.go`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{field_set::FieldSet, path_element::PathElement, schema::Schema, view::View};

/// The fields that an applier of `value` owns: the values that are not merged further, the elements of merged
/// lists, and the fields of maps that have no name in the schema.
pub(super) fn fields_of(schema: Schema<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match View::of(schema, Some(value)) {
        View::Map(map) => {
            for (name, value) in map {
                let child = schema.field(name);
                let contained = match View::of(child.schema, Some(value)) {
                    View::Map(map) => map.is_empty() || !child.named,
                    View::List(_) => !child.named,
                    View::Leaf | View::Null | View::Missing => true,
                };
                set.attach(
                    PathElement::field(name),
                    contained,
                    fields_of(child.schema, value),
                );
            }
        }
        View::List(list) => {
            let mut elements: BTreeMap<PathElement, Vec<&Value>> = BTreeMap::new();
            for element in list {
                if let Some(step) = schema.step_to(element) {
                    elements.entry(step).or_default().push(element);
                }
            }
            for (step, elements) in elements {
                // Elements with the same step are one value.
                let below = match elements[..] {
                    [one] => fields_of(schema.element(), one),
                    _ => FieldSet::default(),
                };
                set.attach(step, true, below);
            }
        }
        View::Missing | View::Null | View::Leaf => {}
    }
    set
}

/// The set together with the named fields on its paths. Owners do not own those, but they exist for them only.
pub(super) fn with_named(schema: Schema<'_>, set: &FieldSet) -> FieldSet {
    let mut wider = FieldSet::default();
    for (step, contained, below) in set.nodes() {
        let (inner, named) = match step {
            PathElement::Field(name) => {
                let child = schema.field(name);
                (child.schema, child.named)
            }
            PathElement::Key(_) => (schema.element(), false),
            PathElement::Value(_) | PathElement::Index(_) => (Schema::Unknown, false),
        };
        let contained = contained || named && !below.is_empty();
        wider.attach(step.clone(), contained, with_named(inner, below));
    }
    wider
}
