//! etcd, the API server, the controllers and the scheduler.

use std::{process::Command, time::Duration};

use super::{LOOK_EVERY, Layout, Network, kubectl::Kubectl, pki, process::Processes, tools::Tools};
use crate::wait::{self, Look};

const READY_LIMIT: Duration = Duration::from_secs(90);

pub(super) fn up(
    layout: &Layout,
    tools: &Tools,
    processes: &Processes,
    kubectl: &Kubectl,
) -> anyhow::Result<()> {
    pki::create(layout)?;
    processes.start("etcd", &mut etcd(layout, tools))?;
    processes.start("kube-apiserver", &mut api_server(layout, tools))?;
    wait::until("the API server to be ready", READY_LIMIT, LOOK_EVERY, || {
        for name in ["etcd", "kube-apiserver"] {
            processes.check(name)?;
        }
        Ok(match kubectl.run(&["get", "--raw=/readyz"]) {
            Ok(_) => Look::Done(()),
            Err(error) => Look::NotYet(error.to_string()),
        })
    })?;
    processes.start("kube-controller-manager", &mut controller_manager(layout, tools))?;
    processes.start("kube-scheduler", &mut scheduler(layout, tools))
}

fn etcd(layout: &Layout, tools: &Tools) -> Command {
    let mut command = Command::new(tools.program("etcd"));
    command.arg("--data-dir").arg(layout.at("etcd")).args([
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        // The state is thrown away with the cluster: what a power failure would lose is not missed.
        "--unsafe-no-fsync",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]);
    command
}

fn api_server(layout: &Layout, tools: &Tools) -> Command {
    let file = |flag: &str, name: &str| format!("--{flag}={}", layout.pki().join(name).display());
    let mut command = Command::new(tools.program("kube-apiserver"));
    command
        .args([
            "--etcd-servers=http://127.0.0.1:2379".to_owned(),
            format!("--advertise-address={}", Network::NODE),
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
            "--bind-address=0.0.0.0",
            "--secure-port=6443",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            // Webhooks are called at pod addresses, without kube-proxy in between.
            "--enable-aggregator-routing=true",
            // The node's name does not resolve; logs and exec need its address.
            "--kubelet-preferred-address-types=InternalIP",
        ]);
    command
}

fn controller_manager(layout: &Layout, tools: &Tools) -> Command {
    let mut command = client(layout, tools, "kube-controller-manager");
    command.arg(format!("--cluster-cidr={}", Network::PODS));
    command.arg(format!("--root-ca-file={}", layout.pki().join("ca.crt").display()));
    let signing_key = layout.pki().join("service-accounts.key");
    command.arg(format!("--service-account-private-key-file={}", signing_key.display()));
    command.args(["--use-service-account-credentials=true", "--kube-api-qps=200", "--kube-api-burst=400"]);
    command
}

fn scheduler(layout: &Layout, tools: &Tools) -> Command {
    client(layout, tools, "kube-scheduler")
}

fn client(layout: &Layout, tools: &Tools, name: &str) -> Command {
    let kubeconfig = layout.at(&format!("{name}.kubeconfig"));
    let mut command = Command::new(tools.program(name));
    for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        command.arg(format!("--{flag}={}", kubeconfig.display()));
    }
    command.arg("--leader-elect=false");
    command
}
