//! The CRDs of pools, and replacements for those of Cluster API.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, core::crd::merge_crds};
use serde_json::{Value, json};

use super::{
    group::GROUP,
    v1alpha1,
    v1alpha2::{
        self, ALLOCATION_PREFIX_LENGTH_DEFAULT, GlobalInClusterIPPool, GlobalInClusterPrefixPool,
        InClusterIPPool, InClusterPrefixPool,
    },
};
use crate::{
    core::{age, column, loose},
    definitions::finish::{conversion, tidy_schema},
    labels,
};

/// The namespace and name of the Service for the webhooks: those of the in-cluster provider, which a CRD may have had
/// before. clusterctl replaces the namespace by the one into which it installs
/// (`cmd/clusterctl/client/repository/components.go`).
const WEBHOOK_SERVICE: (&str, &str) = (
    "capi-ipam-in-cluster-system",
    "capi-ipam-in-cluster-webhook-service",
);

/// The value of [`crate::labels::PROVIDER`] on objects of this provider, as clusterctl writes it.
pub const PROVIDER_VALUE: &str = "ipam-in-cluster";

/// Label of a CRD: `clusterctl move` moves all its objects, with everything that they own
/// (`cmd/clusterctl/client/cluster/objectgraph.go`).
pub const MOVE_HIERARCHY_LABEL: &str = "clusterctl.cluster.x-k8s.io/move-hierarchy";

/// The CRDs of the pools, sorted by name.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        finished(vec![
            GlobalInClusterIPPool::crd(),
            without_addresses_column(v1alpha1::GlobalInClusterIPPool::crd()),
        ]),
        finished(vec![GlobalInClusterPrefixPool::crd()]),
        finished(vec![InClusterIPPool::crd(), v1alpha1::InClusterIPPool::crd()]),
        finished(vec![InClusterPrefixPool::crd()]),
    ]
}

/// The in-cluster IPAM provider shows no such column for the global kind.
fn without_addresses_column(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for columns in definition
        .spec
        .versions
        .iter_mut()
        .filter_map(|version| version.additional_printer_columns.as_mut())
    {
        columns.retain(|column| column.name != "Addresses");
    }
    definition
}

/// One CRD of several versions, with the labels that clusterctl and Cluster API read.
fn finished(versions: Vec<CustomResourceDefinition>) -> CustomResourceDefinition {
    let convertible = versions.len() > 1;
    let merged = merge_crds(versions, v1alpha2::VERSION).expect("versions of one kind, one of them stored");
    let mut value = serde_json::to_value(merged).expect("a definition is JSON");
    for version in value["spec"]["versions"].as_array_mut().into_iter().flatten() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        tidy_schema(schema);
        // The rest of an object is optional, and defaults to empty values.
        schema.as_object_mut().expect("a schema").remove("required");
        let spec = &mut schema["properties"]["spec"];
        spec["default"] = empty_spec(spec);
        if let Some(length) = schema.pointer_mut("/properties/spec/properties/allocationPrefixLength") {
            length["default"] = json!(ALLOCATION_PREFIX_LENGTH_DEFAULT);
        }
    }
    let mut definition: CustomResourceDefinition =
        serde_json::from_value(value).expect("what was a definition still is one");
    definition.spec.names.list_kind = Some(format!("{}List", definition.spec.names.kind));
    definition.spec.conversion = convertible.then(|| conversion(WEBHOOK_SERVICE));
    definition.metadata.labels = Some(BTreeMap::from(
        [
            (labels::CONTRACT_V1BETA2, v1alpha2::VERSION),
            (labels::PROVIDER, PROVIDER_VALUE),
            (labels::CLUSTERCTL, ""),
            (MOVE_HIERARCHY_LABEL, ""),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    ));
    definition
}

/// The spec of an object without one: a default needs the required fields.
fn empty_spec(schema: &Value) -> Value {
    let required = schema["required"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let empty = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("array") => json!([]),
        _ => json!(0),
    };
    let names = required.iter().filter_map(Value::as_str);
    names
        .map(|name| (name.to_owned(), empty(name)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// CRDs of `IPAddressClaim` and `IPAddress` that accept any field. They replace Cluster API's own CRDs, without their
/// schemas.
#[must_use]
pub fn loose_crds() -> Vec<CustomResourceDefinition> {
    let pool_name = column("Pool Name", "string", ".spec.poolRef.name");
    let pool_kind = column("Pool Kind", "string", ".spec.poolRef.kind");
    let address = column("Address", "string", ".spec.address");
    let columns = [address, pool_name.clone(), pool_kind.clone(), age()];
    let claims = loose(
        GROUP,
        "IPAddressClaim",
        "ipaddressclaims",
        &[],
        &[pool_name, pool_kind, age()],
    );
    vec![claims, loose(GROUP, "IPAddress", "ipaddresses", &[], &columns)]
}

#[cfg(test)]
mod tests;
