//! The cluster to work on: one of our own, or whichever KUBECONFIG leads to.

use std::path::PathBuf;

use anyhow::Context;

use crate::{
    cluster::{self, Layout},
    provider,
};

/// Which cluster, and what becomes of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// Leave the cluster up.
    #[arg(long)]
    keep: bool,
    /// Use the cluster of KUBECONFIG as it is, with Cluster API and the providers installed. Benchmarks need their
    /// managers to run on this machine.
    #[arg(long)]
    existing: bool,
    /// Use this program, static and built before, instead of building it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// A cluster that is up, with the providers installed.
pub(crate) struct Found {
    /// Of its administrator.
    pub(crate) kubeconfig: PathBuf,
    /// Where its own `kubectl` and `clusterctl` are; none where those of the PATH have to do.
    pub(crate) programs: Option<PathBuf>,
    /// Our program, which clusters without a node run as a process; none where it was installed by somebody else.
    pub(crate) program: Option<PathBuf>,
}

impl Place {
    /// Works on the cluster, and takes down one of our own afterwards unless it is to be kept.
    pub(crate) fn work(&self, work: impl FnOnce(&Found) -> anyhow::Result<()>) -> anyhow::Result<()> {
        if self.existing {
            let kubeconfig =
                std::env::var_os("KUBECONFIG").context("failed to find a cluster: KUBECONFIG is not set")?;
            return work(&Found { kubeconfig: kubeconfig.into(), programs: None, program: None });
        }
        let layout = Layout::new()?;
        let result = cluster::up(&layout, true).and_then(|cluster| {
            let program = provider::install(&cluster, self.program.as_deref())?;
            let programs = Some(layout.at("bin"));
            work(&Found { kubeconfig: layout.kubeconfig(), programs, program: Some(program) })
        });
        if self.keep {
            return result;
        }
        let down = cluster::down(&layout);
        // What went wrong first is what matters.
        result.and(down)
    }
}
