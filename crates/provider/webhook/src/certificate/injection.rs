//! The objects that need the CA bundle, so that API servers trust the webhooks.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

/// The objects with a CA bundle, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// Definitions of kinds with a conversion.
    pub definitions: Vec<String>,
    pub validating: Vec<String>,
    pub mutating: Vec<String>,
}

/// A JSON merge patch that sets the bundle in a definition; `None` when the definition has the bundle already, or no
/// conversion webhook.
pub(super) fn into_definition(definition: &Value, bundle: &str) -> Option<Value> {
    let conversion = &definition["spec"]["conversion"];
    let config = &conversion["webhook"]["clientConfig"];
    let bundle = STANDARD.encode(bundle);
    if conversion["strategy"] != "Webhook" || config["caBundle"] == bundle.as_str() {
        return None;
    }
    Some(json!({
        "spec": { "conversion": { "webhook": { "clientConfig": { "caBundle": bundle } } } },
    }))
}

/// A JSON patch that sets the bundle in each webhook of a configuration; `None` when all have it already. The patch
/// fails if the configuration's webhooks have changed meanwhile.
pub(super) fn into_configuration(configuration: &Value, bundle: &str) -> Option<Value> {
    let bundle = STANDARD.encode(bundle);
    let webhooks = configuration["webhooks"].as_array()?;
    let mut operations = Vec::new();
    for (index, webhook) in webhooks.iter().enumerate() {
        if webhook["clientConfig"]["caBundle"] != bundle.as_str() {
            operations.push(
                json!({ "op": "test", "path": format!("/webhooks/{index}/name"), "value": webhook["name"] }),
            );
            let path = format!("/webhooks/{index}/clientConfig/caBundle");
            operations.push(json!({ "op": "add", "path": path, "value": bundle }));
        }
    }
    (!operations.is_empty()).then(|| operations.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_patched_only_when_it_differs() {
        let definition = |config: Value| json!({ "spec": { "conversion": { "strategy": "Webhook", "webhook": { "clientConfig": config } } } });
        let patch =
            json!({ "spec": { "conversion": { "webhook": { "clientConfig": { "caBundle": "cGVt" } } } } });
        let service = json!({ "name": "s" });
        assert_eq!(
            into_definition(&definition(json!({ "service": service })), "pem"),
            Some(patch.clone())
        );
        let other = definition(json!({ "service": service, "caBundle": "b3RoZXI=" }));
        assert_eq!(into_definition(&other, "pem"), Some(patch));
        assert_eq!(
            into_definition(&definition(json!({ "caBundle": "cGVt" })), "pem"),
            None
        );
        assert_eq!(
            into_definition(
                &json!({ "spec": { "conversion": { "strategy": "None" } } }),
                "pem"
            ),
            None
        );
        assert_eq!(into_definition(&json!({ "spec": {} }), "pem"), None);
    }

    #[test]
    fn only_the_webhooks_that_differ_are_patched_and_by_their_names() {
        let configuration = json!({ "webhooks": [
            { "name": "a", "clientConfig": { "caBundle": "cGVt" } },
            { "name": "b", "clientConfig": {} },
        ] });
        assert_eq!(
            into_configuration(&configuration, "pem"),
            Some(json!([
                { "op": "test", "path": "/webhooks/1/name", "value": "b" },
                { "op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "cGVt" },
            ]))
        );
        let done = json!({ "webhooks": [{ "name": "a", "clientConfig": { "caBundle": "cGVt" } }] });
        assert_eq!(into_configuration(&done, "pem"), None);
        assert_eq!(into_configuration(&json!({}), "pem"), None);
    }
}
