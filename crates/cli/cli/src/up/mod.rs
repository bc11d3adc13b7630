//! `nephele up`: everything in one process, for tests and for people who bring their own clusters.
//!
//! ```text
//!  files ──▶ apply ──▶ management API ◀── manager, stand-in
//!                        │
//!                        └─watch─▶ workloads ──▶ FOLDER/<namespace>-<name>.kubeconfig
//! ```

mod apply;
mod attach;
mod cluster_api;
mod documents;
mod lifeline;
mod management_api;
mod prepared;
mod report;
mod state;
pub(crate) mod usage;
mod workloads;

use std::{
    cell::Cell,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{bail, ensure};
use attach::webhooks::LocalWebhooks;
use axum::Router;
use clap::{Args, builder::NonEmptyStringValueParser};
use cluster_api::{ClusterApiArgs, Managers};
use documents::Document;
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use lifeline::EndedEarly;
use management_api::ManagementApi;
use nephele_access::{Environment, Kinds};
use nephele_api::{conditions, infrastructure::v1beta2::InMemoryCluster, labels};
use nephele_cluster_api::{ClusterApi, Managed};
use nephele_fake_capi::{Plan, PlannedClusters};
use nephele_manager::Options;
use prepared::PreparedArgs;
use report::Report;
use state::ClusterKey;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use workloads::Workloads;

use crate::{
    embedded::{self, Folder, ManagerSettings, Tasks},
    scenario::page_library,
};

/// The log of a test run: problems, and what the manager changed. `RUST_LOG` overrides it.
const LOG_DIRECTIVES: &str =
    "warn,kube_client::client::builder=off,nephele=info,nephele_controller::runner=warn";

/// How many InMemoryClusters a failure names.
const NOT_READY_MAX: usize = 5;
/// How long a failure waits for what InMemoryClusters say.
const NOT_READY_WITHIN: Duration = Duration::from_secs(5);

/// What the flags do not say.
pub(crate) const AFTER_HELP: &str = "\
Without --attach, an embedded management API and a stand-in for Cluster API run in this process, too. The stand-in \
plays every Cluster with spec.topology, and reads the variables of the ClusterClass in-memory. Each workload cluster \
that is up has a file NAMESPACE-NAME.kubeconfig in the folder. With --cluster-api, Cluster API's managers, etcd and \
kube-apiserver run beside this process, and end with it.";

/// The flags of `nephele up`.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// YAML file with objects to create at start, such as Clusters and SimulatedClouds; repeatable.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one line of JSON when all Clusters of the files are available. End when standard input closes.
    #[arg(long)]
    json: bool,
    /// End when all Clusters of the files are available and, with --save, saved. For a script that prepares clusters; without a page.
    #[arg(long, conflicts_with = "json")]
    once: bool,
    /// Use the API server of this kubeconfig, on this machine, and install our definitions and webhooks there.
    #[arg(long, value_name = "KUBECONFIG")]
    attach: Option<PathBuf>,
    /// With --attach: play Cluster API there, too. For an API server without Cluster API's controllers.
    #[arg(long, requires = "attach", conflicts_with = "cluster_api")]
    stand_in: bool,
    /// Where to write kubeconfigs, log and journal [default: a new folder, removed at the end]
    #[arg(long, value_name = "DIRECTORY")]
    folder: Option<PathBuf>,
    /// The ports that the clusters' API servers listen on, one per cluster.
    #[arg(long, value_name = "FIRST-LAST", default_value_t = Options::default().workload_ports)]
    port_range: String,
    /// Seed of every random draw.
    #[arg(long, value_name = "SEED", default_value = "up", value_parser = NonEmptyStringValueParser::new())]
    seed: String,
    /// How long to wait until all Clusters of the files are available.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = nephele_go_duration::parse)]
    time_limit: Duration,
    /// Do not serve the page that shows clusters and machines in a browser.
    #[arg(long)]
    no_page: bool,
    #[command(flatten)]
    prepared: PreparedArgs,
    #[command(flatten)]
    cluster_api: ClusterApiArgs,
}

impl UpArgs {
    /// The environment of kubeconfigs. With --json, standard input is the life line.
    fn environment(&self) -> Environment {
        let environment = Environment::of_process();
        if self.json {
            environment.without_input()
        } else {
            environment
        }
    }
}

