//! `cargo xtask helm`: the packaged chart on a real cluster, in place of the providers that clusterctl installed.

use std::path::PathBuf;

use anyhow::Context;

use super::helm::Helm;
use crate::{
    paths,
    provider::Profile,
    target::{Changing, Target},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    args.target.work(Profile::Dev, |changing| test(changing, None))
}

/// Runs the tests whose names contain the filter.
pub(crate) fn test(changing: &Changing<'_>, filter: Option<&str>) -> anyhow::Result<()> {
    changing.emptied(|emptied| {
        let helm = Helm::new()?;
        let packed = paths::cache()?.join("chart");
        let said = helm.package(&packed).context("failed to pack the chart")?;
        let chart = said
            .trim()
            .rsplit(' ')
            .next()
            .map(PathBuf::from)
            .context("Helm named no file")?;
        emptied.run_tests(
            "helm",
            filter,
            helm.program().parent(),
            &[("NEPHELE_E2E_CHART", &chart)],
        )
    })
}
