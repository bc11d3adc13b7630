//! containerd, the kubelet and kube-proxy: one node.
//!
//! The settings suit CI sandboxes without CAP_SYS_RESOURCE: containerd must not lower OOM scores
//! (`restrict_oom_score_adj`), the kubelet must not set kernel parameters (`KubeletInUserNamespace`) nor manage its
//! own cgroups, and kube-proxy must not change connection tracking limits.

use std::{process::Command, time::Duration};

use super::{
    images::{self, PAUSE},
    kubectl::{Kubectl, is_true},
    layout::Layout,
    network::Network,
    process::Processes,
    tools::Tools,
};
use crate::{
    command::path_with,
    files::write,
    wait::{self, LOOK_EVERY, Look},
};

const SOCKET_LIMIT: Duration = Duration::from_secs(30);
const READY_LIMIT: Duration = Duration::from_secs(90);

/// The node's name.
const NODE: &str = "node";

pub(super) fn up(
    layout: &Layout,
    tools: &Tools,
    processes: &Processes,
    kubectl: &Kubectl,
) -> anyhow::Result<()> {
    write(&layout.at("cni/10-nephele.conflist"), cni_config(layout))?;
    write(&layout.at("containerd.toml"), containerd_config(layout))?;
    write(&layout.at("kubelet.yaml"), kubelet_config(layout))?;

    let mut containerd = Command::new(tools.program("containerd"));
    let shims = tools
        .program("containerd")
        .parent()
        .expect("programs lie in folders");
    containerd
        .arg("--config")
        .arg(layout.at("containerd.toml"))
        .env("PATH", path_with([shims])?);
    processes.start("containerd", &mut containerd)?;
    wait::until("containerd to answer", SOCKET_LIMIT, LOOK_EVERY, || {
        processes.check("containerd")?;
        Ok(match images::ctr(layout, tools.program("ctr"), &["version"]) {
            Ok(_) => Look::Done(()),
            Err(error) => Look::NotYet(error.to_string()),
        })
    })?;
    images::Image::of_tool(tools, "pause")?.load(layout, tools)?;

    let mut kubelet = Command::new(tools.program("kubelet"));
    kubelet.args([
        format!("--config={}", layout.at("kubelet.yaml").display()),
        format!("--kubeconfig={}", layout.at("kubelet.kubeconfig").display()),
        format!("--root-dir={}", layout.at("kubelet").display()),
        format!("--hostname-override={NODE}"),
        format!("--node-ip={}", Network::NODE),
    ]);
    processes.start("kubelet", &mut kubelet)?;
    let mut proxy = Command::new(tools.program("kube-proxy"));
    proxy.args([
        format!("--kubeconfig={}", layout.at("kube-proxy.kubeconfig").display()),
        format!("--hostname-override={NODE}"),
        format!("--cluster-cidr={}", Network::PODS),
    ]);
    proxy.args([
        "--proxy-mode=iptables",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    ]);
    processes.start("kube-proxy", &mut proxy)?;

    wait::until("the node to be ready", READY_LIMIT, LOOK_EVERY, || {
        for name in ["containerd", "kubelet", "kube-proxy"] {
            processes.check(name)?;
        }
        let nodes = kubectl.items(&["nodes"])?;
        Ok(if nodes.iter().any(|node| is_true(node, "Ready")) {
            Look::Done(())
        } else {
            let conditions = nodes.first().map(|node| node["status"]["conditions"].to_string());
            Look::NotYet(
                conditions.unwrap_or_else(|| format!("no node; kubelet: {}", processes.log_tail("kubelet"))),
            )
        })
    })
}

fn cni_config(layout: &Layout) -> String {
    serde_json::json!({
        "cniVersion": "0.4.0",
        "name": "nephele",
        "plugins": [
            {
                "type": "bridge", "bridge": Network::POD_BRIDGE,
                "isGateway": true, "ipMasq": true, "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": Network::PODS}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": layout.at("cni-addresses"),
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
    .to_string()
}

fn containerd_config(layout: &Layout) -> String {
    let root = layout.at("containerd/root");
    let state = layout.at("containerd/state");
    format!(
        r#"version = 3
root = {root:?}
state = {state:?}
[grpc]
address = {socket:?}
[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/usr/lib/cni", "/opt/cni/bin"]
conf_dir = {cni:?}
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"#,
        socket = layout.containerd_socket(),
        cni = layout.at("cni"),
    )
}

fn kubelet_config(layout: &Layout) -> String {
    let file = |name: &str| layout.pki().join(name);
    serde_json::json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": file("ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": file("kubelet.crt"),
        "tlsPrivateKeyFile": file("kubelet.key"),
        "containerRuntimeEndpoint": format!("unix://{}", layout.containerd_socket().display()),
        "clusterDNS": [Network::DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "cgroupDriver": "cgroupfs",
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        "featureGates": {"KubeletInUserNamespace": true},
        // Other programs use the same disk, so the kubelet must not free space on it.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%", "nodefs.inodesFree": "1%",
        },
        "maxPods": 250,
    })
    .to_string()
}