/// Runs until `shutdown`, or until standard input closes (`--json`).
pub(crate) async fn run(args: UpArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    // Mistakes in the files are reported before anything starts.
    let documents = documents::read_all(&args.files)?;
    // A token of its own: a signal that follows the end of standard input is the first signal, not a second one.
    let closed = CancellationToken::new();
    if args.json {
        lifeline::cancel_at_end_of_input(closed.clone())?;
    }
    let folder = Folder::open(args.folder.as_deref(), "nephele-up")?;
    let log = folder.path("up.log");
    embedded::log_to(&log, LOG_DIRECTIVES)?;
    let outcome = serve(&args, documents, &folder, started, &shutdown, &closed).await;
    // The log helps only with failures.
    match outcome {
        Ok(()) => folder.discard()?,
        // Nothing has begun, so there is nothing to read.
        Err(error) if folder.has_only_empty(&log) => {
            if let Err(error) = folder.discard() {
                tracing::warn!(error = %nephele_controller::chain(error.as_ref()), "Failed to remove the folder");
            }
            return Err(error);
        }
        Err(error) => {
            if let Err(error) = folder.discard_kubeconfigs() {
                tracing::warn!(error = %nephele_controller::chain(error.as_ref()), "Failed to remove the kubeconfigs");
            }
            return Err(error.context(format!("nephele up failed; its log is {}", log.display())));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts everything, and works until `shutdown`, or until standard input is `closed`.
async fn serve(
    args: &UpArgs,
    documents: Vec<Document>,
    folder: &Folder,
    started: Instant,
    shutdown: &CancellationToken,
    closed: &CancellationToken,
) -> anyhow::Result<()> {
    let mut managers = None;
    if args.cluster_api.cluster_api.is_some() {
        let environment = args.environment();
        let attach = args.attach.as_ref();
        let starting = args
            .cluster_api
            .start(attach, &environment, folder, Timestamp::now());
        managers = tokio::select! {
            started = starting => Some(started?),
            () = shutdown.cancelled() => return interrupted(args.once, false),
            () = closed.cancelled() => return Err(EndedEarly.into()),
        };
    }
    let outcome = serve_on(
        args,
        documents,
        folder,
        started,
        shutdown,
        closed,
        managers.as_mut(),
    )
    .await;
    match managers {
        Some(managers) => outcome.and(managers.cluster_api.stop().await),
        None => outcome,
    }
}

/// Works on the management API: that of Cluster API's managers, one to attach to, or an embedded one.
async fn serve_on(
    args: &UpArgs,
    documents: Vec<Document>,
    folder: &Folder,
    started: Instant,
    shutdown: &CancellationToken,
    closed: &CancellationToken,
    managers: Option<&mut Managers>,
) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let (cluster_api, started_with) = match managers {
        Some(managers) => (Some(&mut managers.cluster_api), managers.webhooks.take()),
        None => (None, None),
    };
    let kubeconfig = cluster_api.as_ref().map(|running| running.kubeconfig());
    let (management, webhooks) = match kubeconfig.or(args.attach.as_deref()) {
        Some(kubeconfig) => {
            let environment = args.environment();
            attach::connect(kubeconfig, &environment, folder, started_with, Timestamp::now()).await?
        }
        None => (ManagementApi::embed(folder, stop.clone())?, None),
    };
    let client = management.client.clone();
    let kinds = Kinds::new(client.clone());
    let mut tasks = Tasks::new(stop);
    let is_api_server_ours = cluster_api.is_some() && args.attach.is_none();
    let is_played = (args.attach.is_none() && cluster_api.is_none()) || args.stand_in;
    let settings = ManagerSettings {
        port_range: args.port_range.clone(),
        journal: folder.path("journal.jsonl"),
        name: "up",
        seed: args.seed.clone(),
        webhooks: webhooks.as_ref().map(LocalWebhooks::settings),
        has_stand_in: is_played,
    };
    let routes = tasks.add_manager(client.clone(), settings)?;
    if let Some(embedded) = &management.embedded {
        embedded.serve_cloud(routes.clone());
    }
    let processes = cluster_api.as_ref().map(|running| running.processes());
    if is_api_server_ours {
        add_socket(&mut tasks, folder, routes.clone(), processes.as_deref());
    }
    if is_played {
        tasks.add_standin(client.clone(), PlannedClusters::new(Plan::default()));
    }
    let page = add_page(args, &mut tasks, &client, &routes)?;
    report::announce(page.as_deref(), args.json)?;
    let is_reported = Cell::new(false);
    let work = async {
        if let Some(webhooks) = &webhooks {
            webhooks.install(&kinds).await?;
        }
        let restored = args
            .prepared
            .restore(&client, &routes, is_played, args.time_limit);
        let mut wanted = restored.await?;
        wanted.extend(apply::create_all(&client, documents).await?);
        let mut workloads = Workloads::new(&client, folder);
        bring_up(&client, &mut workloads, &wanted, is_played, args.time_limit).await?;
        args.prepared.save(&client, &routes, Timestamp::now()).await?;
        if args.once {
            is_reported.set(true);
            return report::farewell(started.elapsed(), args.prepared.saved());
        }
        let report = Report::new(folder, &management, workloads.written(&wanted))
            .with_processes(processes)
            .with_page(page);
        report.print(args.json, started.elapsed())?;
        is_reported.set(true);
        workloads.keep().await
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        ended = tasks.ended() => Err(ended),
        ended = ended(cluster_api) => Err(ended),
        () = shutdown.cancelled() => interrupted(args.once, is_reported.get()),
        () = closed.cancelled() => match is_reported.get() {
            true => Ok(()),
            // Whoever waits for the report must not take this for success.
            false => Err(EndedEarly.into()),
        },
    };
    let uninstalled = match &webhooks {
        // One that ends with this process keeps nothing, and without its etcd it would not answer.
        Some(webhooks) if !is_api_server_ours => webhooks.uninstall(&kinds).await,
        _ => Ok(()),
    };
    tasks.finish().await;
    outcome.and(uninstalled)
}

/// What a signal means: a failure where a script waits for clusters that are not there yet.
fn interrupted(once: bool, is_reported: bool) -> anyhow::Result<()> {
    ensure!(
        is_reported || !once,
        "interrupted before all Clusters were available (--once)"
    );
    Ok(())
}

/// Serves the manager's routes by a socket: the API server is not ours, and does not have them.
fn add_socket(tasks: &mut Tasks, folder: &Folder, routes: Router, processes: Option<&[Managed]>) {
    let others = processes
        .into_iter()
        .flatten()
        .map(|process| (process.name.clone(), process.id));
    let all = others.chain([("nephele".to_owned(), std::process::id())]);
    // The page and the journal's file are there without it.
    if let Err(error) = tasks.add_socket(folder.root(), routes.merge(usage::routes(all.collect()))) {
        let error = nephele_controller::chain(error.as_ref());
        tracing::warn!(%error, "The commands journal, checkpoint and load cannot reach the manager");
    }
}

/// Serves the page, unless it is left out. A run that ends at once has no viewers. Returns its address.
fn add_page(
    args: &UpArgs,
    tasks: &mut Tasks,
    client: &Client,
    routes: &Router,
) -> anyhow::Result<Option<String>> {
    if args.no_page || args.once {
        return Ok(None);
    }
    let library = page_library(client.clone())?;
    tasks.add_page(client.clone(), routes.clone(), library).map(Some)
}

/// Waits until a process of Cluster API ends.
async fn ended(cluster_api: Option<&mut ClusterApi>) -> anyhow::Error {
    match cluster_api {
        Some(running) => running.ended().await,
        None => std::future::pending().await,
    }
}

/// Waits until all wanted clusters are available.
async fn bring_up(
    client: &Client,
    workloads: &mut Workloads<'_>,
    wanted: &[ClusterKey],
    is_played: bool,
    time_limit: Duration,
) -> anyhow::Result<()> {
    match timeout(time_limit, workloads.until_available(wanted, is_played)).await {
        Ok(result) => result,
        Err(_) => bail!(
            "not all Clusters are available within {time_limit:?} (--time-limit): {}{}",
            workloads.what_is_missing(wanted),
            not_ready(client, wanted).await
        ),
    }
}

/// What the InMemoryClusters say that are not ready: a Cluster only says that it waits for them.
async fn not_ready(client: &Client, wanted: &[ClusterKey]) -> String {
    let clusters = Api::<InMemoryCluster>::all(client.clone());
    let parameters = ListParams::default();
    let Ok(Ok(clusters)) = timeout(NOT_READY_WITHIN, clusters.list(&parameters)).await else {
        return String::new();
    };
    let said = clusters.into_iter().filter_map(|cluster| {
        let of = (
            cluster.namespace()?,
            labels::value(&cluster.metadata, labels::CLUSTER_NAME)?.to_owned(),
        );
        wanted.contains(&of).then_some(())?;
        let status = cluster.status.as_ref()?;
        let ready = conditions::find(&status.conditions, conditions::types::READY)?;
        let namespace = cluster.namespace().unwrap_or_default();
        (ready.status == conditions::FALSE).then(|| {
            format!(
                "; InMemoryCluster {namespace}/{}: {}",
                cluster.name_any(),
                ready.message
            )
        })
    });
    said.take(NOT_READY_MAX).collect()
}

#[cfg(test)]
mod tests;
