//! `cargo xtask release`: the files of a release, laid out as a clusterctl local repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::{
    cluster::write,
    components::{self, Role},
    kube_state_metrics, paths,
};

/// What clusterctl calls the infrastructure provider.
pub(crate) const LABEL: &str = "infrastructure-in-memory";
/// What clusterctl calls the IPAM provider.
pub(crate) const IPAM_LABEL: &str = "ipam-in-cluster";
/// What clusterctl calls the runtime extension.
pub(crate) const RUNTIME_EXTENSION_LABEL: &str = "runtime-extension-nephele";
/// Names of their components files.
pub(crate) const COMPONENTS: &str = "infrastructure-components.yaml";
pub(crate) const IPAM_COMPONENTS: &str = "ipam-components.yaml";
pub(crate) const RUNTIME_EXTENSION_COMPONENTS: &str = "runtime-extension-components.yaml";
/// The folder for kube-state-metrics: no provider's, so that clusterctl does not look into it.
pub(crate) const METRICS: &str = "kube-state-metrics";
/// The version of the workspace, as a release is tagged.
pub(crate) const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

const METADATA: &str = "config/metadata.yaml";
/// Files of the infrastructure provider that are released as they are.
const FILES: [&str; 6] = [
    METADATA,
    "config/templates/cluster-template.yaml",
    "config/templates/cluster-template-ipam.yaml",
    "config/templates/cluster-template-machine-pool.yaml",
    "config/templates/cluster-template-topology.yaml",
    "config/templates/clusterclass-in-memory.yaml",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to; the providers' folders are made in there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The manager's image, with registry and tag.
    #[arg(long, default_value = components::IMAGE)]
    image: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    lay_out(&args.out, &args.image)?;
    for label in [LABEL, IPAM_LABEL, RUNTIME_EXTENSION_LABEL, METRICS] {
        println!("{}", folder(&args.out, label).display());
    }
    Ok(())
}

/// Lays the release out with the manager in this image.
pub(crate) fn lay_out(out: &Path, image: &str) -> anyhow::Result<()> {
    let infrastructure = folder(out, LABEL);
    let components = components::render(Role::Infrastructure, image);
    write(&infrastructure.join(COMPONENTS), components)?;
    FILES.iter().try_for_each(|file| copy(file, &infrastructure))?;
    let ipam = folder(out, IPAM_LABEL);
    write(&ipam.join(IPAM_COMPONENTS), components::render(Role::Ipam, image))?;
    let extension = folder(out, RUNTIME_EXTENSION_LABEL);
    let components = components::render(Role::RuntimeExtension, image);
    write(&extension.join(RUNTIME_EXTENSION_COMPONENTS), components)?;
    copy(METADATA, &extension)?;
    copy(METADATA, &ipam)?;
    let metrics = folder(out, METRICS);
    kube_state_metrics::FILES.iter().try_for_each(|file| copy(file, &metrics))
}

/// The folder of a provider's release, or of what goes with all of them.
fn folder(out: &Path, label: &str) -> PathBuf {
    out.join(label).join(VERSION)
}

fn copy(file: &str, folder: &Path) -> anyhow::Result<()> {
    let source = paths::repository().join(file);
    let text = fs::read(&source).with_context(|| format!("failed to read {}", source.display()))?;
    write(&folder.join(source.file_name().expect("files have names")), text)
}

/// Components as clusterctl makes them when no variable is set: `${VARIABLE:=default}` is its default, `$$` is `$`.
pub(crate) fn with_defaults(text: &str) -> anyhow::Result<String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else {
            let variable = after.strip_prefix('{').and_then(|after| after.split_once('}'));
            let (variable, after) = variable.context("a $ that is neither a variable nor escaped")?;
            let (_, default) =
                variable.split_once(":=").with_context(|| format!("{variable} has no default"))?;
            expanded.push_str(default);
            rest = after;
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_their_defaults_and_dollars_themselves() {
        assert_eq!(with_defaults("a ${A:=:8443} b$$ ${B:=c}").expect("expanded"), "a :8443 b$ c");
        assert!(with_defaults("${A}").is_err() && with_defaults("$A").is_err());
    }
}
