//! The programs of Kubernetes and Cluster API, built from their Go modules. `e2e/tools` pins the versions: a folder
//! with go.mod and go.sum for each.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
use sha2::{Digest, Sha256};

use crate::{
    command::{capture, show},
    files::hex,
    paths,
};

struct Module {
    name: &'static str,
    /// Each program with its package.
    programs: &'static [(&'static str, &'static str)],
    tags: &'static str,
    linker_flags: &'static str,
}

const MODULES: [Module; 5] = [
    Module {
        name: "kubernetes",
        programs: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            (
                "kube-controller-manager",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
            ),
            ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
            ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
            ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        ],
        tags: "",
        linker_flags: "-X k8s.io/component-base/version.gitVersion=v1.36.3 \
                       -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36",
    },
    Module {
        name: "etcd",
        programs: &[("etcd", "go.etcd.io/etcd/server/v3")],
        tags: "",
        linker_flags: "",
    },
    Module {
        name: "containerd",
        programs: &[
            ("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
            (
                "containerd-shim-runc-v2",
                "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
            ),
            ("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
        ],
        // Without the snapshotters that need C libraries. No test uses them.
        tags: "no_btrfs no_zfs no_devmapper",
        linker_flags: "",
    },
    Module {
        name: "coredns",
        programs: &[("coredns", "github.com/coredns/coredns")],
        tags: "",
        linker_flags: "",
    },
    Module {
        name: "pause",
        programs: &[("pause", "nephele.dev/e2e/tools/pause")],
        tags: "",
        linker_flags: "",
    },
];

/// A release of Cluster API that tests use. Each has its own programs and sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ClusterApi {
    /// The newest release, contract v1beta2.
    #[default]
    #[value(name = "1.14")]
    V1_14,
    /// Contract v1beta2.
    #[value(name = "1.13")]
    V1_13,
    /// Contract v1beta2.
    #[value(name = "1.12")]
    V1_12,
    /// The first release with contract v1beta2.
    #[value(name = "1.11")]
    V1_11,
    /// The last release that has only contract v1beta1.
    #[value(name = "1.10")]
    V1_10,
    /// Contract v1beta1, and Runtime SDK only in its first version.
    #[value(name = "1.8")]
    V1_8,
}

impl ClusterApi {
    /// Version in go.mod.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::V1_14 => "v1.14.2",
            Self::V1_13 => "v1.13.6",
            Self::V1_12 => "v1.12.5",
            Self::V1_11 => "v1.11.7",
            Self::V1_10 => "v1.10.10",
            Self::V1_8 => "v1.8.4",
        }
    }

    /// Its name among the values of the command line.
    pub(crate) fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self).expect("no release is hidden");
        value.get_name().to_owned()
    }

    /// The contract of its providers.
    pub(crate) fn contract(self) -> &'static str {
        if matches!(self, Self::V1_10 | Self::V1_8) {
            "v1beta1"
        } else {
            "v1beta2"
        }
    }

    /// Whether its clusterctl installs providers of our contract.
    pub(crate) fn installs_us(self) -> bool {
        self.contract() == "v1beta2"
    }

    /// The folder of its core provider's kustomization, in its module.
    pub(crate) fn core_config(self) -> &'static str {
        match self {
            Self::V1_14 => "core/config/default",
            _ => "config/default",
        }
    }

    fn module(self) -> Module {
        let (name, programs) = match self {
            Self::V1_14 => ("cluster-api", &CORE_OF_ITS_OWN),
            Self::V1_13 => ("cluster-api-1.13", &CORE_AT_THE_ROOT),
            Self::V1_12 => ("cluster-api-1.12", &CORE_AT_THE_ROOT),
            Self::V1_11 => ("cluster-api-1.11", &CORE_AT_THE_ROOT),
            Self::V1_10 => ("cluster-api-1.10", &CORE_AT_THE_ROOT),
            Self::V1_8 => ("cluster-api-1.8", &CORE_AT_THE_ROOT),
        };
        Module {
            name,
            programs,
            tags: "",
            linker_flags: "",
        }
    }

    /// The folder of its Go module, which includes its kustomize folders.
    pub(crate) fn sources(self) -> anyhow::Result<PathBuf> {
        sources(&module_folder(self.module().name), "sigs.k8s.io/cluster-api")
    }
}

/// The folder of a Go module that the module in a folder pins, with all its files.
pub(crate) fn sources(folder: &Path, module: &str) -> anyhow::Result<PathBuf> {
    let mut go = Command::new("go");
    go.arg("list")
        .arg("-C")
        .arg(folder)
        .args(["-m", "-f", "{{.Dir}}", module]);
    Ok(capture(&mut go)?.trim().into())
}

const CORE_OF_ITS_OWN: [(&str, &str); 4] = cluster_api("sigs.k8s.io/cluster-api/core");
const CORE_AT_THE_ROOT: [(&str, &str); 4] = cluster_api("sigs.k8s.io/cluster-api");

