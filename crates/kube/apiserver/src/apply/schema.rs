//! What server-side apply knows of the parts of an object: which lists and maps are merged, and by what.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::{
    custom_schema::CustomSchema,
    path_element::{PathElement, canonical},
};
use crate::protobuf::{Field, ListKey, Message, Relation, message};

/// The schema of a kind.
#[derive(Clone, Debug)]
pub(crate) enum KindSchema {
    BuiltIn(&'static Message),
    Custom(Arc<CustomSchema>),
}

/// CustomResourceDefinitions are not in the table of messages, because no client sends them as protobuf. All their
/// lists are atomic but those of the metadata and the conditions (`apiextensions/v1/types.go`).
static DEFINITION: LazyLock<Arc<CustomSchema>> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let list = json!({"type": "array"});
    let names = json!({"type": "object", "properties": {
        "plural": text, "singular": text, "kind": text, "listKind": text, "shortNames": list, "categories": list}});
    let condition = json!({"type": "object", "properties": {
        "type": text, "status": text, "reason": text, "message": text, "lastTransitionTime": text,
        "observedGeneration": {"type": "integer"}}});
    let service = json!({"type": "object", "properties": {
        "name": text, "namespace": text, "path": text, "port": {"type": "integer"}}});
    let client = json!({"type": "object", "properties": {"url": text, "caBundle": text, "service": service}});
    let webhook =
        json!({"type": "object", "properties": {"clientConfig": client, "conversionReviewVersions": list}});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "group": text, "scope": text, "names": names, "versions": list,
            "preserveUnknownFields": {"type": "boolean"},
            "conversion": {"type": "object", "properties": {"strategy": text, "webhook": webhook}}}},
        "status": {"type": "object", "properties": {
            "acceptedNames": names, "storedVersions": list, "observedGeneration": {"type": "integer"},
            "conditions": {"type": "array", "items": condition, "x-kubernetes-list-type": "map",
                           "x-kubernetes-list-map-keys": ["type"]}}}}});
    Arc::new(CustomSchema::of_kind(&schema))
});

impl KindSchema {
    /// The schema of a built-in kind.
    pub(crate) fn built_in(group: &str, kind: &str) -> Self {
        message(group, kind).map_or_else(|| Self::Custom(DEFINITION.clone()), Self::BuiltIn)
    }

    /// The schema of the whole object.
    pub(crate) fn root(&self) -> Schema<'_> {
        match self {
            Self::BuiltIn(message) => Schema::Message(message),
            Self::Custom(schema) => Schema::Custom(schema),
        }
    }
}

/// The schema of one part of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Schema<'a> {
    /// Nothing is known: maps are merged field by field, lists are one value.
    Unknown,
    /// A built-in message.
    Message(&'static Message),
    /// A field of a built-in message.
    Field(&'static Field),
    /// A part of a custom kind.
    Custom(&'a CustomSchema),
}

/// A field of a map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child<'a> {
    pub(super) schema: Schema<'a>,
    /// Whether the schema names the field, as it does those of structs. Other maps have any fields.
    pub(super) named: bool,
    /// Whether an object without the field is the same as one where it is an empty map.
    pub(super) always_there: bool,
}

/// How a list is treated.
#[derive(Clone, Copy, Debug)]
pub(super) enum ListType<'a> {
    Atomic,
    Set,
    By(&'a [ListKey]),
}

impl<'a> Schema<'a> {
    fn relation(self) -> Option<&'a Relation> {
        match self {
            Schema::Unknown => None,
            Schema::Message(message) => message.is_atomic().then_some(&Relation::Atomic),
            Schema::Field(field) => Some(field.relation()),
            Schema::Custom(schema) => schema.relation(),
        }
    }

    pub(super) fn is_atomic_map(self) -> bool {
        self.relation() == Some(&Relation::Atomic)
    }

    pub(super) fn list_type(self) -> ListType<'a> {
        match self.relation() {
            Some(Relation::Set) => ListType::Set,
            Some(Relation::By(keys)) => ListType::By(keys),
            Some(Relation::Atomic | Relation::Granular) | None => ListType::Atomic,
        }
    }

    /// The elements of a list.
    pub(super) fn element(self) -> Schema<'a> {
        match self {
            Schema::Field(field) if !field.is_one() => {
                field.element().map_or(Schema::Unknown, Schema::Message)
            }
            Schema::Custom(schema) => schema.element().map_or(Schema::Unknown, Schema::Custom),
            Schema::Unknown | Schema::Message(_) | Schema::Field(_) => Schema::Unknown,
        }
    }

    /// A field of a map.
    pub(super) fn field(self, name: &str) -> Child<'a> {
        let message = match self {
            Schema::Unknown => None,
            Schema::Message(message) => Some(message),
            Schema::Field(field) if field.is_one() => field.element(),
            Schema::Field(_) => return Child::free(self.element()),
            Schema::Custom(schema) if name == "metadata" && schema.is_object() => {
                // The metadata of every kind is the same.
                let metadata = message("", "ConfigMap").and_then(|message| message.named(name));
                return Child::of(metadata);
            }
            Schema::Custom(schema) => {
                return match schema.field(name) {
                    Some(field) => Child {
                        schema: Schema::Custom(field),
                        named: true,
                        always_there: false,
                    },
                    None => Child::free(schema.rest().map_or(Schema::Unknown, Schema::Custom)),
                };
            }
        };
        // Not fields of messages, but of every object, also within a list of objects.
        if matches!(name, "apiVersion" | "kind") && matches!(self, Schema::Message(_)) {
            return Child {
                schema: Schema::Unknown,
                named: true,
                always_there: false,
            };
        }
        Child::of(message.and_then(|message| message.named(name)))
    }

    /// The step to an element of a list. None if nothing identifies the element.
    pub(super) fn step_to(self, element: &Value) -> Option<PathElement> {
        match (self.list_type(), element) {
            (ListType::Set, Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
                Some(PathElement::Value(canonical(element)))
            }
            (ListType::By(keys), Value::Object(map)) => {
                let value = |key: &ListKey| {
                    let given = map.get(&*key.name).map(canonical);
                    Some((key.name.clone(), given.or_else(|| key.default.clone())?))
                };
                let values: Vec<_> = keys.iter().filter_map(value).collect();
                (!values.is_empty()).then(|| PathElement::key(values))
            }
            _ => None,
        }
    }
}

impl<'a> Child<'a> {
    fn of(field: Option<&'static Field>) -> Self {
        match field {
            None => Self::free(Schema::Unknown),
            Some(field) => {
                let always_there = field.is_always_there();
                Self {
                    schema: Schema::Field(field),
                    named: true,
                    always_there,
                }
            }
        }
    }

    fn free(schema: Schema<'a>) -> Self {
        Self {
            schema,
            named: false,
            always_there: false,
        }
    }
}
