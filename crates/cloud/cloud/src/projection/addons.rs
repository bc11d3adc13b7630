//! The addons that kubeadm installs: kube-proxy and CoreDNS.

use nephele_apiserver::Key;
use serde_json::{Value, json};

use super::projected::{Projected, Scope};
use crate::user_data::KubeadmCluster;

/// A CoreDNS version that KCP's Corefile migration supports.
pub const DNS_IMAGE_TAG: &str = "v1.13.1";

const COREFILE: &str = ".:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes DOMAIN in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success DOMAIN
       disable denial DOMAIN
    }
    loop
    reload
    loadbalance
}
";

const SYSTEM: &str = "kube-system";

pub(crate) fn addons(scope: &Scope<'_>, version: &str, configured: &KubeadmCluster) -> Vec<Projected> {
    let proxy = proxy(scope, version, configured)
        .into_iter()
        .filter(|_| !configured.skips_proxy);
    proxy
        .chain(
            dns(scope, configured)
                .into_iter()
                .filter(|_| !configured.skips_dns),
        )
        .collect()
}

fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {}})
}

fn proxy(scope: &Scope<'_>, version: &str, configured: &KubeadmCluster) -> [Projected; 3] {
    let proxy_labels = json!({"k8s-app": "kube-proxy"});
    let proxy = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"labels": proxy_labels},
        "spec": {
            "revisionHistoryLimit": 10, "selector": {"matchLabels": proxy_labels},
            "template": {
                "metadata": {"labels": proxy_labels},
                "spec": {
                    "containers": [{"name": "kube-proxy", "image": format!("{}/kube-proxy:{version}", configured.repository()),
                                    "imagePullPolicy": "IfNotPresent",
                                    "command": ["/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf"]}],
                    "hostNetwork": true, "nodeSelector": {"kubernetes.io/os": "linux"},
                    "priorityClassName": "system-node-critical", "serviceAccountName": "kube-proxy",
                    "tolerations": [{"operator": "Exists"}],
                },
            },
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        },
        "status": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0,
                   "numberReady": 0, "observedGeneration": 1},
    });
    let proxy_config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"app": "kube-proxy"}},
        "data": {"config.conf": "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: \"\"\n"},
    });
    [
        scope.object("", "serviceaccounts", SYSTEM, "kube-proxy", account()),
        scope.object("", "configmaps", SYSTEM, "kube-proxy", proxy_config),
        scope.object("apps", "daemonsets", SYSTEM, "kube-proxy", proxy),
    ]
}

fn dns(scope: &Scope<'_>, configured: &KubeadmCluster) -> [Projected; 4] {
    let dns_labels = json!({"k8s-app": "kube-dns"});
    let dns = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": dns_labels},
        "spec": {
            "replicas": 2, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "25%"}},
            "selector": {"matchLabels": dns_labels},
            "template": {
                "metadata": {"labels": dns_labels},
                "spec": {
                    "containers": [{"name": "coredns",
                                    "image": configured.dns_image(DNS_IMAGE_TAG),
                                    "imagePullPolicy": "IfNotPresent", "args": ["-conf", "/etc/coredns/Corefile"],
                                    "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns",
                                                      "readOnly": true}]}],
                    "serviceAccountName": "coredns",
                    "volumes": [{"name": "config-volume", "configMap": {"name": "coredns",
                                 "items": [{"key": "Corefile", "path": "Corefile"}]}}],
                },
            },
        },
        "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
                   "availableReplicas": 2,
                   "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                                   "message": "Deployment has minimum availability.",
                                   "lastUpdateTime": super::time(scope.at),
                                   "lastTransitionTime": super::time(scope.at)}]},
    });
    let corefile = COREFILE.replace("DOMAIN", scope.cluster.domain());
    let dns_config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"Corefile": corefile}});
    let address = scope.cluster.service_address(10);
    let dns_service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"labels": {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true",
                                "kubernetes.io/name": "CoreDNS"}},
        "spec": {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "selector": dns_labels,
                 "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                 "ports": [{"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
                           {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
                           {"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": 9153}]},
        "status": {"loadBalancer": {}},
    });
    [
        scope.object("", "serviceaccounts", SYSTEM, "coredns", account()),
        scope.object("", "configmaps", SYSTEM, "coredns", dns_config),
        scope.object("apps", "deployments", SYSTEM, "coredns", dns),
        scope.object("", "services", SYSTEM, "kube-dns", dns_service),
    ]
}

/// The keys of the addons that clients upgrade: kube-proxy, then CoreDNS.
pub(crate) fn addon_keys() -> [Key; 2] {
    [("daemonsets", "kube-proxy"), ("deployments", "coredns")]
        .map(|(resource, name)| Key::new("apps", resource, "kube-system", name))
}

/// Sets kube-proxy's status for this number of Nodes.
pub(crate) fn count_nodes(daemon_set: &mut Value, nodes: usize) {
    for field in [
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberAvailable",
        "numberReady",
        "updatedNumberScheduled",
    ] {
        daemon_set["status"][field] = nodes.into();
    }
}

/// Sets an addon's status to fully rolled out. Rollouts take no time here.
pub(crate) fn roll_out(addon: &mut Value) {
    addon["status"]["observedGeneration"] = addon["metadata"]["generation"].clone();
    if let Some(replicas) = addon["spec"]["replicas"].as_u64() {
        for field in [
            "availableReplicas",
            "readyReplicas",
            "replicas",
            "updatedReplicas",
        ] {
            addon["status"][field] = replicas.into();
        }
    }
}
