//! The static pods of a control-plane machine, as its kubelet would mirror them.

use serde_json::{Value, json};

use super::projected::{Projected, Scope, time, uid};
use crate::spec::MachineSpec;

/// The port on which the API server listens on each machine, as set up by kubeadm.
pub(crate) const API_SERVER_PORT: u16 = 6443;

/// A component that runs as a static pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
}

impl Component {
    pub(crate) const ALL: [Self; 4] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }

    /// The name of its pod on a machine.
    pub(crate) fn pod_name(self, machine: &str) -> String {
        format!("{}-{machine}", self.name())
    }

    fn image(self, machine: &MachineSpec) -> String {
        let version = machine.version.as_str();
        let configuration = machine.cluster_configuration().cloned().unwrap_or_default();
        match self {
            Self::Etcd => {
                let tag = machine
                    .etcd_image_tag
                    .as_deref()
                    .unwrap_or_else(|| etcd_image_tag(version));
                configuration.etcd_image(tag)
            }
            other => format!("{}/{}:{version}", configuration.repository(), other.name()),
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Etcd => 2379,
            Self::ApiServer => API_SERVER_PORT,
            Self::ControllerManager => 10257,
            Self::Scheduler => 10259,
        }
    }
}

/// The tag of the etcd image that kubeadm runs with a Kubernetes version (`SupportedEtcdVersion` in
/// `cmd/kubeadm/app/constants` of Kubernetes 1.36.3 and, for older versions that this table no longer has, of 1.34).
/// There is one per minor version. A version outside of the table gets the nearest entry, as with kubeadm. A text that
/// is not a version gets the newest.
fn etcd_image_tag(version: &str) -> &'static str {
    let mut parts = version.trim_start_matches('v').split('.');
    let minor = parts.nth(1).and_then(|minor| minor.parse::<u32>().ok());
    match minor {
        Some(..=33) => "3.5.24-0",
        Some(34..) | None => "3.6.8-0",
    }
}

/// The pod of a component on a machine. `node` is the name of the kubelet.
pub(crate) fn static_pod(
    scope: &Scope<'_>,
    machine: &MachineSpec,
    node: &str,
    component: Component,
) -> Projected {
    let name = component.pod_name(node);
    let now = time(scope.at);
    // The kubelet's hash of the manifest: 32 hexadecimal digits that never change.
    let hash = uid(&scope.cluster.id, "manifest", "kube-system", &name).replace('-', "");
    let host = machine.internal_address();
    let addresses: Vec<Value> = machine.internal_addresses().map(|ip| json!({"ip": ip})).collect();
    let image = component.image(machine);
    let condition = |kind: &str| -> Value {
        json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now})
    };
    let conditions = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]
    .map(condition);
    let value = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "labels": {"component": component.name(), "tier": "control-plane"},
            "annotations": {
                "kubernetes.io/config.hash": hash, "kubernetes.io/config.mirror": hash,
                "kubernetes.io/config.seen": now, "kubernetes.io/config.source": "file",
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "controller": true,
                                 "uid": uid(&scope.cluster.id, "nodes", "", node)}],
        },
        "spec": {
            "containers": [{
                "name": component.name(), "image": image, "imagePullPolicy": "IfNotPresent",
                "command": [component.name()],
                "ports": [{"containerPort": component.port(), "hostPort": component.port(), "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "100m"}},
            }],
            "hostNetwork": true, "nodeName": node, "priority": 2_000_001_000,
            "priorityClassName": "system-node-critical", "restartPolicy": "Always",
            "tolerations": [{"effect": "NoExecute", "operator": "Exists"}],
        },
        "status": {
            "phase": "Running", "hostIP": host, "hostIPs": addresses, "podIP": host, "podIPs": addresses,
            "qosClass": "Burstable", "startTime": now,
            "conditions": conditions,
            "containerStatuses": [{
                "name": component.name(), "image": image, "imageID": "", "ready": true, "started": true,
                "restartCount": 0, "lastState": {}, "state": {"running": {"startedAt": now}},
                "containerID": format!("containerd://{hash}{hash}"),
            }],
        },
    });
    scope.object("", "pods", "kube-system", &name, value)
}

/// Updates the pod after its machine was changed in place.
pub(crate) fn change_pod(pod: &mut Value, component: Component, machine: &MachineSpec) {
    let image = component.image(machine);
    for path in ["/spec/containers/0/image", "/status/containerStatuses/0/image"] {
        if let Some(current) = pod.pointer_mut(path) {
            *current = image.as_str().into();
        }
    }
}
