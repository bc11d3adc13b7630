//! Objects of these tests.

use std::path::Path;

use kube::{
    Client,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::json;

/// A file with the Cluster `small` of one control plane machine and two workers.
pub(crate) fn small_file() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml"))
}

/// A Cluster with one control plane machine and some workers.
pub(crate) fn cluster_with(namespace: &str, name: &str, workers: i32) -> DynamicObject {
    let topology = json!({
        "classRef": {"name": "in-memory"},
        "version": "v1.36.3",
        "controlPlane": {"replicas": 1},
        "workers": {"machineDeployments": [{"class": "default-worker", "name": "workers", "replicas": workers}]},
    });
    DynamicObject::new(name, &clusters())
        .within(namespace)
        .data(json!({"spec": {"topology": topology}}))
}

pub(crate) fn clusters_in(client: Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace, &clusters())
}

pub(crate) fn clusters() -> ApiResource {
    let kind = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster");
    ApiResource::from_gvk_with_plural(&kind, "clusters")
}

/// Fails the test unless the words of an error have all these parts.
pub(crate) fn expect_error<T, E: std::fmt::Debug>(result: Result<T, E>, parts: &[&str]) {
    let Err(error) = result else {
        panic!("there is no error with {parts:?}")
    };
    let said = format!("{error:?}");
    for part in parts {
        assert!(said.contains(part), "{part:?} is not in the error: {said}");
    }
}
