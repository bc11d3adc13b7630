//! `cargo xtask release`: the files of a release, laid out as a clusterctl local repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use nephele_components::{self as components, Role};

use crate::{files::write, kube_state_metrics, paths};

/// clusterctl's name of the infrastructure provider.
pub(crate) const LABEL: &str = "infrastructure-in-memory";
/// clusterctl's name of the IPAM provider.
pub(crate) const IPAM_LABEL: &str = "ipam-in-cluster";
/// clusterctl's name of the runtime extension.
pub(crate) const RUNTIME_EXTENSION_LABEL: &str = "runtime-extension-nephele";
/// Names of their components files.
pub(crate) const COMPONENTS: &str = "infrastructure-components.yaml";
pub(crate) const IPAM_COMPONENTS: &str = "ipam-components.yaml";
pub(crate) const RUNTIME_EXTENSION_COMPONENTS: &str = "runtime-extension-components.yaml";
/// The folder for kube-state-metrics. It belongs to no provider, so clusterctl ignores it.
pub(crate) const METRICS: &str = "kube-state-metrics";
/// The version of the workspace, as releases are tagged.
pub(crate) const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

const METADATA: &str = "config/metadata.yaml";
/// Each provider's label and components file.
const PROVIDERS: [(Role, &str, &str); 3] = [
    (Role::Infrastructure, LABEL, COMPONENTS),
    (Role::Ipam, IPAM_LABEL, IPAM_COMPONENTS),
    (
        Role::RuntimeExtension,
        RUNTIME_EXTENSION_LABEL,
        RUNTIME_EXTENSION_COMPONENTS,
    ),
];
/// Files of the infrastructure provider that are released unchanged.
const TEMPLATES: [&str; 7] = [
    "config/templates/cluster-template.yaml",
    "config/templates/cluster-template-autoscaler.yaml",
    "config/templates/cluster-template-ipam.yaml",
    "config/templates/cluster-template-machine-pool.yaml",
    "config/templates/cluster-template-scale.yaml",
    "config/templates/cluster-template-topology.yaml",
    "config/templates/clusterclass-in-memory.yaml",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Output folder; the providers' folders are created in it.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The manager's image, with registry and tag.
    #[arg(long, default_value = components::IMAGE)]
    image: String,
}

#[cfg(test)]
impl Args {
    /// The defaults, when only the folder is given.
    pub(crate) fn of(out: &Path) -> Self {
        use clap::{Args as _, FromArgMatches as _};
        let command = Self::augment_args(clap::Command::new("release"));
        let matches = command.get_matches_from(["release".as_ref(), "--out".as_ref(), out.as_os_str()]);
        Self::from_arg_matches(&matches).expect("a folder is all it takes")
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    lay_out(&args.out, VERSION, &args.image)?;
    for label in [LABEL, IPAM_LABEL, RUNTIME_EXTENSION_LABEL, METRICS] {
        println!("{}", folder(&args.out, label, VERSION).display());
    }
    Ok(())
}

/// Lays the release out under a version, with this image of the manager.
pub(crate) fn lay_out(out: &Path, version: &str, image: &str) -> anyhow::Result<()> {
    let folder = |label: &str| folder(out, label, version);
    for (role, label, components) in PROVIDERS {
        write(&folder(label).join(components), components::render(role, image))?;
        copy(METADATA, &folder(label))?;
    }
    TEMPLATES.iter().try_for_each(|file| copy(file, &folder(LABEL)))?;
    kube_state_metrics::FILES
        .iter()
        .try_for_each(|file| copy(file, &folder(METRICS)))
}

/// Writes the files that clusterctl downloads from a release into one folder.
pub(crate) fn flatten(out: &Path) -> anyhow::Result<()> {
    for (role, _, components) in PROVIDERS {
        write(&out.join(components), components::render(role, components::IMAGE))?;
    }
    copy(METADATA, out)?;
    TEMPLATES.iter().try_for_each(|file| copy(file, out))
}

/// The folder of a provider's release, or of files for all of them.
fn folder(out: &Path, label: &str, version: &str) -> PathBuf {
    out.join(label).join(version)
}

fn copy(file: &str, folder: &Path) -> anyhow::Result<()> {
    let source = paths::repository().join(file);
    let text = fs::read(&source).with_context(|| format!("failed to read {}", source.display()))?;
    write(&folder.join(source.file_name().expect("files have names")), text)
}
