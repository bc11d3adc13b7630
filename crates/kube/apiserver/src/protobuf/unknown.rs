//! Fields of an object that its built-in kind does not have. Go's decoders drop them, and tell of them where the client asks
//! for it.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::schema::{Field, Message, Shape, is_kind, message};

/// How many fields are told (`maxStrictErrors` of sigs.k8s.io/json).
pub(crate) const FIELDS_MAX: usize = 100;
/// How many bytes of the path of each are told.
const PATH_MAX: usize = 256;

/// The paths of the fields of an object that its kind does not have, in order: [`FIELDS_MAX`] at most. None of a kind that has
/// no message. `api_version` is that of the kind, such as `apps/v1`.
pub(crate) fn unknown_fields(group: &str, api_version: &str, kind: &str, object: &Value) -> Vec<String> {
    let Some(message) = message(api_version, kind).or_else(|| message(group, kind)) else {
        return Vec::new();
    };
    let mut unknown = UnknownFields::default();
    of_message(&mut unknown, message, object);
    unknown.found
}

/// Looks at the metadata of an object of any kind.
pub(crate) fn of_metadata(unknown: &mut UnknownFields, metadata: &Value) {
    let field = message("", "ConfigMap").and_then(|message| message.named("metadata"));
    if let Some(message) = field.and_then(Field::message) {
        of_message(unknown, message, metadata);
    }
}

/// The paths of fields that a kind does not have, and where the search for them is.
#[derive(Debug, Default)]
pub(crate) struct UnknownFields {
    path: String,
    pub(crate) found: Vec<String>,
}

impl UnknownFields {
    /// Looks at each field of an object while there is room.
    pub(crate) fn each(
        &mut self,
        fields: &Map<String, Value>,
        mut look: impl FnMut(&mut Self, &str, &Value),
    ) {
        for (name, value) in fields {
            if self.found.len() == FIELDS_MAX {
                return;
            }
            let begin = self.path.len();
            if begin > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            look(self, name, value);
            self.path.truncate(begin);
        }
    }

    /// Looks at each element of a list.
    pub(crate) fn each_element(&mut self, elements: &[Value], mut look: impl FnMut(&mut Self, &Value)) {
        let begin = self.path.len();
        for (index, element) in elements.iter().enumerate() {
            let _ = write!(self.path, "[{index}]");
            look(self, element);
            self.path.truncate(begin);
        }
    }

    /// The kind does not have the field at which the search is.
    pub(crate) fn tell(&mut self) {
        let path = &self.path;
        let end = if path.len() > PATH_MAX { "…" } else { "" };
        self.found
            .push(format!("{}{end}", &path[..path.floor_char_boundary(PATH_MAX)]));
    }
}

/// A message nests no deeper than the object, whose depth is bounded.
fn of_message(unknown: &mut UnknownFields, message: &'static Message, value: &Value) {
    let Value::Object(fields) = value else { return };
    unknown.each(fields, |unknown, name, value| match message.named(name) {
        Some(field) => {
            if let Some(element) = field.element() {
                of_field(unknown, field.shape, element, value);
            }
        }
        None if is_known(message, name) => {}
        None => unknown.tell(),
    });
}

/// A field whose value, or the elements of which, are messages.
fn of_field(unknown: &mut UnknownFields, shape: Shape, message: &'static Message, value: &Value) {
    match (shape, value) {
        (Shape::One, value) => of_message(unknown, message, value),
        (Shape::List, Value::Array(elements)) => {
            unknown.each_element(elements, |unknown, element| of_message(unknown, message, element));
        }
        (Shape::Map, Value::Object(entries)) => {
            unknown.each(entries, |unknown, _, entry| of_message(unknown, message, entry));
        }
        _ => {}
    }
}

/// Whether a message that lacks the field has it all the same: the table leaves out the types of kinds, and who manages which
/// field.
fn is_known(message: &'static Message, name: &str) -> bool {
    match name {
        "apiVersion" | "kind" => is_kind(message),
        "managedFields" => message.name == "ObjectMeta",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_a_kind_does_not_have_are_found_with_their_paths() {
        let claim =
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "nam": 1}});
        let container = json!({"name": "c", "image": "i", "pullPolicy": "Always",
            "resources": {"limits": {"anything.example/x": "1"}}});
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": "s", "labels": {"any": "label"}, "managedFields": [{"x": 1}], "creationTimestamp": null},
            "spec": {
                "replica": 3, "volumeClaimTemplates": [claim],
                "template": {"metadata": {}, "spec": {"containers": [{"name": "a"}, container], "kind": "x"}},
            },
            "more": null,
        });
        assert_eq!(
            unknown_fields("apps", "apps/v1", "StatefulSet", &set),
            [
                "more",
                "spec.replica",
                "spec.template.spec.containers[1].pullPolicy",
                "spec.template.spec.kind",
                "spec.volumeClaimTemplates[0].metadata.nam",
            ]
        );
        let scaler = json!({"spec": {"metrics": [], "targetCPUUtilizationPercentage": 3}});
        let of = |version| unknown_fields("autoscaling", version, "HorizontalPodAutoscaler", &scaler);
        assert_eq!(
            (of("autoscaling/v1"), of("autoscaling/v2")),
            (
                vec!["spec.metrics".to_owned()],
                vec!["spec.targetCPUUtilizationPercentage".to_owned()]
            )
        );
        assert_eq!(
            unknown_fields("x.io", "x.io/v1", "Thing", &json!({"a": 1})),
            [""; 0]
        );
    }

    #[test]
    fn what_is_told_is_bounded() {
        let names =
            (0..2 * FIELDS_MAX).map(|index| (format!("{index:0>4}{}", "é".repeat(PATH_MAX)), json!(1)));
        let object = json!({"spec": names.collect::<serde_json::Map<_, _>>()});
        let found = unknown_fields("", "v1", "Pod", &object);
        assert_eq!(found.len(), FIELDS_MAX);
        assert!(
            found
                .iter()
                .all(|path| path.len() <= PATH_MAX + "…".len() && path.ends_with('…'))
        );
    }
}
