//! The schema of a custom kind, as far as server-side apply needs it (`kube-openapi/pkg/schemaconv`).

use serde_json::Value;

use super::path_element::canonical;
use crate::protobuf::{ListKey, Relation};

/// A part of a custom kind. Objects with `metadata` of their own are the kind itself and embedded resources.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CustomSchema {
    object: bool,
    relation: Option<Relation>,
    fields: Box<[(Box<str>, CustomSchema)]>,
    /// Fields that have no name in the schema.
    rest: Option<Box<CustomSchema>>,
    items: Option<Box<CustomSchema>>,
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
                    ..CustomSchema::default()
                }
            );
        }
    }
}
