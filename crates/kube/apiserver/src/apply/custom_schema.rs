//! The schema of a custom kind, as far as server-side apply (`kube-openapi/pkg/schemaconv`) and `fieldValidation` need it.

use serde_json::Value;

use super::path_element::canonical;
use crate::protobuf::{ListKey, Relation, UnknownFields, of_metadata};

/// A part of a custom kind. Objects with `metadata` of their own are the kind itself and embedded resources.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CustomSchema {
    object: bool,
    relation: Option<Relation>,
    fields: Box<[(Box<str>, CustomSchema)]>,
    /// Fields that have no name in the schema.
    rest: Option<Box<CustomSchema>>,
    items: Option<Box<CustomSchema>>,
    /// Whether there may be fields that the schema does not name.
    open: bool,
}

impl CustomSchema {
    /// The schema of a kind, from the `openAPIV3Schema` of its definition.
    pub(crate) fn of_kind(schema: &Value) -> Self {
        Self {
            object: true,
            ..Self::read(schema)
        }
    }

    /// Recurses as deep as the definition, which is a stored object. What is malformed counts as missing.
    fn read(schema: &Value) -> Self {
        let truth = |field: &str| schema.get(field) == Some(&Value::Bool(true));
        let inner = |field: &str| schema.get(field).filter(|inner| inner.is_object());
        let mut fields: Box<[_]> = inner("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, field)| (name.as_str().into(), Self::read(field)))
            .collect();
        fields.sort_by(|(a, _): &(Box<str>, _), (b, _)| a.cmp(b));
        Self {
            object: truth("x-kubernetes-embedded-resource"),
            relation: relation(schema),
            fields,
            rest: inner("additionalProperties").map(|rest| Box::new(Self::read(rest))),
            items: inner("items").map(|items| Box::new(Self::read(items))),
            open: truth("x-kubernetes-preserve-unknown-fields")
                || truth("additionalProperties")
                || schema.get("type").is_none(),
        }
    }

    /// The paths of the fields of an object that its kind does not have, in order, as the pruning of a structural schema finds
    /// them (`apiextensions-apiserver/pkg/apiserver/schema/pruning`): [`FIELDS_MAX`](crate::protobuf::FIELDS_MAX) at most.
    pub(crate) fn unknown_fields(&self, object: &Value) -> Vec<String> {
        let mut unknown = UnknownFields::default();
        self.look_for_unknown(object, &mut unknown);
        unknown.found
    }

    /// Recurses no deeper than the object, whose depth is bounded.
    fn look_for_unknown(&self, value: &Value, unknown: &mut UnknownFields) {
        match value {
            Value::Object(fields) => unknown.each(fields, |unknown, name, value| {
                match name {
                    "apiVersion" | "kind" if self.object => return,
                    "metadata" if self.object => return of_metadata(unknown, value),
                    _ => {}
                }
                match self.field(name).or(self.rest()) {
                    Some(field) => field.look_for_unknown(value, unknown),
                    None if self.open => {}
                    None => unknown.tell(),
                }
            }),
            // A list may keep what its elements have.
            Value::Array(elements) if !self.open => {
                if let Some(items) = self.element() {
                    unknown.each_element(elements, |unknown, element| {
                        items.look_for_unknown(element, unknown);
                    });
                }
            }
            _ => {}
        }
    }

    /// Whether it has metadata as the objects of all kinds.
    pub(super) fn is_object(&self) -> bool {
        self.object
    }

    pub(super) fn relation(&self) -> Option<&Relation> {
        self.relation.as_ref()
    }

    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        let index = self
            .fields
            .binary_search_by(|(other, _)| (**other).cmp(name))
            .ok()?;
        Some(&self.fields[index].1)
    }

    pub(super) fn rest(&self) -> Option<&Self> {
        self.rest.as_deref()
    }

    pub(super) fn element(&self) -> Option<&Self> {
        self.items.as_deref()
    }
}

