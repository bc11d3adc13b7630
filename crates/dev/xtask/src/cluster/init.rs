//! DNS, the replacement of cert-manager, and Cluster API by `clusterctl init`.

use std::{path::Path, process::Command, time::Duration};

use anyhow::Context;

use super::{
    images::{Image, name_of_tool},
    kubectl::Kubectl,
    layout::Layout,
    network::Network,
    process::Processes,
    repository::Repository,
    tools::Tools,
};
use crate::command::capture;

const DNS: &str = include_str!("../../../../../e2e/cluster/dns.yaml");
const CERTIFICATE_DEFINITIONS: &str = include_str!("../../../../../e2e/cluster/certificate-definitions.yaml");

const AVAILABLE_LIMIT: Duration = Duration::from_secs(180);

pub(super) fn up(
    layout: &Layout,
    tools: &Tools,
    processes: &Processes,
    kubectl: &Kubectl,
) -> anyhow::Result<()> {
    Image::of_tool(tools, "coredns")?.load(layout, tools)?;
    let dns = DNS
        .replace("DNS_IMAGE", &name_of_tool("coredns"))
        .replace("DNS_ADDRESS", Network::DNS_SERVICE);
    kubectl.apply(&dns)?;
    certificates(layout, processes, kubectl)?;
    for program in Repository::programs() {
        Image::of_tool(tools, program)?.load(layout, tools)?;
    }
    Repository::lay_out(layout, tools)?;
    cluster_api(layout, tools, kubectl, &[])?;
    kubectl.wait_for_deployments(None, AVAILABLE_LIMIT)?;
    processes.check("certificates")
}

/// Starts the process that issues Certificates.
pub(super) fn certificates(layout: &Layout, processes: &Processes, kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl.apply(CERTIFICATE_DEFINITIONS)?;
    kubectl.run(&[
        "wait",
        "--for=condition=Established",
        "--timeout=30s",
        "crd/certificates.cert-manager.io",
    ])?;
    if !processes.is_running("certificates") {
        let this = std::env::current_exe().context("failed to find this program")?;
        let mut certificates = Command::new(this);
        certificates
            .args(["cluster", "certificates", "--keys"])
            .arg(layout.pki())
            .env("KUBECONFIG", layout.kubeconfig());
        processes.start("certificates", &mut certificates)?;
    }
    Ok(())
}

/// clusterctl's variables for the feature gates that runtime extensions need.
pub(super) const WITH_RUNTIME_SDK: [(&str, &str); 2] =
    [("EXP_RUNTIME_SDK", "true"), ("EXP_IN_PLACE_UPDATES", "true")];

/// Installs Cluster API from the repository, if it is not installed, with these feature gates in addition to those
/// that all tests need.
pub(super) fn cluster_api(
    layout: &Layout,
    tools: &Tools,
    kubectl: &Kubectl,
    gates: &[(&str, &str)],
) -> anyhow::Result<()> {
    if !is_installed(kubectl, "cluster-api") {
        let version = tools.cluster_api().version();
        let core = format!("cluster-api:{version}");
        let kubeadm = format!("kubeadm:{version}");
        let args = [
            "init",
            "--core",
            &core,
            "--bootstrap",
            &kubeadm,
            "--control-plane",
            &kubeadm,
        ];
        clusterctl_with(layout, tools.program("clusterctl"), &args, gates)?;
        can_try_cert_manager(kubectl)?;
    }
    Ok(())
}

/// Waits until clusterctl's test objects for cert-manager are gone. Until then, clusterctl cannot test again.
pub(super) fn can_try_cert_manager(kubectl: &Kubectl) -> anyhow::Result<()> {
    kubectl
        .run(&[
            "wait",
            "--for=delete",
            "--timeout=60s",
            "namespace/cert-manager-test",
        ])
        .map(drop)
}

/// Whether clusterctl has recorded a provider as installed.
pub(crate) fn is_installed(kubectl: &Kubectl, label: &str) -> bool {
    // Before the first `init` the kind does not exist.
    let providers = kubectl
        .items(&["providers.clusterctl.cluster.x-k8s.io", "-A"])
        .unwrap_or_default();
    providers
        .iter()
        .any(|provider| provider["metadata"]["name"] == label)
}

/// Runs clusterctl with the local repository and the feature gates that the tests need.
pub(crate) fn clusterctl(layout: &Layout, program: &Path, args: &[&str]) -> anyhow::Result<String> {
    clusterctl_with(layout, program, args, &[])
}

/// The same with these variables, such as other feature gates.
pub(crate) fn clusterctl_with(
    layout: &Layout,
    program: &Path,
    args: &[&str],
    variables: &[(&str, &str)],
) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command
        .arg("--config")
        .arg(Repository::config_file(layout))
        .args(args)
        .env("KUBECONFIG", layout.kubeconfig())
        .env("CLUSTER_TOPOLOGY", "true")
        .envs(variables.iter().copied())
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
    capture(&mut command)
}
