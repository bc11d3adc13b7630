//! What the kubeadm configuration of a machine said when the machine booted. Its Secret may be gone since: Cluster API deletes
//! it with the bootstrap configuration. So the part that others see is in the origin ([`super::creation_record`]).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// What the kubeadm configuration of a machine said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Kubeadm {
    /// The labels that its Node registers with.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::node_labels")]
    pub node_labels: BTreeMap<String, String>,
    /// The taints that its Node registers with; absent for those of its role.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::taints")]
    pub taints: Option<Vec<Taint>>,
    /// What it said about the cluster; absent for workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<KubeadmCluster>,
}

/// A taint of a Node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    pub key: String,
    /// Its value; absent for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    pub effect: String,
}

/// What a kubeadm configuration said about its cluster. What is absent has the default of kubeadm.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct KubeadmCluster {
    /// Where images come from.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub image_repository: String,
    /// Where the image of CoreDNS comes from.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub dns_image_repository: String,
    /// The tag of the image of CoreDNS.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub dns_image_tag: String,
    /// Where the image of etcd comes from.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub etcd_image_repository: String,
    /// The tag of the image of etcd.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    pub etcd_image_tag: String,
    /// The URLs of an etcd that runs elsewhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::etcd_endpoints")]
    pub external_etcd: Vec<String>,
    /// Whether kubeadm did not install kube-proxy.
    #[serde(skip_serializing_if = "schema::is_default")]
    pub skips_proxy: bool,
    /// Whether kubeadm did not install CoreDNS.
    #[serde(skip_serializing_if = "schema::is_default")]
    pub skips_dns: bool,
}
