//! `cargo xtask cluster`: etcd, API server, controllers, containerd, kubelet and kube-proxy as processes of this
//! machine, and Cluster API installed by `clusterctl` from a local repository.
//!
//! ```text
//!  packages ─▶ tools ─▶ control plane ─▶ node ─▶ images ─▶ dns, certificates ─▶ repository ─▶ init
//! ```
//!
//! Programs and images are kept in the cache folder, keyed by their sources. `down` deletes the state, so every
//! `up` starts with an empty cluster.

mod bare;
mod certificates;
mod control_plane;
mod images;
mod init;
mod kubectl;
mod layout;
mod leftovers;
mod managers;
mod network;
mod node;
mod packages;
mod peers;
mod pki;
mod process;
mod repository;
mod running;
mod site;
mod steps;
mod tools;

use std::{fs, path::PathBuf};

use anyhow::{Context, bail};
use clap::Subcommand;

pub(crate) use self::{
    images::{Image, save},
    init::{clusterctl, clusterctl_with, is_installed},
    kubectl::Kubectl,
    layout::Layout,
    peers::beside,
    repository::Repository,
    running::Cluster,
    tools::{ClusterApi, Peer, Tools, helm, sources},
};
use self::{site::Site, steps::Steps};

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Start the cluster, or complete one that is running.
    Up {
        /// Only etcd, the API server and controllers: no pods run, and Cluster API is not installed.
        #[arg(long)]
        no_node: bool,
        /// A management cluster without a node, beside all others, with Cluster API and our providers as processes.
        #[arg(long, value_name = "NAME", conflicts_with = "no_node", requires = "program")]
        bare: Option<String>,
        /// Our program, for the managers of a cluster without a node.
        #[arg(long, value_name = "FILE", requires = "bare")]
        program: Option<PathBuf>,
        /// Namespace of our providers on a cluster without a node, instead of one for each.
        #[arg(long, value_name = "NAMESPACE", requires = "bare")]
        target_namespace: Option<String>,
        /// The release of Cluster API on a cluster without a node.
        #[arg(long, value_enum, default_value_t, requires = "bare")]
        cluster_api: ClusterApi,
        /// Install our runtime extension on a cluster without a node, with the feature gates that it needs.
        #[arg(long, requires = "bare")]
        runtime_extension: bool,
    },
    /// Stop what `up` started and delete its state: all clusters, or the named one.
    Down {
        /// Only this cluster without a node.
        #[arg(long, value_name = "NAME")]
        bare: Option<String>,
    },
    /// Stop a cluster without a node, and keep its state, with the logs.
    Stop {
        #[arg(long, value_name = "NAME")]
        bare: String,
    },
    /// Print the environment for using the cluster, for `eval`.
    Env {
        /// For this cluster without a node.
        #[arg(long, value_name = "NAME")]
        bare: Option<String>,
    },
    /// Serve Certificate objects, as cert-manager would; `up` starts it.
    #[command(hide = true)]
    Certificates {
        /// Folder of the authority.
        #[arg(long, value_name = "FOLDER")]
        keys: PathBuf,
    },
}

pub(crate) fn run(action: &Action) -> anyhow::Result<()> {
    let layout = Layout::new()?;
    match action {
        Action::Up {
            bare: Some(name),
            program: Some(program),
            target_namespace,
            cluster_api,
            runtime_extension,
            ..
        } => bare::up(&bare::Description {
            name,
            program,
            target_namespace: target_namespace.as_deref(),
            cluster_api: *cluster_api,
            runtime_extension: *runtime_extension,
        }),
        Action::Up { no_node, .. } => up(&layout, !no_node).map(|_| ()),
        Action::Down { bare: Some(name) } => bare::down(name),
        Action::Down { bare: None } => bare::all_down().and(down(&layout)),
        Action::Stop { bare } => bare::stop(bare),
        Action::Env { bare: Some(name) } => env(&Layout::bare(name)?),
        Action::Env { bare: None } => env(&layout),
        Action::Certificates { keys } => certificates::serve(keys),
    }
}

