//! The CRDs of the group `cloud.nephele.dev`.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, ValidationRule,
};
use kube::CustomResourceExt;

use super::v1alpha1;
use crate::{
    definitions::finish::{allow_no_spec, tidy_schema},
    labels, schema,
};

/// Label of a CRD: `clusterctl move` moves all its objects (`cmd/clusterctl/client/cluster/objectgraph.go`).
///
/// SimulatedClouds own no objects and have no owner: several clusters share a SimulatedCloud. An owner reference would
/// delete it with the last Cluster, but it belongs to its user.
pub const MOVE_LABEL: &str = "clusterctl.cluster.x-k8s.io/move";

/// The CRDs of the group, sorted by name.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        // Extensions belong to a management cluster, like Cluster API's own, and stay when clusters move.
        named_by_a_label(finished(&v1alpha1::CloudExtensionConfig::crd(), Objects::Stay)),
        // It selects the namespaces of one management cluster, and so are the Faults that it makes.
        named_by_a_label(finished(&v1alpha1::ClusterFault::crd(), Objects::Stay)),
        // What goes wrong is tried out in one place. Moved clusters get away from it.
        finished(&v1alpha1::Fault::crd(), Objects::Stay),
        // As what it breaks.
        finished(&v1alpha1::Scenario::crd(), Objects::Stay),
        finished(&v1alpha1::SimulatedCloud::crd(), Objects::Move),
    ]
}

/// Whether `clusterctl move` moves the objects of a kind.
#[derive(Clone, Copy, PartialEq)]
enum Objects {
    Stay,
    Move,
}

/// One CRD, with the labels that clusterctl reads.
fn finished(definition: &CustomResourceDefinition, objects: Objects) -> CustomResourceDefinition {
    let mut value = serde_json::to_value(definition).expect("a definition is JSON");
    for version in value["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        tidy_schema(schema);
        if schema["properties"]["spec"]["required"].is_null() {
            allow_no_spec(schema);
        }
    }
    let mut definition: CustomResourceDefinition =
        serde_json::from_value(value).expect("what was a definition still is one");
    definition.spec.names.list_kind = Some(format!("{}List", definition.spec.names.kind));
    let labels = [
        (labels::CONTRACT_V1BETA2, v1alpha1::VERSION),
        (labels::PROVIDER, labels::PROVIDER_VALUE),
        (labels::CLUSTERCTL, ""),
    ];
    let moves = (objects == Objects::Move).then_some((MOVE_LABEL, ""));
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    definition.metadata.labels = Some(
        labels
            .into_iter()
            .chain(moves)
            .map(owned)
            .collect::<BTreeMap<_, _>>(),
    );
    definition
}

/// Refuses objects whose name is not a DNS label: handlers of extensions have the name `<handler>.<name>`, and the name of
/// a ClusterFault is a value of a label.
fn named_by_a_label(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let rule = schema::rule(
        "size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",
        "the name has to be a DNS label: up to 63 letters, digits and dashes",
    );
    let rule: ValidationRule = serde_json::from_value(rule).expect("a rule");
    for version in &mut definition.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        schema
            .expect("the derive writes a schema")
            .x_kubernetes_validations = Some(vec![rule.clone()]);
    }
    definition
}

#[cfg(test)]
mod tests;
