//! The custom resource definitions of all our kinds.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::{
    infrastructure::v1beta2::{
        self, InMemoryCluster, InMemoryClusterTemplate, InMemoryMachine, InMemoryMachineTemplate,
    },
    ipam, labels,
};

/// The definitions of all our kinds. The same every time, so that files made from them can be compared.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    infrastructure_crds().into_iter().chain(ipam::crds()).collect()
}

/// The definitions of the simulated infrastructure, in the order of their names.
#[must_use]
pub fn infrastructure_crds() -> Vec<CustomResourceDefinition> {
    [
        InMemoryCluster::crd(),
        InMemoryClusterTemplate::crd(),
        InMemoryMachine::crd(),
        InMemoryMachineTemplate::crd(),
    ]
    .map(finished)
    .into()
}

/// Adds what clusterctl and Cluster API look for, and takes away what does not belong into a published schema.
fn finished(definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let template = definition.spec.names.kind.ends_with("Template");
    let mut value = serde_json::to_value(definition).expect("a definition is JSON");
    for version in value["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        tidy_schema(schema);
        if !template {
            allow_no_spec(schema);
        }
    }
    let mut definition: CustomResourceDefinition =
        serde_json::from_value(value).expect("what was a definition still is one");
    definition.spec.names.list_kind = Some(format!("{}List", definition.spec.names.kind));
    definition.metadata.labels = Some(BTreeMap::from(
        [
            (labels::CONTRACT_V1BETA2, v1beta2::VERSION),
            (labels::PROVIDER, labels::PROVIDER_VALUE),
            (labels::CLUSTERCTL, ""),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    ));
    definition
}

/// Lets an object come without a spec, as all of it is optional. The API server then reads as if it were empty.
fn allow_no_spec(schema: &mut Value) {
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("required");
    }
    schema["properties"]["spec"]["default"] = json!({});
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
