//! What the definitions of all groups get after their types are derived.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, ServiceReference, WebhookClientConfig, WebhookConversion,
};
use serde_json::{Value, json};

/// Conversion by the manager, through the Service of this namespace and name. The manager adds the CA bundle at run
/// time. Until then the CRD is valid without one, and objects can be used in the stored version.
pub(crate) fn conversion((namespace, name): (&str, &str)) -> CustomResourceConversion {
    CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            conversion_review_versions: vec!["v1".to_owned()],
            client_config: Some(WebhookClientConfig {
                service: Some(ServiceReference {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    path: Some("/convert".to_owned()),
                    port: None,
                }),
                ..WebhookClientConfig::default()
            }),
        }),
    }
}

/// Allows an object without a spec, because all its fields are optional. The API server then adds an empty spec.
pub(crate) fn allow_no_spec(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("required");
    }
    schema["properties"]["spec"]["default"] = json!({});
}

/// Walks a schema. An optional key may be absent, but `null` is not a valid value. The default that the derive writes
/// stands for an absent key, and the API server must not fill it in.
pub(crate) fn tidy_schema(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    fields.remove("nullable");
    fields.remove("default");
    // Kubernetes does not know Rust's integer formats.
    if fields
        .get("format")
        .and_then(Value::as_str)
        .is_some_and(|format| format.starts_with("uint"))
    {
        fields.remove("format");
    }
    for properties in fields
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
    {
        properties.values_mut().for_each(tidy_schema);
    }
    for nested in ["items", "additionalProperties"] {
        if let Some(schema) = fields.get_mut(nested) {
            tidy_schema(schema);
        }
    }
}