const fn cluster_api(core: &'static str) -> [(&'static str, &'static str); 4] {
    [
        ("cluster-api", core),
        ("bootstrap-kubeadm", "sigs.k8s.io/cluster-api/bootstrap/kubeadm"),
        (
            "control-plane-kubeadm",
            "sigs.k8s.io/cluster-api/controlplane/kubeadm",
        ),
        ("clusterctl", "sigs.k8s.io/cluster-api/cmd/clusterctl"),
    ]
}

/// A provider that does the same work as one of ours, to measure it beside ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Cluster API's in-memory provider.
    InMemory,
    /// The in-cluster IPAM provider.
    InCluster,
}

impl Peer {
    /// The program, which is also the name of its folder under e2e/tools.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::InMemory => "peer-in-memory",
            Self::InCluster => "peer-in-cluster",
        }
    }

    fn go_module(self) -> &'static str {
        match self {
            Self::InMemory => "sigs.k8s.io/cluster-api/test",
            Self::InCluster => "sigs.k8s.io/cluster-api-ipam-provider-in-cluster",
        }
    }

    /// Its release.
    pub(crate) fn version(self) -> anyhow::Result<String> {
        let pins = module_folder(self.program()).join("go.mod");
        let pins = fs::read_to_string(&pins).with_context(|| format!("failed to read {}", pins.display()))?;
        let version = pins.lines().find_map(|line| {
            line.trim()
                .strip_prefix(self.go_module())?
                .split_whitespace()
                .next()
        });
        version
            .map(str::to_owned)
            .with_context(|| format!("{} is not pinned", self.go_module()))
    }

    /// The folder of its kustomization.
    pub(crate) fn config(self) -> anyhow::Result<PathBuf> {
        let config = match self {
            Self::InMemory => "infrastructure/docker/config/default",
            Self::InCluster => "config/default",
        };
        Ok(sources(&module_folder(self.program()), self.go_module())?.join(config))
    }

    fn module(self) -> Module {
        let programs: &'static [_] = match self {
            Self::InMemory => &[(
                "peer-in-memory",
                "sigs.k8s.io/cluster-api/test/infrastructure/docker",
            )],
            Self::InCluster => &[(
                "peer-in-cluster",
                "sigs.k8s.io/cluster-api-ipam-provider-in-cluster",
            )],
        };
        Module {
            name: self.program(),
            programs,
            tags: "",
            linker_flags: "",
        }
    }
}

/// Helm. Only the chart's checks need it, no cluster does.
const HELM: Module = Module {
    name: "helm",
    programs: &[("helm", "helm.sh/helm/v4/cmd/helm")],
    tags: "",
    linker_flags: "-X helm.sh/helm/v4/internal/version.version=v4.3.1",
};

/// Helm's path. Builds Helm if the cache does not have it.
pub(crate) fn helm() -> anyhow::Result<PathBuf> {
    let mut programs = BTreeMap::new();
    HELM.build(&capture(Command::new("go").arg("version"))?, &mut programs)?;
    Ok(programs.remove("helm").expect("helm is the module's program"))
}

impl Module {
    /// Builds the programs that the cache does not have, and adds their paths.
    fn build(&self, compiler: &str, programs: &mut BTreeMap<&'static str, PathBuf>) -> anyhow::Result<()> {
        let folder = paths::cache()?
            .join("tools")
            .join(format!("{}-{}", self.name, key(self, compiler)?));
        for (name, package) in self.programs {
            let program = folder.join(name);
            if !program.exists() {
                let _alone = alone(&folder)?;
                // Another process may have built it meanwhile.
                if !program.exists() {
                    println!("Building {name}");
                    compile(self, package, &program)?;
                }
            }
            programs.insert(*name, program);
        }
        Ok(())
    }
}

/// Waits until no other process builds into a folder, and keeps others from it until the file is closed.
fn alone(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("lock");
    let attempt = || format!("failed to lock {}", path.display());
    fs::create_dir_all(folder).with_context(attempt)?;
    let file = File::create(&path).with_context(attempt)?;
    file.lock().with_context(attempt)?;
    Ok(file)
}

/// The paths of all programs.
pub(crate) struct Tools {
    programs: BTreeMap<&'static str, PathBuf>,
    cluster_api: ClusterApi,
}

impl Tools {
    /// Builds the programs that the cache does not have.
    pub(crate) fn build(cluster_api: ClusterApi) -> anyhow::Result<Self> {
        let compiler = capture(Command::new("go").arg("version"))?;
        let mut programs = BTreeMap::new();
        for module in MODULES.iter().chain([&cluster_api.module()]) {
            module.build(&compiler, &mut programs)?;
        }
        Ok(Self {
            programs,
            cluster_api,
        })
    }