/// Starts the cluster. Running processes stay as they are.
pub(crate) fn up(layout: &Layout, with_node: bool) -> anyhow::Result<Cluster> {
    let mut steps = Steps::new();
    packages::install(with_node)?;
    steps.done("packages");
    let tools = Tools::build(ClusterApi::default())?;
    steps.done("tools");
    let processes = layout.processes()?;
    let parts = if with_node {
        process::ALL
    } else {
        process::CONTROL_PLANE
    };
    let kubectl = Kubectl::new(tools.program("kubectl"), layout.kubeconfig());
    let runs = parts.iter().all(|name| processes.is_running(name));
    // Processes that survived an aborted run may not work any more.
    let works = runs && kubectl.is_answered() && (!with_node || kubectl.has_ready_node());
    if !works {
        // A partial cluster is not worth repairing.
        down(layout)?;
        fs::create_dir_all(&layout.state)
            .with_context(|| format!("failed to create {}", layout.state.display()))?;
    }
    tools.link(&layout.at("bin"))?;
    let processes = layout.processes()?;
    if !works {
        if with_node {
            network::up()?;
        }
        control_plane::up(layout, &tools, &processes, &kubectl, &Site::of_node())?;
        control_plane::schedule(layout, &tools, &processes)?;
        steps.done("control plane");
        if with_node {
            node::up(layout, &tools, &processes, &kubectl)?;
            steps.done("node");
        }
    }
    if with_node {
        let completed = init::up(layout, &tools, &processes, &kubectl);
        completed.context("failed to complete the cluster; `cargo xtask cluster down` removes it")?;
        steps.done("Cluster API");
    }
    println!("Up. Use it with: eval \"$(cargo xtask cluster env)\"");
    Ok(Cluster {
        layout: layout.clone(),
        tools,
        kubectl,
    })
}

/// The programs of Kubernetes and Cluster API without a cluster, for `nephele up --cluster-api`.
pub(crate) struct Programs {
    /// The folder with the programs.
    pub(crate) folder: PathBuf,
    /// By the name of each manager's program: the manifest of its provider.
    pub(crate) components: Vec<(&'static str, PathBuf)>,
    /// A folder with kube-apiserver and etcd, and with kube-controller-manager, which envtest does not have.
    pub(crate) control_plane: PathBuf,
}

/// Builds the programs, where the cache does not have them, and renders the manifests.
pub(crate) fn programs() -> anyhow::Result<Programs> {
    let tools = Tools::build(ClusterApi::default())?;
    let layout = Layout::of_programs()?;
    let folder = layout.at("bin");
    tools.link(&folder)?;
    let control_plane = layout.at("control-plane");
    tools.link_control_plane(&control_plane)?;
    let components = Repository::lay_out(&layout, &tools)?.components(ClusterApi::default());
    Ok(Programs {
        folder,
        components,
        control_plane,
    })
}

/// Stops the cluster, if there is one, and removes its state.
pub(crate) fn down(layout: &Layout) -> anyhow::Result<()> {
    if !layout.exists() {
        return Ok(());
    }
    let processes = layout.processes()?;
    let kubectl = Kubectl::new(layout.at("bin/kubectl"), layout.kubeconfig());
    let servers = ["kubelet", "kube-apiserver", "etcd"];
    if servers.iter().all(|name| processes.is_running(name)) && kubectl.is_answered() {
        // The kubelet removes the pods with their networks, while nothing creates new ones.
        for name in ["kube-controller-manager", "kube-scheduler"] {
            processes.stop(name)?;
        }
        if let Err(error) = kubectl.delete_pods() {
            eprintln!("Pods are stopped by force: {error:#}");
        }
    }
    for name in [
        "certificates",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "kube-proxy",
    ] {
        processes.stop(name)?;
    }
    leftovers::containers(layout, &processes)?;
    for name in ["containerd", "kube-apiserver", "etcd"] {
        processes.stop(name)?;
    }
    leftovers::shims(layout)?;
    leftovers::proxy_rules(layout);
    leftovers::mounts(&layout.state)?;
    network::down()?;
    layout.remove()
}

fn env(layout: &Layout) -> anyhow::Result<()> {
    let kubeconfig = layout.kubeconfig();
    if !kubeconfig.exists() {
        bail!("no cluster is up: start one with `cargo xtask cluster up`");
    }
    println!("export KUBECONFIG={}", kubeconfig.display());
    println!("export PATH={}:\"$PATH\"", layout.at("bin").display());
    println!(
        "export CLUSTERCTL_CONFIG={}",
        Repository::config_file(layout).display()
    );
    Ok(())
}
