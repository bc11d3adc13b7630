//! `nephele checkpoint save`.

use std::{
    fs::{self, OpenOptions},
    io::BufWriter,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use nephele_checkpoint::Checkpoint;
use tokio_util::sync::CancellationToken;

use super::workloads::{ManagerArgs, with_manager};
use crate::{access::AccessArgs, exit::Problem, output::print};

pub(super) const AFTER_HELP: &str = "\
The file has the objects of Cluster API and of the simulated cloud with their status, the Secrets of the \
clusters, and everything in the workload clusters. Only its owner can read it. Nothing is changed, and \
controllers keep working meanwhile.";

/// How long the manager may take for the objects of a thousand clusters.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// What to save, and where.
#[derive(Debug, Args)]
pub(crate) struct SaveArgs {
    /// The file to write
    file: PathBuf,
    #[command(flatten)]
    access: AccessArgs,
    /// Save the clusters of all namespaces.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    #[command(flatten)]
    manager: ManagerArgs,
}

pub(super) async fn run(args: SaveArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let access = args.access.open().await?;
    let namespaces = match args.all_namespaces {
        true => all_namespaces(&access.client).await?,
        false => vec![access.namespace.clone()],
    };
    let client = &access.client;
    let checkpoint = with_manager(&access, &args.manager, TIME_LIMIT, &shutdown, async |workloads| {
        let version = nephele_manager::version();
        let saved = nephele_checkpoint::save(client, workloads, &namespaces, Timestamp::now(), version).await;
        saved.map_err(Into::into)
    })
    .await?;
    write(&checkpoint, &args.file).with_context(|| format!("failed to write {}", args.file.display()))?;
    let objects = checkpoint.objects.len();
    let clusters = checkpoint.clusters.len();
    let file = args.file.display();
    print(&format!(
        "Saved objects: {objects}, workload clusters: {clusters}, to {file}\n"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// The names of all namespaces.
pub(crate) async fn all_namespaces(client: &Client) -> anyhow::Result<Vec<String>> {
    let listed = Api::<Namespace>::all(client.clone())
        .list(&ListParams::default())
        .await;
    let listed = listed.map_err(|error| Problem::request("list the namespaces", "list namespaces", error))?;
    Ok(listed.iter().map(Namespace::name_any).collect())
}

/// Writes a file that only its owner can read. A file of this name is there as a whole, before or after.
pub(crate) fn write(checkpoint: &Checkpoint, path: &Path) -> anyhow::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    let mut file = BufWriter::new(file);
    let written = checkpoint.write(&mut file).map_err(anyhow::Error::from);
    let kept = written.and_then(|()| Ok(file.get_ref().sync_all()?));
    if let Err(error) = kept.and_then(|()| Ok(fs::rename(&draft, path)?)) {
        // The draft is of no use to anybody.
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    Ok(())
}
