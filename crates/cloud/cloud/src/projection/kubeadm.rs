//! The objects that `kubeadm init` creates in a cluster.

use nephele_pki::{Authority, KeyAlgorithm};
use serde_json::{Value, json};

use super::projected::{Projected, Scope};
use crate::{spec::ClusterSpec, user_data::KubeadmCluster};

/// `authority` is the cluster's. The algorithm of its key is shown as kubeadm's algorithm for all keys. If kubeadm does
/// not know the algorithm, kubeadm's default is shown.
pub(crate) fn kubeadm(
    scope: &Scope<'_>,
    version: &str,
    configured: &KubeadmCluster,
    authority: &Authority,
) -> Vec<Projected> {
    let cluster = scope.cluster;
    let endpoint = cluster
        .endpoint
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let configuration = cluster_configuration(cluster, &endpoint, version, configured, authority);
    let config_map = |namespace: &str, name: &str, data: Value| {
        let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": data});
        scope.object("", "configmaps", namespace, name, value)
    };
    let kubelet = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "systemd",
        "clusterDNS": [cluster.service_address(10)], "clusterDomain": cluster.domain(),
        "rotateCertificates": true, "staticPodPath": "/etc/kubernetes/manifests",
    });
    let discovery = json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {}, "contexts": [], "users": [], "current-context": "",
        "clusters": [{"name": "", "cluster": {"server": format!("https://{endpoint}"),
                      "certificate-authority-data": base64(&authority.certificate_pem())}}],
    });
    let config_maps = [
        config_map(
            "kube-system",
            "kubeadm-config",
            json!({"ClusterConfiguration": nephele_yaml::write(&configuration)}),
        ),
        config_map(
            "kube-system",
            "kubelet-config",
            json!({"kubelet": nephele_yaml::write(&kubelet)}),
        ),
        config_map(
            "kube-public",
            "cluster-info",
            json!({"kubeconfig": nephele_yaml::write(&discovery)}),
        ),
    ];
    config_maps.into_iter().chain(roles(scope)).collect()
}

/// The document that KCP parses, changes and writes back on an upgrade.
fn cluster_configuration(
    cluster: &ClusterSpec,
    endpoint: &str,
    version: &str,
    configured: &KubeadmCluster,
    authority: &Authority,
) -> Value {
    let algorithm = authority.key_algorithm().unwrap_or(KeyAlgorithm::Rsa2048);
    let mut configuration = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration",
        "apiServer": {}, "caCertificateValidityPeriod": "87600h0m0s", "certificateValidityPeriod": "8760h0m0s",
        "certificatesDir": "/etc/kubernetes/pki", "clusterName": cluster.id.name,
        "controlPlaneEndpoint": endpoint, "controllerManager": {},
        "dns": {},
        "encryptionAlgorithm": algorithm.as_str(), "etcd": {"local": {"dataDir": "/var/lib/etcd"}},
        "imageRepository": configured.repository(), "kubernetesVersion": version,
        "networking": {
            "dnsDomain": cluster.domain(), "podSubnet": cluster.pod_cidrs.join(","),
            "serviceSubnet": cluster.service_subnet(),
        },
        "proxy": {}, "scheduler": {},
    });
    if !configured.external_etcd.is_empty() {
        configuration["etcd"] = json!({"external": {
            "endpoints": configured.external_etcd, "caFile": "/etc/kubernetes/pki/etcd/ca.crt",
            "certFile": "/etc/kubernetes/pki/apiserver-etcd-client.crt",
            "keyFile": "/etc/kubernetes/pki/apiserver-etcd-client.key",
        }});
    }
    for (pointer, field, value) in [
        ("/dns", "imageRepository", &configured.dns_image_repository),
        ("/dns", "imageTag", &configured.dns_image_tag),
        (
            "/etcd/local",
            "imageRepository",
            &configured.etcd_image_repository,
        ),
        ("/etcd/local", "imageTag", &configured.etcd_image_tag),
    ] {
        if let Some(part) = configuration.pointer_mut(pointer).filter(|_| !value.is_empty()) {
            part[field] = value.as_str().into();
        }
    }
    configuration
}

/// The roles of administrators and of machines that join, and who has them.
fn roles(scope: &Scope<'_>) -> [Projected; 5] {
    let rbac = "rbac.authorization.k8s.io";
    let role = |rules: Value| json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {}, "rules": rules});
    let binding = |role: &str, group: &str| {
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": group}],
        })
    };
    let get_nodes = role(json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]));
    let everything = role(json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]));
    let joining = "system:bootstrappers:kubeadm:default-node-token";
    let roles = "clusterroles";
    let bindings = "clusterrolebindings";
    let admins = "kubeadm:cluster-admins";
    [
        scope.object(rbac, roles, "", "cluster-admin", everything),
        scope.object(rbac, roles, "", "kubeadm:get-nodes", get_nodes),
        scope.object(
            rbac,
            bindings,
            "",
            "cluster-admin",
            binding("cluster-admin", "system:masters"),
        ),
        scope.object(rbac, bindings, "", admins, binding("cluster-admin", admins)),
        scope.object(
            rbac,
            bindings,
            "",
            "kubeadm:get-nodes",
            binding("kubeadm:get-nodes", joining),
        ),
    ]
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
