//! The cluster on which is measured, and what there is to measure.

use std::path::Path;

use anyhow::{Context, bail};

use crate::{provider::Profile, target::Target};

/// Measures on a cluster, with its administrator's kubeconfig.
pub(super) fn measure(
    target: &Target,
    measure: impl AsyncFnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    target.work_installed(Profile::Dist, |found| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime
            .context("failed to start a runtime")?
            .block_on(measure(&found.kubeconfig))
    })
}

/// Refuses zero, which would measure nothing.
pub(super) fn refuse_zero(numbers: &[usize]) -> anyhow::Result<()> {
    if numbers.contains(&0) {
        bail!("there is nothing to measure with 0");
    }
    Ok(())
}
