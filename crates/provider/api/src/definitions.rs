//! The CRDs of all our kinds.

pub(crate) mod finish;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, core::crd::merge_crds};
use serde_json::{Value, json};

use self::finish::{allow_no_spec, conversion, tidy_schema};
use crate::{
    cloud,
    infrastructure::{v1beta1, v1beta2},
    ipam, labels,
};

/// The namespace and name of the Service for the webhooks of the infrastructure provider. clusterctl replaces the
/// namespace by the one into which it installs (`cmd/clusterctl/client/repository/components.go`).
const WEBHOOK_SERVICE: (&str, &str) = ("nephele-system", "nephele-webhook-service");

/// The CRDs of all our kinds. The result is always the same, so that generated files can be compared with it.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    infrastructure_crds().into_iter().chain(ipam::crds()).collect()
}

/// The CRDs of the infrastructure provider: the simulated infrastructure, and the simulated cloud.
#[must_use]
pub fn infrastructure_crds() -> Vec<CustomResourceDefinition> {
    infrastructure_group().into_iter().chain(cloud::crds()).collect()
}

/// The CRDs of the simulated infrastructure, sorted by name.
fn infrastructure_group() -> Vec<CustomResourceDefinition> {
    [
        [v1beta2::InMemoryCluster::crd(), v1beta1::InMemoryCluster::crd()],
        [
            v1beta2::InMemoryClusterTemplate::crd(),
            v1beta1::InMemoryClusterTemplate::crd(),
        ],
        [
            v1beta2::InMemoryMachinePool::crd(),
            v1beta1::InMemoryMachinePool::crd(),
        ],
        [
            v1beta2::InMemoryMachinePoolTemplate::crd(),
            v1beta1::InMemoryMachinePoolTemplate::crd(),
        ],
        [v1beta2::InMemoryMachine::crd(), v1beta1::InMemoryMachine::crd()],
        [
            v1beta2::InMemoryMachineTemplate::crd(),
            v1beta1::InMemoryMachineTemplate::crd(),
        ],
    ]
    .map(finished)
    .into()
}

/// One CRD of both versions, with the labels that clusterctl and Cluster API read, and without details of Rust in the
/// schema.
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
            leave_to_each(
                schema
                    .pointer_mut(made)
                    .expect("a template says what is made from it"),
            );
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

/// The fields that belong to a single object and cannot be in a template.
const OF_EACH: [&str; 5] = [
    "controlPlaneEndpoint",
    "instance",
    "origin",
    "providerID",
    "providerIDList",
];

/// Turns the schema of an object's spec into that of a template: fields of a single object are refused, and rules about
/// changes are removed. A webhook refuses changes, because it can tell a dry run of the topology controller from a real
/// change.
fn leave_to_each(spec: &mut Value) {
    forget_changes(spec);
    let refused = OF_EACH
        .into_iter()
        .filter(|field| spec["properties"].get(field).is_some());
    let rules: Vec<_> = refused
        .map(|field| {
            // Cluster API's types of contract v1beta1 write an empty endpoint while it is not known.
            let may_be_unknown =
                field == "controlPlaneEndpoint" && !spec["properties"][field]["required"].is_null();
            let unknown = match may_be_unknown {
                false => String::new(),
                true => format!(" || (self.{field}.host == '' && self.{field}.port == 0)"),
            };
            json!({
                "rule": format!("!has(self.{field}){unknown}"),
                "message": format!("{field} belongs to a single object and cannot be in a template"),
                "fieldPath": format!(".{field}"),
                "reason": "FieldValueForbidden",
            })
        })
        .collect();
    if !rules.is_empty() {
        spec["x-kubernetes-validations"] = rules.into();
    }
}

/// Walks a schema, and removes the rules that compare with the old object.
fn forget_changes(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    if let Some(rules) = fields
        .get_mut("x-kubernetes-validations")
        .and_then(Value::as_array_mut)
    {
        rules.retain(|rule| !rule["rule"].as_str().is_some_and(|rule| rule.contains("oldSelf")));
        if rules.is_empty() {
            fields.remove("x-kubernetes-validations");
        }
    }
    for properties in fields
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
    {
        properties.values_mut().for_each(forget_changes);
    }
    for nested in ["items", "additionalProperties"] {
        if let Some(schema) = fields.get_mut(nested) {
            forget_changes(schema);
        }
    }
}

#[cfg(test)]
mod tests;
