//! The cluster to work on: one of our own, or the cluster of KUBECONFIG.

use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::{
    cluster::{self, Cluster, Layout},
    emptied::Emptied,
    found::Found,
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

/// A running cluster with Cluster API, on which our providers come and go.
pub(crate) struct Changing<'a> {
    found: Found,
    /// One of our own clusters, and the image of our program, which is on its node; `None` for an existing cluster, which
    /// has our providers.
    own: Option<(&'a Cluster, String)>,
}

impl Changing<'_> {
    pub(crate) fn found(&self) -> &Found {
        &self.found
    }

    /// Installs our providers, replacing existing ones, unless the cluster is an existing one.
    pub(crate) fn install(&self) -> anyhow::Result<()> {
        self.own
            .as_ref()
            .map_or(Ok(()), |(cluster, image)| provider::install(cluster, image))
    }

    /// Runs `work` on the cluster without our providers. On an existing cluster, they are put back.
    pub(crate) fn emptied(
        &self,
        work: impl FnOnce(&Emptied<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some((cluster, image)) = &self.own else {
            return Emptied::work_and_put_back(&self.found, work);
        };
        let is_installed = provider::is_installed(cluster);
        work(&Emptied::of_our_own(&self.found, image.clone(), is_installed)?)
    }
}

impl Target {
    /// The given program, or one built from the checkout.
    pub(crate) fn program(&self, profile: Profile) -> anyhow::Result<PathBuf> {
        self.program.clone().map_or_else(|| provider::build(profile), Ok)
    }

    /// Runs `work` on a cluster, with our program on its node. Afterwards stops the cluster, if it is our own and
    /// `--keep` is not set.
    pub(crate) fn work(
        &self,
        profile: Profile,
        work: impl FnOnce(&Changing<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if self.existing {
            return work(&Changing {
                found: existing()?,
                own: None,
            });
        }
        self.on_our_own(|cluster| {
            let ready = provider::prepare(cluster, self.program.as_deref(), profile)?;
            work(&Changing {
                found: found(cluster, ready.program),
                own: Some((cluster, ready.image)),
            })
        })
    }

    /// The same with our providers installed.
    pub(crate) fn work_installed(
        &self,
        profile: Profile,
        work: impl FnOnce(&Found) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.work(profile, |changing| {
            changing.install()?;
            work(changing.found())
        })
    }

    /// Runs `work` on a cluster of our own with our providers installed. Peers may be installed beside them.
    pub(crate) fn work_beside(
        &self,
        profile: Profile,
        work: impl FnOnce(&mut Cluster) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        ensure!(
            !self.existing,
            "peers are only installed on a cluster of our own, without --existing"
        );
        self.on_our_own(|cluster| {
            let ready = provider::prepare(cluster, self.program.as_deref(), profile)?;
            provider::install(cluster, &ready.image)?;
            work(cluster)
        })
    }

    fn on_our_own(&self, work: impl FnOnce(&mut Cluster) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let layout = Layout::new()?;
        let result = cluster::up(&layout, true).and_then(|mut cluster| work(&mut cluster));
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
    Ok(Found {
        kubeconfig: kubeconfig.into(),
        programs: None,
        program: None,
    })
}

fn found(cluster: &Cluster, program: PathBuf) -> Found {
    let programs = Some(cluster.layout.at("bin"));
    Found {
        kubeconfig: cluster.layout.kubeconfig(),
        programs,
        program: Some(program),
    }
}
