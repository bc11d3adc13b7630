//! Kubernetes objects of any kind.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de, de::DeserializeOwned};
use serde_json::{Map, Value};

/// A Kubernetes object as received, or no object: Go's `RawExtension`, which is `null` when absent.
///
/// Clusters and Machines are such objects too. Under one version of the hooks, Cluster API sent them as v1beta1
/// until 1.12 and sends them as v1beta2 since; see [`Object::api_version`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Object(Option<Map<String, Value>>);

impl Object {
    /// Whether there is no object.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.0.is_none()
    }

    /// Its `apiVersion`; empty when absent.
    #[must_use]
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion").unwrap_or_default()
    }

    /// Its `kind`; empty when absent.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.text("/kind").unwrap_or_default()
    }

    /// The group of its `apiVersion`; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    /// Its name; empty when absent.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text("/metadata/name").unwrap_or_default()
    }

    /// Its namespace; empty when absent.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace").unwrap_or_default()
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.pointer("/metadata/labels")?.get(key)?.as_str()
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.pointer("/metadata/annotations")?.get(key)?.as_str()
    }

    /// The value at a JSON Pointer (RFC 6901) inside the object.
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        let (first, rest) = split(pointer)?;
        self.0.as_ref()?.get(&*first)?.pointer(rest)
    }

    /// The string at a JSON Pointer.
    #[must_use]
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.pointer(pointer)?.as_str()
    }

    /// Its fields; `None` when the object is absent.
    #[must_use]
    pub fn fields(&self) -> Option<&Map<String, Value>> {
        self.0.as_ref()
    }

    /// The object as a value; `null` when it is absent.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.0.map_or(Value::Null, Value::Object)
    }

    /// The object as a value; `null` when it is absent.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.clone().into_value()
    }

    /// Decodes the object to a type, as Go would.
    ///
    /// # Errors
    /// When the object does not have that type.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        super::from_value(self.to_value())
    }
}

/// The first token of a pointer, unescaped, and the rest of the pointer.
fn split(pointer: &str) -> Option<(Cow<'_, str>, &str)> {
    let pointer = pointer.strip_prefix('/')?;
    let (first, rest) = pointer.split_at(pointer.find('/').unwrap_or(pointer.len()));
    let first = if first.contains('~') {
        first.replace("~1", "/").replace("~0", "~").into()
    } else {
        Cow::Borrowed(first)
    };
    Some((first, rest))
}

impl From<Map<String, Value>> for Object {
    fn from(fields: Map<String, Value>) -> Self {
        Self(Some(fields))
    }
}

impl TryFrom<Value> for Object {
    type Error = serde_json::Error;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match value {
            Value::Null => Ok(Self(None)),
            Value::Object(fields) => Ok(Self(Some(fields))),
            _ => Err(de::Error::custom("expected an object or null")),
        }
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(Value::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for Object {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Object".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_as_it_came_and_null_is_none() {
        let value = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": { "name": "c", "namespace": "n", "labels": { "a/b": "1" }, "annotations": { "x": "2" } },
            "spec": { "a/b": [ { "c": true } ] },
        });
        let object = Object::try_from(value.clone()).unwrap();
        assert_eq!((object.group(), object.kind()), ("cluster.x-k8s.io", "Cluster"));
        assert_eq!((object.name(), object.namespace()), ("c", "n"));
        assert_eq!(
            (object.label("a/b"), object.annotation("x")),
            (Some("1"), Some("2"))
        );
        assert_eq!(object.pointer("/spec/a~1b/0/c"), Some(&json!(true)));
        assert_eq!(object.pointer("/nothing"), None);
        assert_eq!(serde_json::to_value(&object).unwrap(), value);
        let none: Object = serde_json::from_str("null").unwrap();
        assert!(none.is_absent());
        assert_eq!(serde_json::to_string(&none).unwrap(), "null");
        assert!(serde_json::from_str::<Object>("[]").is_err());
    }
}
