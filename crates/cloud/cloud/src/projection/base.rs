//! The objects of every cluster before its first Node: namespaces, service accounts, the API server's Service.

use serde_json::json;

use super::projected::{Projected, Scope};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

pub(crate) fn base(scope: &Scope<'_>) -> Vec<Projected> {
    let namespaces = NAMESPACES.iter().map(|name| {
        let value = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        scope.object("", "namespaces", "", name, value)
    });
    let accounts = NAMESPACES.iter().map(|namespace| {
        let value = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {}});
        scope.object("", "serviceaccounts", namespace, "default", value)
    });
    let address = scope.cluster.service_address(1);
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "sessionAffinity": "None",
            "ipFamilies": [if address.is_ipv6() { "IPv6" } else { "IPv4" }], "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": super::static_pod::API_SERVER_PORT}],
        },
        "status": {"loadBalancer": {}},
    });
    let service = scope.object("", "services", "default", "kubernetes", service);
    namespaces.chain(accounts).chain([service]).collect()
}