/// Without a word in the schema, lists are atomic and maps are not, as for parts without a schema.
fn relation(schema: &Value) -> Option<Relation> {
    let text = |field: &str| schema.get(field).and_then(Value::as_str);
    match (text("x-kubernetes-list-type"), text("x-kubernetes-map-type")) {
        (Some("set"), _) => Some(Relation::Set),
        (Some("map"), _) => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(Value::as_str);
            let default = |key: &str| schema.get("items")?.get("properties")?.get(key)?.get("default");
            Some(Relation::By(
                keys.map(|key| ListKey {
                    name: key.into(),
                    default: default(key).map(canonical),
                })
                .collect(),
            ))
        }
        (Some("atomic"), _) | (_, Some("atomic")) => Some(Relation::Atomic),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        super::schema::{ListType, Schema},
        *,
    };

    #[test]
    fn definition_says_how_lists_and_maps_are_merged() {
        let schema = CustomSchema::of_kind(&json!({"type": "object", "properties": {"spec": {"properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set"},
            "plain": {"type": "array"},
            "one": {"type": "object", "x-kubernetes-map-type": "atomic"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                      "items": {"properties": {"port": {}, "protocol": {"default": "TCP"}}}},
            "template": {"type": "object", "x-kubernetes-embedded-resource": true},
        }}}}));
        let spec = Schema::Custom(&schema).field("spec");
        assert!(spec.named && !spec.always_there);
        let field = |name: &str| spec.schema.field(name);
        assert!(matches!(field("set").schema.list_type(), ListType::Set));
        assert!(matches!(field("plain").schema.list_type(), ListType::Atomic));
        assert!(field("one").schema.is_atomic_map() && !field("labels").schema.is_atomic_map());
        assert!(!field("labels").schema.field("a").named && !field("unknown").named);
        let step = |element: Value| {
            field("ports")
                .schema
                .step_to(&element)
                .map(|step| step.to_string())
        };
        assert_eq!(
            step(json!({"port": 1})).as_deref(),
            Some("[port=1,protocol=\"TCP\"]")
        );
        assert_eq!(
            step(json!({"protocol": "UDP"})).as_deref(),
            Some("[protocol=\"UDP\"]")
        );
        assert_eq!(step(json!(1)), None);
        let has_finalizers = |object: Schema<'_>| {
            let finalizers = object.field("metadata").schema.field("finalizers");
            matches!(finalizers.schema.list_type(), ListType::Set)
        };
        assert!(has_finalizers(Schema::Custom(&schema)) && has_finalizers(field("template").schema));
        assert!(!has_finalizers(spec.schema));
    }

    #[test]
    fn fields_that_a_definition_does_not_name_are_unknown_unless_it_keeps_them() {
        let thing = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let schema = CustomSchema::of_kind(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "list": {"type": "array", "items": thing},
                "map": {"type": "object", "additionalProperties": thing},
                "any": {"type": "object", "additionalProperties": true},
                "kept": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": thing}},
                "port": {"x-kubernetes-int-or-string": true},
                "none": {"type": "object"},
                "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": thing}},
            }}}}),
        );
        let fields = json!({"name": "a", "nam": "b"});
        let object = json!({"apiVersion": "x.io/v1", "kind": "X", "metadata": {"nam": 1, "name": "x", "labels": {"any": ""}}, "specs": {}, "spec": {
            "list": [{}, fields], "map": {"m": fields}, "any": fields, "kept": {"known": fields, "new": 1}, "port": 1,
            "none": fields, "template": {"apiVersion": "v1", "kind": "Y", "metadata": fields, "spec": fields, "data": {}},
            "wrong": null,
        }});
        assert_eq!(
            schema.unknown_fields(&object),
            [
                "metadata.nam",
                "spec.kept.known.nam",
                "spec.list[1].nam",
                "spec.map.m.nam",
                "spec.none.nam",
                "spec.none.name",
                "spec.template.data",
                "spec.template.metadata.nam",
                "spec.template.spec.nam",
                "spec.wrong",
                "specs",
            ]
        );
        let anything = CustomSchema::of_kind(&Value::Null);
        assert_eq!(anything.unknown_fields(&object), ["metadata.nam"]);
    }

    #[test]
    fn malformed_schema_is_no_schema() {
        for schema in [
            json!(null),
            json!([]),
            json!({"properties": 1, "items": [1], "x-kubernetes-list-type": {}}),
        ] {
            assert_eq!(
                CustomSchema::of_kind(&schema),
                CustomSchema {
                    object: true,
                    open: true,
                    ..CustomSchema::default()
                }
            );
        }
    }
}
