//! `cargo xtask helm`: the packaged chart on a real cluster, in place of the providers that clusterctl installed.

use std::path::PathBuf;

use anyhow::Context;

use super::helm::Helm;
use crate::{paths, target::Target};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.target.work_emptied(|emptied| {
        let helm = Helm::new()?;
        let packed = paths::cache()?.join("chart");
        let said = helm.package(&packed).context("failed to pack the chart")?;
        let chart = said.trim().rsplit(' ').next().map(PathBuf::from).context("Helm named no file")?;
        emptied.run_tests("helm", None, helm.program().parent(), &[("NEPHELE_E2E_CHART", &chart)])
    })
}
