//! What differs between two versions of an object (`structured-merge-diff/typed/compare.go`).

use std::collections::BTreeMap;

use serde_json::Value;

use super::{field_set::FieldSet, path_element::PathElement, schema::Schema, view::View};

/// The fields that differ. No field is in two of the sets, unless a list has an element twice.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub(crate) removed: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) added: FieldSet,
}

/// What happened to a value as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Same,
    Removed,
    Modified,
    Added,
}

/// Compares two versions of the value of a schema.
pub(crate) fn compare(schema: Schema<'_>, old: &Value, new: &Value) -> Comparison {
    walk(schema, Some(old), Some(new)).1
}

/// What happened to a value, and to its parts.
fn walk(schema: Schema<'_>, old: Option<&Value>, new: Option<&Value>) -> (Change, Comparison) {
    let mut parts = Comparison::default();
    let before = View::of(schema, old);
    let after = View::of(schema, new);
    let whole = match (old, new) {
        (None, None) => return (Change::Same, parts),
        (None, Some(_)) => Change::Added,
        (Some(_), None) => Change::Removed,
        (Some(old), Some(new)) => {
            let same = match (before, after) {
                // A map and a list have nothing in common; an empty one has no parts that would show it.
                (View::Map(map), View::List(list)) | (View::List(list), View::Map(map)) => {
                    !map.is_empty() && !list.is_empty()
                }
                (View::Leaf, _) | (_, View::Leaf) => old == new,
                _ => old == new || before.has_parts() || after.has_parts(),
            };
            if same { Change::Same } else { Change::Modified }
        }
    };
    if before.has_parts() || after.has_parts() {
        compare_fields(schema, before, after, &mut parts);
        compare_elements(schema, before, after, &mut parts);
    }
    (whole, parts)
}

fn compare_fields(schema: Schema<'_>, before: View<'_>, after: View<'_>, parts: &mut Comparison) {
    let added = after.fields().filter(|(name, _)| before.get(name).is_none());
    for (name, _) in before.fields().chain(added) {
        let child = schema.field(name);
        let (mut change, inner) = walk(child.schema, before.get(name), after.get(name));
        if child.always_there && matches!(change, Change::Added | Change::Removed) {
            change = Change::Same;
        }
        parts.attach(PathElement::field(name), change, inner);
    }
}

fn compare_elements(schema: Schema<'_>, before: View<'_>, after: View<'_>, parts: &mut Comparison) {
    let mut elements: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for element in before.elements() {
        if let Some(step) = schema.step_to(element) {
            elements.entry(step).or_default().0.push(element);
        }
    }
    for element in after.elements() {
        if let Some(step) = schema.step_to(element) {
            elements.entry(step).or_default().1.push(element);
        }
    }
    for (step, (old, new)) in elements {
        // Elements with the same step are one value.
        let several = match (&old[..], &new[..]) {
            ([] | [_], [] | [_]) => None,
            ([_, _, ..], [_, _, ..]) if old == new => Some(Change::Same),
            ([_, _, ..], [_, _, ..]) => Some(Change::Modified),
            ([_, _, ..], _) => Some(Change::Removed),
            (_, [_, _, ..]) => Some(Change::Added),
        };
        let (change, inner) = walk(schema.element(), single(&old), single(&new));
        parts.attach(step.clone(), change, inner);
        if let Some(change) = several {
            parts.attach(step, change, Comparison::default());
        }
    }
}

fn single<'v>(list: &[&'v Value]) -> Option<&'v Value> {
    match list {
        [one] => Some(one),
        _ => None,
    }
}

impl Comparison {
    /// Adds the differences of a part.
    fn attach(&mut self, step: PathElement, change: Change, inner: Self) {
        self.removed
            .attach(step.clone(), change == Change::Removed, inner.removed);
        self.modified
            .attach(step.clone(), change == Change::Modified, inner.modified);
        self.added.attach(step, change == Change::Added, inner.added);
    }
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values read best when passed as they are"
)]
mod tests {
    use serde_json::json;

    use super::{
        super::{custom_schema::CustomSchema, schema::KindSchema},
        *,
    };

    /// Removed, modified and added paths.
    fn changes(schema: Schema<'_>, old: Value, new: Value) -> [String; 3] {
        let Comparison {
            removed,
            modified,
            added,
        } = compare(schema, &old, &new);
        [removed, modified, added].map(|set| set.shown(9, 99).join(" "))
    }

    #[test]
    fn change_of_a_map_is_that_of_its_fields() {
        for (old, new, expected) in [
            (json!({"a": {"b": 1}}), json!({"a": {"b": 2}}), ["", ".a.b", ""]),
            (
                json!({"a": {"b": 1}}),
                json!({"a": {"c": 1}}),
                [".a.b", "", ".a.c"],
            ),
            (json!({}), json!({"a": {"b": 1}}), ["", "", ".a .a.b"]),
            (json!({"a": {"b": 1}}), json!({"a": {}}), [".a.b", "", ""]),
            (json!({"a": {}}), json!({"a": null}), ["", ".a", ""]),
            (json!({"a": {"b": 1}}), json!({"a": 1}), [".a.b", ".a", ""]),
            (json!({"a": [1]}), json!({"a": [1, 2]}), ["", ".a", ""]),
        ] {
            assert_eq!(
                changes(Schema::Unknown, old.clone(), new.clone()),
                expected,
                "{old} to {new}"
            );
        }
    }

    #[test]
    fn change_of_a_list_is_that_of_its_elements() {
        let list = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"]});
        let schema = CustomSchema::of_kind(&json!({"properties": {"l": list}}));
        let of = |list: Value| json!({ "l": list });
        for (old, new, expected) in [
            (
                json!([{"n": 1}, {"n": 2}]),
                json!([{"n": 2}, {"n": 1}]),
                ["", "", ""],
            ),
            (
                json!([{"n": 1, "a": 1}]),
                json!([{"n": 1, "a": 2}]),
                ["", ".l[n=1].a", ""],
            ),
            (
                json!([{"n": 1}]),
                json!([{"n": 2}]),
                [".l[n=1] .l[n=1].n", "", ".l[n=2] .l[n=2].n"],
            ),
            (
                json!([{"n": 1}]),
                json!([{"n": 1}, {"n": 1, "a": 1}]),
                [".l[n=1] .l[n=1].n", "", ".l[n=1]"],
            ),
            (
                json!([{"n": 1}, {"n": 1}]),
                json!([{"n": 1}, {"n": 1, "a": 1}]),
                ["", ".l[n=1]", ""],
            ),
            (json!([{"a": 1}]), json!([7]), ["", "", ""]),
        ] {
            let seen = changes(Schema::Custom(&schema), of(old.clone()), of(new.clone()));
            assert_eq!(seen, expected, "{old} to {new}");
        }
    }

    /// In Go, the spec is a struct that is always there, and the selector and the labels are pointers and maps.
    #[test]
    fn struct_of_a_built_in_kind_is_always_there() {
        let kind = KindSchema::built_in("apps", "Deployment");
        let new =
            json!({"metadata": {"labels": {"l": "v"}}, "spec": {"selector": {"matchLabels": {"l": "v"}}}});
        let expected = ["", "", ".metadata.labels .metadata.labels.l .spec.selector"];
        assert_eq!(changes(kind.root(), json!({}), new), expected);
    }
}
