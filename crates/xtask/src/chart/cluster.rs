//! `cargo xtask helm`: the packaged chart on a real cluster.
//!
//! ```text
//!  cluster with the providers ─clusterctl delete─▶ bare Cluster API ─tests of e2e/tests/helm─▶ ─clusterctl init─▶ as before
//! ```

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Context;

use super::helm::Helm;
use crate::{
    cluster::{LOOK_EVERY, Layout, Repository},
    command::{capture, path_with, show},
    paths,
    place::{Found, Place},
    wait::{self, Look},
};

/// What clusterctl has installed, and what the chart is instead.
const PROVIDERS: [[&str; 2]; 2] = [["--ipam", "in-cluster"], ["--infrastructure", "in-memory"]];
/// By parts of the names of their definitions and namespaces.
const OURS: [&str; 5] =
    ["/inmemory", "incluster", "/simulatedcloud", "/nephele-system", "/capi-ipam-in-cluster-system"];
const GONE_LIMIT: Duration = Duration::from_secs(60);
const MANAGER: [&str; 6] = [
    "get",
    "deployment",
    "nephele-controller-manager",
    "--namespace=nephele-system",
    "--output",
    "jsonpath={.spec.template.spec.containers[0].image}",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.place.work(|found| {
        let helm = Helm::new()?;
        let packed = paths::cache()?.join("chart");
        let said = helm.package(&packed).context("failed to pack the chart")?;
        let chart = said.trim().rsplit(' ').next().map(PathBuf::from).context("Helm named no file")?;
        // The same image, which is on the node already.
        let image = capture(command(found, "kubectl")?.args(MANAGER))?;
        bare(found)?;
        show(&mut tests(found, helm.program(), &chart, &image)?)?;
        show(command(found, "clusterctl")?.arg("init").args(PROVIDERS.concat()))
    })
}

/// A program that speaks to the cluster.
fn command(found: &Found, program: &str) -> anyhow::Result<Command> {
    let path = found.programs.as_ref().map_or_else(|| program.into(), |folder| folder.join(program));
    let mut command = Command::new(path);
    command.env("KUBECONFIG", &found.kubeconfig);
    if program == "clusterctl" {
        command.env("CLUSTER_TOPOLOGY", "true").env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        if found.programs.is_some() {
            command.arg("--config").arg(Repository::config_file(&Layout::new()?));
        }
    }
    Ok(command)
}

/// Removes what clusterctl has installed.
fn bare(found: &Found) -> anyhow::Result<()> {
    // One after the other: clusterctl would look for objects of the kinds that it has just removed.
    for provider in PROVIDERS {
        let delete = ["delete", "--include-crd", "--include-namespace"];
        show(command(found, "clusterctl")?.args(delete).args(provider))?;
    }
    wait::until("what clusterctl installed to be gone", GONE_LIMIT, LOOK_EVERY, || {
        let names = capture(command(found, "kubectl")?.args(["get", "crd,namespaces", "--output=name"]))?;
        let left: Vec<_> = names.lines().filter(|name| OURS.iter().any(|ours| name.contains(ours))).collect();
        Ok(if left.is_empty() { Look::Done(()) } else { Look::NotYet(left.join(", ")) })
    })
}

fn tests(found: &Found, helm: &Path, chart: &Path, image: &str) -> anyhow::Result<Command> {
    let folders = found.programs.as_deref().into_iter().chain(helm.parent());
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--locked", "--package", "nephele-e2e", "--features", "helm", "--test", "helm"]);
    cargo.env("KUBECONFIG", &found.kubeconfig).env("PATH", path_with(folders)?);
    cargo.env("NEPHELE_E2E_CHART", chart).env("NEPHELE_E2E_IMAGE", image).env("RUST_BACKTRACE", "0");
    cargo.current_dir(paths::repository());
    Ok(cargo)
}
