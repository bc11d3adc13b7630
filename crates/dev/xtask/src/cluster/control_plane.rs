//! etcd, the API server, the controllers and the scheduler.

use std::{process::Command, time::Duration};

use super::{
    kubectl::Kubectl, layout::Layout, network::Network, pki, process::Processes, site::Site, tools::Tools,
};
use crate::wait::{self, LOOK_EVERY, Look};

const READY_LIMIT: Duration = Duration::from_secs(90);

pub(super) fn up(
    layout: &Layout,
    tools: &Tools,
    processes: &Processes,
    kubectl: &Kubectl,
    site: &Site,
) -> anyhow::Result<()> {
    pki::create(layout, site)?;
    processes.start("etcd", &mut etcd(layout, tools, site))?;
    processes.start("kube-apiserver", &mut api_server(layout, tools, site))?;
    wait::until("the API server to be ready", READY_LIMIT, LOOK_EVERY, || {
        for name in ["etcd", "kube-apiserver"] {
            processes.check(name)?;
        }
        Ok(match kubectl.run(&["get", "--raw=/readyz"]) {
            Ok(_) => Look::Done(()),
            Err(error) => Look::NotYet(error.to_string()),
        })
    })?;
    processes.start(
        "kube-controller-manager",
        &mut controller_manager(layout, tools, site),
    )
}

/// Starts the scheduler, which only a cluster with a node needs.
pub(super) fn schedule(layout: &Layout, tools: &Tools, processes: &Processes) -> anyhow::Result<()> {
    processes.start("kube-scheduler", &mut client(layout, tools, "kube-scheduler"))
}

fn etcd(layout: &Layout, tools: &Tools, site: &Site) -> Command {
    let local = &site.local;
    let mut command = Command::new(tools.program("etcd"));
    command.arg("--data-dir").arg(layout.at("etcd"));
    command.args([
        format!("--listen-client-urls=http://{local}:2379"),
        format!("--advertise-client-urls=http://{local}:2379"),
        format!("--listen-peer-urls=http://{local}:2380"),
    ]);
    command.args([
        // The state is deleted with the cluster, so it need not survive a power failure.
        "--unsafe-no-fsync",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]);
    command
}

fn api_server(layout: &Layout, tools: &Tools, site: &Site) -> Command {
    let file = |flag: &str, name: &str| format!("--{flag}={}", layout.pki().join(name).display());
    let mut command = Command::new(tools.program("kube-apiserver"));
    command
        .args([
            format!("--etcd-servers=http://{}:2379", site.local),
            format!("--advertise-address={}", site.address),
            format!("--bind-address={}", site.bind),
            format!("--secure-port={}", site.port),
            format!("--service-cluster-ip-range={}", Network::SERVICES),
        ])
        .args([
            file("tls-cert-file", "kube-apiserver.crt"),
            file("tls-private-key-file", "kube-apiserver.key"),
            file("client-ca-file", "ca.crt"),
            file("service-account-key-file", "service-accounts.crt"),
            file("service-account-signing-key-file", "service-accounts.key"),
            file("kubelet-client-certificate", "admin.crt"),
            file("kubelet-client-key", "admin.key"),
            file("kubelet-certificate-authority", "ca.crt"),
        ])
        .args([
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            // As on some distributions, only clients that may set finalizers may set blockOwnerDeletion.
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
            // Webhooks are called at pod addresses, without kube-proxy in between.
            "--enable-aggregator-routing=true",
            // The node's name does not resolve; logs and exec need its address.
            "--kubelet-preferred-address-types=InternalIP",
        ]);
    command
}

fn controller_manager(layout: &Layout, tools: &Tools, site: &Site) -> Command {
    let mut command = client(layout, tools, "kube-controller-manager");
    command.arg(format!("--cluster-cidr={}", Network::PODS));
    command.arg(format!(
        "--root-ca-file={}",
        layout.pki().join("ca.crt").display()
    ));
    let signing_key = layout.pki().join("service-accounts.key");
    command.arg(format!(
        "--service-account-private-key-file={}",
        signing_key.display()
    ));
    command.args([
        "--use-service-account-credentials=true",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]);
    if !site.controllers_serve {
        command.arg("--secure-port=0");
    }
    command
}

fn client(layout: &Layout, tools: &Tools, name: &str) -> Command {
    let kubeconfig = layout.at(&format!("{name}.kubeconfig"));
    let mut command = Command::new(tools.program(name));
    for flag in [
        "kubeconfig",
        "authentication-kubeconfig",
        "authorization-kubeconfig",
    ] {
        command.arg(format!("--{flag}={}", kubeconfig.display()));
    }
    command.arg("--leader-elect=false");
    command
}