    /// Adds the program of a peer, building it if the cache does not have it.
    pub(crate) fn add(&mut self, peer: Peer) -> anyhow::Result<()> {
        let compiler = capture(Command::new("go").arg("version"))?;
        peer.module().build(&compiler, &mut self.programs)
    }

    /// The release of Cluster API.
    pub(crate) fn cluster_api(&self) -> ClusterApi {
        self.cluster_api
    }

    /// The path of a program.
    pub(crate) fn program(&self, name: &str) -> &Path {
        self.programs
            .get(name)
            .unwrap_or_else(|| panic!("{name} is in the list of programs"))
    }

    /// The key of the program's sources, as a file name.
    pub(crate) fn key(&self, name: &str) -> String {
        let folder = self
            .program(name)
            .parent()
            .and_then(Path::file_name)
            .expect("programs lie in keyed folders");
        format!("{name}-{}", folder.to_string_lossy())
    }

    /// Links the programs that people use into one folder.
    pub(crate) fn link(&self, folder: &Path) -> anyhow::Result<()> {
        let clients = ["kubectl", "clusterctl", "ctr", "kube-proxy"];
        // For `nephele up --cluster-api`.
        let servers = ["kube-apiserver", "etcd"];
        let managers = ["cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm"];
        self.link_all(clients.into_iter().chain(servers).chain(managers), folder)
    }

    /// Links the programs of a control plane into one folder.
    pub(crate) fn link_control_plane(&self, folder: &Path) -> anyhow::Result<()> {
        self.link_all(["kube-apiserver", "etcd", "kube-controller-manager"], folder)
    }

    fn link_all<'a>(&self, names: impl IntoIterator<Item = &'a str>, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        for name in names {
            let link = folder.join(name);
            if link.symlink_metadata().is_ok() {
                fs::remove_file(&link).with_context(|| format!("failed to replace {}", link.display()))?;
            }
            std::os::unix::fs::symlink(self.program(name), &link)
                .with_context(|| format!("failed to link {}", link.display()))?;
        }
        Ok(())
    }
}

/// The folder with a module's pinned versions.
pub(crate) fn module_folder(name: &str) -> PathBuf {
    paths::repository().join("e2e/tools").join(name)
}

fn compile(module: &Module, package: &str, program: &Path) -> anyhow::Result<()> {
    // The program is renamed when it is complete, so that an interrupted build leaves no broken program. Clusters that
    // start at the same time may build the same program.
    let unfinished = program.with_extension(format!("unfinished-{}", std::process::id()));
    let linker_flags = format!("-s -w {}", module.linker_flags);
    let mut go = Command::new("go");
    go.args(["build", "-C"]).arg(module_folder(module.name));
    go.args(["-tags", module.tags, "-ldflags", linker_flags.trim_end(), "-o"])
        .arg(&unfinished)
        .arg(package);
    show(go.env("CGO_ENABLED", "0"))?;
    fs::rename(&unfinished, program)
        .with_context(|| format!("failed to move {} into place", program.display()))
}

fn key(module: &Module, compiler: &str) -> anyhow::Result<String> {
    let folder = module_folder(module.name);
    let mut digest = Sha256::new();
    for text in [compiler, module.tags, module.linker_flags] {
        digest.update(text);
        digest.update([0]);
    }
    for file in ["go.mod", "go.sum", "main.go"] {
        let path = folder.join(file);
        if path.exists() {
            digest.update(fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?);
        }
        digest.update([0]);
    }
    Ok(hex(&digest.finalize()[..6]))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn the_versions_of_cluster_api_are_those_pinned() {
        for release in ClusterApi::value_variants() {
            let module = module_folder(release.module().name);
            let pins = fs::read_to_string(module.join("go.mod")).expect("readable");
            let pinned = pins
                .lines()
                .find_map(|line| line.trim().strip_prefix("sigs.k8s.io/cluster-api "));
            assert_eq!(
                pinned,
                Some(format!("{} // indirect", release.version()).as_str())
            );
        }
    }

    #[test]
    fn the_version_of_helm_is_the_one_pinned() {
        let pins = fs::read_to_string(module_folder("helm").join("go.mod")).expect("readable");
        let pinned = pins
            .lines()
            .find_map(|line| line.trim().strip_prefix("helm.sh/helm/v4 "));
        let said = HELM.linker_flags.rsplit('=').next();
        assert_eq!(pinned.and_then(|version| version.split(' ').next()), said);
    }

    #[test]
    fn a_change_of_flags_is_another_key() {
        let [kubernetes, ..] = MODULES;
        let before = key(&kubernetes, "go1").expect("readable");
        assert_ne!(key(&kubernetes, "go2").expect("readable"), before);
        assert_ne!(
            key(
                &Module {
                    tags: "x",
                    ..kubernetes
                },
                "go1"
            )
            .expect("readable"),
            before
        );
    }
}
