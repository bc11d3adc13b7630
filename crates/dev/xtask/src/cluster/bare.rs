//! Management clusters without a node, beside the cluster with a node: etcd, API server and controllers, Cluster API
//! and our providers installed by clusterctl, and their managers as processes. They start within half a minute and are
//! independent of each other, for tests of moves between management clusters.

use std::path::Path;

use nephele_components::{self as components, Role};

use super::{
    control_plane, init,
    kubectl::Kubectl,
    layout::Layout,
    managers, packages,
    repository::Repository,
    site::{self, Number},
    steps::Steps,
    tools::{ClusterApi, Tools},
};
use crate::release;

/// The group of ExtensionConfigs.
const REGISTRATIONS: &str = "runtime.cluster.x-k8s.io";

/// The description of a cluster.
pub(crate) struct Description<'a> {
    pub(crate) name: &'a str,
    pub(crate) program: &'a Path,
    /// The namespace of our providers, instead of one for each.
    pub(crate) target_namespace: Option<&'a str>,
    /// The release of Cluster API.
    pub(crate) cluster_api: ClusterApi,
    /// Whether our runtime extension is installed.
    pub(crate) runtime_extension: bool,
}

/// Starts a cluster. A running cluster stays as it is.
pub(crate) fn up(wanted: &Description<'_>) -> anyhow::Result<()> {
    let mut steps = Steps::new();
    let layout = Layout::bare(wanted.name)?;
    packages::install(false)?;
    let tools = Tools::build(wanted.cluster_api)?;
    steps.done("tools");
    let processes = layout.processes()?;
    let kubectl = Kubectl::new(tools.program("kubectl"), layout.kubeconfig());
    let runs = super::process::BARE.iter().all(|name| processes.is_running(name));
    let works = runs && kubectl.is_answered();
    if !works {
        down(wanted.name)?;
        std::fs::create_dir_all(layout.at(""))?;
    }
    let processes = layout.processes()?;
    let number = Number::of(&layout)?;
    tools.link(&layout.at("bin"))?;
    if !works {
        number.link_up()?;
        control_plane::up(&layout, &tools, &processes, &kubectl, &number.site())?;
        steps.done("control plane");
        init::certificates(&layout, &processes, &kubectl)?;
    }
    Repository::lay_out(&layout, &tools)?;
    release::lay_out(&Repository::folder(&layout), release::VERSION, components::IMAGE)?;
    let gates: &[_] = if wanted.runtime_extension {
        &init::WITH_RUNTIME_SDK
    } else {
        &[]
    };
    init::cluster_api(&layout, &tools, &kubectl, gates)?;
    install(wanted, &layout, &tools, &kubectl)?;
    steps.done("providers");
    managers::up(&layout, &tools, &processes, &kubectl, number, wanted.program)?;
    if wanted.runtime_extension {
        runtime_extension(wanted, &layout, &tools, &kubectl, number)?;
    }
    steps.done("managers");
    processes.check("certificates")
}

/// Installs our providers, if they are not installed.
fn install(
    wanted: &Description<'_>,
    layout: &Layout,
    tools: &Tools,
    kubectl: &Kubectl,
) -> anyhow::Result<()> {
    if !wanted.cluster_api.installs_us() {
        // Such an old clusterctl refuses providers with our contract. The definitions support both contracts.
        for role in [Role::Infrastructure, Role::Ipam] {
            kubectl.apply(&components::with_variables(
                &components::render(role, components::IMAGE),
                &|_| None,
            )?)?;
        }
        return Ok(());
    }
    if !init::is_installed(kubectl, release::LABEL) {
        let mut args = vec!["init", "--infrastructure", "in-memory", "--ipam", "in-cluster"];
        args.extend(
            wanted
                .target_namespace
                .map(|namespace| ["--target-namespace", namespace])
                .into_iter()
                .flatten(),
        );
        init::clusterctl(layout, tools.program("clusterctl"), &args)?;
    }
    Ok(())
}

/// Installs our runtime extension, if it is not installed, and directs Cluster API to its process. Cluster API's
/// webhook validates the registration, and there is no DNS for the name of its Service.
fn runtime_extension(
    wanted: &Description<'_>,
    layout: &Layout,
    tools: &Tools,
    kubectl: &Kubectl,
    number: Number,
) -> anyhow::Result<()> {
    let is_there = init::is_installed(kubectl, release::RUNTIME_EXTENSION_LABEL)
        || kubectl.items(&["extensionconfigs", "nephele"]).is_ok();
    if !is_there {
        if wanted.cluster_api.installs_us() {
            init::can_try_cert_manager(kubectl)?;
            let args = ["init", "--runtime-extension", "nephele"];
            init::clusterctl(layout, tools.program("clusterctl"), &args)?;
        } else {
            // Such old releases have only the first version of ExtensionConfigs.
            let components = components::render(Role::RuntimeExtension, components::IMAGE);
            let [newest, first] = ["v1beta2", "v1alpha1"].map(|version| format!("{REGISTRATIONS}/{version}"));
            kubectl.apply(&components::with_variables(&components, &|_| None)?.replace(&newest, &first))?;
        }
        let url = format!("https://localhost:{}", managers::runtime_extension_port(number));
        let config = serde_json::json!({"spec": {"clientConfig": {"service": null, "url": url}}}).to_string();
        kubectl.run(&[
            "patch",
            "extensionconfigs",
            "nephele",
            "--type=merge",
            "--patch",
            &config,
        ])?;
    }
    managers::up(
        layout,
        tools,
        &layout.processes()?,
        kubectl,
        number,
        wanted.program,
    )
}

/// Stops a cluster, if there is one of this name, and removes its state.
pub(crate) fn down(name: &str) -> anyhow::Result<()> {
    stop(name)?;
    let layout = Layout::bare(name)?;
    if layout.exists() { layout.remove() } else { Ok(()) }
}

/// Stops a cluster, if there is one of this name. Its state stays, without its number.
pub(crate) fn stop(name: &str) -> anyhow::Result<()> {
    let layout = Layout::bare(name)?;
    if !layout.exists() {
        return Ok(());
    }
    let processes = layout.processes()?;
    // Stop processes before those they depend on. In the other order, they would wait long before they give up.
    let servers = ["kube-controller-manager", "kube-apiserver", "etcd"];
    let mut names = processes.names()?;
    names.retain(|name| !servers.contains(&name.as_str()));
    names
        .iter()
        .map(String::as_str)
        .chain(servers)
        .try_for_each(|name| processes.stop(name))?;
    Number::read(&layout).map_or(Ok(()), |number| number.release(&layout))
}

/// Stops all clusters without a node.
pub(crate) fn all_down() -> anyhow::Result<()> {
    site::bare()?.iter().try_for_each(|(name, _)| down(name))
}
