//! Updates that leave out what the provider has filled in: it stays.
//!
//! `kubectl replace` and the `CreateOrUpdate` of tests send a manifest as it was written, without the endpoint of a cluster or
//! the provider ID of a machine. The rules of the schema would refuse that as a change of a field that cannot change, and
//! what a restart needs would be lost. A field that has another value is a change, and is refused as before.
//!
//! The API server calls the webhook only for updates that leave something out
//! (`config/webhook-infrastructure/mutating.yaml`), so all other updates need no manager.

use serde_json::Value;

/// The kinds with such fields, and these: whole ones, or fields of an object that users may write in part.
const KINDS: [(&str, &[&str]); 2] = [
    (
        "InMemoryCluster",
        &[
            "controlPlaneEndpoint",
            "controlPlaneEndpoint.host",
            "controlPlaneEndpoint.port",
            "origin",
        ],
    ),
    ("InMemoryMachine", &["providerID", "instance"]),
];

/// The URL paths to which the API server sends updates that leave something out, and the fields that stay.
pub fn paths() -> impl Iterator<Item = (String, &'static [&'static str])> {
    KINDS
        .into_iter()
        .map(|(kind, fields)| (super::path("mutate", kind), fields))
}

/// Puts the fields into the spec of the new object that it leaves out and the old one has.
pub(super) fn keep(fields: &[&str], old: &Value, new: &mut Value) {
    if !new["spec"].is_object() {
        new["spec"] = Value::Object(serde_json::Map::new());
    }
    for field in fields {
        let pointer = format!("/spec/{}", field.replace('.', "/"));
        let Some(value) = old.pointer(&pointer).filter(|value| is_there(value)) else {
            continue;
        };
        let (parent, name) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(parent) = new.pointer_mut(parent).and_then(Value::as_object_mut)
            && !parent.get(name).is_some_and(is_there)
        {
            parent.insert(name.to_owned(), value.clone());
        }
    }
}

/// Whether a value says something. Types of contract v1beta1 write empty texts and zeros for what they do not know.
fn is_there(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_i64() != Some(0),
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(_) | Value::Bool(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(kind: &str, old: &Value, new: &Value) -> Value {
        let fields = KINDS
            .iter()
            .find(|(name, _)| *name == kind)
            .map(|(_, fields)| *fields);
        let old = json!({ "spec": old });
        let mut new = json!({ "spec": new });
        keep(fields.expect("a kind"), &old, &mut new);
        new["spec"].take()
    }

    #[test]
    fn what_a_manifest_leaves_out_stays_and_what_it_says_counts() {
        let endpoint = json!({ "host": "a.example", "port": 20000 });
        let up = json!({ "controlPlaneEndpoint": endpoint, "origin": { "created": "then" }, "network": { "a": "b" } });
        let provided = json!({ "controlPlaneEndpoint": endpoint, "origin": { "created": "then" } });
        for (sent, expected) in [
            (json!({}), provided.clone()),
            (Value::Null, provided.clone()),
            (json!({ "controlPlaneEndpoint": null }), provided.clone()),
            (
                json!({ "controlPlaneEndpoint": { "host": "", "port": 0 } }),
                provided.clone(),
            ),
            (
                json!({ "controlPlaneEndpoint": { "port": 20000 } }),
                provided.clone(),
            ),
            (
                json!({ "controlPlaneEndpoint": { "host": "b.example" }, "cloudRef": { "name": "n" } }),
                json!({ "controlPlaneEndpoint": { "host": "b.example", "port": 20000 }, "cloudRef": { "name": "n" }, "origin": { "created": "then" } }),
            ),
        ] {
            assert_eq!(kept("InMemoryCluster", &up, &sent), expected, "{sent}");
        }
        let machine =
            json!({ "providerID": "in-memory://a", "instance": { "origin": {} }, "instanceType": "small" });
        assert_eq!(
            kept("InMemoryMachine", &machine, &json!({ "instanceType": "large" })),
            json!({ "providerID": "in-memory://a", "instance": { "origin": {} }, "instanceType": "large" })
        );
        assert_eq!(
            kept("InMemoryMachine", &json!({}), &json!({ "providerID": "" })),
            json!({ "providerID": "" })
        );
    }

    #[test]
    fn an_update_that_says_everything_stays_as_it_is() {
        let endpoint = json!({ "host": "a", "port": 1 });
        for whole in [
            json!({ "controlPlaneEndpoint": endpoint, "origin": { "created": "then" }, "network": {} }),
            json!({ "controlPlaneEndpoint": { "host": "a" } }),
            json!({}),
        ] {
            assert_eq!(kept("InMemoryCluster", &whole, &whole), whole);
        }
    }
}
