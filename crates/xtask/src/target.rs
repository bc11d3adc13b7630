//! The cluster to work on: one of our own, or the cluster of KUBECONFIG.

use std::path::PathBuf;

use anyhow::Context;

use crate::{
    cluster::{self, Cluster, Layout},
    emptied::Emptied,
    provider::{self, Profile},
};

/// Which cluster to use, and what to do with it afterwards.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// Leave the cluster running.
    #[arg(long)]
    keep: bool,
    /// Use the cluster of KUBECONFIG as it is, with Cluster API and the providers installed. Benchmarks need their
    /// managers to run on this machine.
    #[arg(long)]
    existing: bool,
    /// Use this static program, instead of building it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// A running cluster, with the providers installed.
pub(crate) struct Found {
    /// The administrator's kubeconfig.
    pub(crate) kubeconfig: PathBuf,
    /// The folder of its own `kubectl` and `clusterctl`; `None` to use those of the PATH.
    pub(crate) programs: Option<PathBuf>,
    /// Our program, which clusters without a node run as a process; `None` on an existing cluster.
    pub(crate) program: Option<PathBuf>,
}

impl Target {
    /// Runs `work` on a cluster with the providers. Afterwards stops the cluster, if it is our own and `--keep` is not
    /// set.
    pub(crate) fn work(
        &self,
        profile: Profile,
        work: impl FnOnce(&Found) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if self.existing {
            return work(&existing()?);
        }
        self.on_our_own(|cluster| {
            let ready = provider::prepare(cluster, self.program.as_deref(), profile)?;
            provider::install(cluster, &ready.image)?;
            work(&found(cluster, ready.program))
        })
    }

    /// The same on a cluster with Cluster API and without our providers. On an existing cluster, they are put back.
    pub(crate) fn work_emptied(
        &self,
        work: impl FnOnce(&Emptied<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if self.existing {
            return Emptied::work_and_put_back(&existing()?, work);
        }
        self.on_our_own(|cluster| {
            let ready = provider::prepare(cluster, self.program.as_deref(), Profile::Dev)?;
            let is_installed = provider::is_installed(cluster);
            let found = found(cluster, ready.program);
            work(&Emptied::of_our_own(&found, ready.image, is_installed)?)
        })
    }

    fn on_our_own(&self, work: impl FnOnce(&Cluster) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let layout = Layout::new()?;
        let result = cluster::up(&layout, true).and_then(|cluster| work(&cluster));
        if self.keep {
            return result;
        }
        let down = cluster::down(&layout);
        // The first error is the important one.
        result.and(down)
    }
}

/// The cluster of KUBECONFIG.
fn existing() -> anyhow::Result<Found> {
    let kubeconfig =
        std::env::var_os("KUBECONFIG").context("failed to find a cluster: KUBECONFIG is not set")?;
    Ok(Found { kubeconfig: kubeconfig.into(), programs: None, program: None })
}

fn found(cluster: &Cluster, program: PathBuf) -> Found {
    let programs = Some(cluster.layout.at("bin"));
    Found { kubeconfig: cluster.layout.kubeconfig(), programs, program: Some(program) }
}
