//! The custom resource definitions of all our kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, ServiceReference, WebhookClientConfig,
    WebhookConversion,
};
use kube::{CustomResourceExt, core::crd::merge_crds};
use serde_json::{Value, json};

use crate::{
    cloud,
    infrastructure::{v1beta1, v1beta2},
    ipam, labels,
};

/// The namespace and name of the Service in front of the webhooks of the infrastructure provider. clusterctl rewrites the
/// namespace to the one it installs into (`cmd/clusterctl/client/repository/components.go`).
const WEBHOOK_SERVICE: (&str, &str) = ("nephele-system", "nephele-webhook-service");

/// The definitions of all our kinds. The same every time, so that files made from them can be compared.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    infrastructure_crds().into_iter().chain(ipam::crds()).collect()
}

/// The definitions that the infrastructure provider comes with: the simulated infrastructure, and the cloud behind it.
#[must_use]
pub fn infrastructure_crds() -> Vec<CustomResourceDefinition> {
    infrastructure_group().into_iter().chain(cloud::crds()).collect()
}

/// The definitions of the simulated infrastructure, in the order of their names.
fn infrastructure_group() -> Vec<CustomResourceDefinition> {
    [
        [v1beta2::InMemoryCluster::crd(), v1beta1::InMemoryCluster::crd()],
        [v1beta2::InMemoryClusterTemplate::crd(), v1beta1::InMemoryClusterTemplate::crd()],
        [v1beta2::InMemoryMachinePool::crd(), v1beta1::InMemoryMachinePool::crd()],
        [v1beta2::InMemoryMachinePoolTemplate::crd(), v1beta1::InMemoryMachinePoolTemplate::crd()],
        [v1beta2::InMemoryMachine::crd(), v1beta1::InMemoryMachine::crd()],
        [v1beta2::InMemoryMachineTemplate::crd(), v1beta1::InMemoryMachineTemplate::crd()],
    ]
    .map(finished)
    .into()
}

/// One definition of both versions, with what clusterctl and Cluster API look for, and without what does not belong into
/// a published schema.
fn finished(versions: [CustomResourceDefinition; 2]) -> CustomResourceDefinition {
    let merged =
        merge_crds(versions.into(), v1beta2::VERSION).expect("versions of one kind, one of them stored");
    let template = merged.spec.names.kind.ends_with("Template");
    let mut value = serde_json::to_value(merged).expect("a definition is JSON");
    for version in value["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        tidy_schema(schema);
        if template {
            let made = "/properties/spec/properties/template/properties/spec";
            leave_to_each(schema.pointer_mut(made).expect("a template says what is made from it"));
        } else {
            allow_no_spec(schema);
        }
    }
    let mut definition: CustomResourceDefinition =
        serde_json::from_value(value).expect("what was a definition still is one");
    definition.spec.names.list_kind = Some(format!("{}List", definition.spec.names.kind));
    definition.spec.conversion = Some(conversion(WEBHOOK_SERVICE));
    let labels = [
        (labels::CONTRACT_V1BETA1, v1beta1::VERSION),
        (labels::CONTRACT_V1BETA2, v1beta2::VERSION),
        (labels::PROVIDER, labels::PROVIDER_VALUE),
        (labels::CLUSTERCTL, ""),
    ];
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    definition.metadata.labels = Some(labels.into_iter().map(owned).collect());
    definition
}

/// Conversion by the manager, behind the Service of this namespace and name. The bundle of certificates is the manager's
/// business at run time: until then the definition is valid without one, and objects can be used in the version they are
/// stored in.
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

/// Lets an object come without a spec, as all of it is optional. The API server then reads as if it were empty.
pub(crate) fn allow_no_spec(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("required");
    }
    schema["properties"]["spec"]["default"] = json!({});
}

/// What each object has for itself, and none of the objects that a template is for can have in common.
const OF_EACH: [&str; 5] = ["controlPlaneEndpoint", "instance", "origin", "providerID", "providerIDList"];

/// Makes the spec of an object the spec in a template: what is of each object is refused, and there is no rule about
/// changes. A webhook refuses these, which knows a dry run of the topology controller from a change in earnest.
fn leave_to_each(spec: &mut Value) {
    forget_changes(spec);
    let refused = OF_EACH.into_iter().filter(|field| spec["properties"].get(field).is_some());
    let rules: Vec<_> = refused
        .map(|field| {
            // Cluster API's own types of contract v1beta1 write an endpoint that nobody knows yet.
            let may_be_unknown =
                field == "controlPlaneEndpoint" && !spec["properties"][field]["required"].is_null();
            let unknown = match may_be_unknown {
                false => String::new(),
                true => format!(" || (self.{field}.host == '' && self.{field}.port == 0)"),
            };
            json!({
                "rule": format!("!has(self.{field}){unknown}"),
                "message": format!("{field} is of each object, and no template has it"),
                "fieldPath": format!(".{field}"),
                "reason": "FieldValueForbidden",
            })
        })
        .collect();
    if !rules.is_empty() {
        spec["x-kubernetes-validations"] = rules.into();
    }
}

/// Walks a schema, and takes the rules out that compare with what was before.
fn forget_changes(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(rules) = fields.get_mut("x-kubernetes-validations").and_then(Value::as_array_mut) {
        rules.retain(|rule| !rule["rule"].as_str().is_some_and(|rule| rule.contains("oldSelf")));
        if rules.is_empty() {
            fields.remove("x-kubernetes-validations");
        }
    }
    for properties in fields.get_mut("properties").and_then(Value::as_object_mut).into_iter() {
        properties.values_mut().for_each(forget_changes);
    }
    for nested in ["items", "additionalProperties"] {
        if let Some(schema) = fields.get_mut(nested) {
            forget_changes(schema);
        }
    }
}

/// Walks a schema. An optional key is one that may be absent: `null` is no value for it, and the default that the
/// derive notes for it is absence, which the API server must not fill in.
pub(crate) fn tidy_schema(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("nullable");
    fields.remove("default");
    // Rust's own integer formats mean nothing to Kubernetes.
    if fields.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
        fields.remove("format");
    }
    for properties in fields.get_mut("properties").and_then(Value::as_object_mut).into_iter() {
        properties.values_mut().for_each(tidy_schema);
    }
    for nested in ["items", "additionalProperties"] {
        if let Some(schema) = fields.get_mut(nested) {
            tidy_schema(schema);
        }
    }
}

#[cfg(test)]
mod tests;
