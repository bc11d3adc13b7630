//! `nephele checkpoint restore`.

use std::{fs::File, io::BufReader, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Args;
use nephele_checkpoint::{Checkpoint, Restore, RestoreError};
use tokio_util::sync::CancellationToken;

use super::{
    maker::refuse_machines_of_cluster_api,
    workloads::{ManagerArgs, with_manager},
};
use crate::{
    access::TargetArgs,
    embedded::is_embedded,
    exit::{Exit, Problem},
    output::print,
};

pub(super) const AFTER_HELP: &str = "\
Everything of Cluster API and of the simulated cloud in the namespaces of the checkpoint is replaced. Names, \
endpoints, certificates and everything in the workload clusters are those of the checkpoint; kubeconfigs stay \
valid. Objects of the management cluster get new uids, as after `clusterctl move`. After a failure, the \
error says how to continue.";

/// What to restore.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A file of `nephele checkpoint save`
    file: PathBuf,
    #[command(flatten)]
    target: TargetArgs,
    /// Remove what is in the namespaces of the checkpoint. Without it, the command refuses if there is something.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    manager: ManagerArgs,
    /// How long it may take until everything is removed.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = nephele_go_duration::parse)]
    time_limit: Duration,
}

pub(super) async fn run(args: RestoreArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let path = args.file.display();
    let file = File::open(&args.file).with_context(|| format!("failed to open {path}"))?;
    let checkpoint =
        Checkpoint::read(BufReader::new(file)).with_context(|| format!("failed to read {path}"))?;
    let access = args.target.open().await?;
    let client = &access.client;
    // The embedded API server is that of a stand-in.
    if is_embedded(client).await? {
        refuse_machines_of_cluster_api(&checkpoint)?;
    }
    let time_limit = args.time_limit;
    let replace = args.replace;
    let restored = with_manager(&access, &args.manager, time_limit, &shutdown, async |workloads| {
        let report = |step: &str| eprintln!("{step}");
        let restore = Restore {
            client,
            workloads,
            replace,
            time_limit,
            report: &report,
        };
        match restore.run(checkpoint).await {
            Err(error @ RestoreError::Occupied { .. }) => {
                let message = format!("{error}; --replace removes them");
                Err(Problem::new(Exit::Failed, message).into())
            }
            Err(error @ RestoreError::Stopped { .. }) => {
                Err(anyhow::Error::new(error).context("run the command again with --replace"))
            }
            other => other.map_err(Into::into),
        }
    })
    .await?;
    let objects = restored.objects;
    let clusters = restored.clusters;
    print(&format!(
        "Restored objects: {objects}, workload clusters: {clusters}\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}
