//! `nephele demo`: everything in one process, without Kubernetes.
//!
//! ```text
//!  kubectl ──TLS──▶ management API (embedded) ◀── manager ──▶ simulated cloud ◀──TLS── kubectl
//!                        ▲         ▲                               ▲
//!                     progress   stand-in for Cluster API ──TLS────┘
//! ```

mod clusters;
mod files;
mod management;
mod pools;
mod progress;
mod screen;
mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use nephele_kit::wall_clock;
use nephele_manager::{Config, Manager, Options};
use nephele_standin::Plan;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use files::Folder;
use management::Management;
use progress::Progress;
use screen::Screen;

/// How long all tasks may take to stop. The manager takes eight seconds at most.
const STOP_MAX: Duration = Duration::from_secs(10);

/// The demo's flags.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Exit as soon as all clusters are available; with an error when the time limit passes before that.
    #[arg(long)]
    once: bool,
    /// How long to wait until all clusters are available.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = nephele_go_duration::parse)]
    time_limit: Duration,
    /// Where to write kubeconfigs, the log and the journal [default: a new directory for temporary files]
    #[arg(long, value_name = "DIRECTORY")]
    kubeconfig_dir: Option<PathBuf>,
    /// The ports that the clusters' API servers listen on, one per cluster.
    #[arg(long, value_name = "FIRST-LAST", default_value_t = Options::default().workload_ports)]
    port_range: String,
}

/// Runs the demo until everything is up (`--once`), or until `shutdown`.
pub(crate) async fn run(args: DemoArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let folder = Folder::open(args.kubeconfig_dir)?;
    files::log_to(&folder)?;
    let mut screen = Screen::new(started);
    screen.say(&introduction());

    let stop = CancellationToken::new();
    let management = Management::start(wall_clock(), stop.clone()).await?;
    folder.write("management.kubeconfig", &management.kubeconfig)?;
    pools::create(&management.client).await?;
    let mut tasks = Tasks {
        manager: manager(&management, &args.port_range, &folder.path("journal.jsonl"), &stop)?,
        standin: standin(&management, &stop),
    };

    let outcome = tokio::select! {
        outcome = bring_up(&management, &mut screen, args.time_limit) => outcome,
        ended = tasks.ended() => Err(ended),
        () = shutdown.cancelled() => Ok(()),
    };
    let outcome = match outcome {
        Ok(()) if shutdown.is_cancelled() => Ok(()),
        Ok(()) => {
            let kubeconfigs = folder.write_workloads(&management.client).await?;
            screen.say(&farewell(&folder, &kubeconfigs, started.elapsed(), args.once));
            if args.once { Ok(()) } else { stay(&management, &mut screen, &mut tasks, &shutdown).await }
        }
        Err(error) => Err(error),
    };
    stop.cancel();
    if timeout(STOP_MAX, tasks.finish()).await.is_err() {
        tracing::warn!("Some tasks did not stop in time");
    }
    if let Err(error) = outcome {
        return Err(
            error.context(format!("the demo failed; its log is {}", folder.path("demo.log").display()))
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows progress until every cluster is available.
async fn bring_up(management: &Management, screen: &mut Screen, time_limit: Duration) -> anyhow::Result<()> {
    let mut progress = Progress::start(&management.client, clusters::plan());
    match timeout(time_limit, progress.until_available(screen)).await {
        Ok(result) => result,
        Err(_) => bail!("not everything was up within {time_limit:?}: {}", progress.view().what_is_missing()),
    }
}

/// Keeps showing changes while people try things out.
async fn stay(
    management: &Management,
    screen: &mut Screen,
    tasks: &mut Tasks,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let mut progress = Progress::start(&management.client, Plan::default());
    tokio::select! {
        result = progress.follow(screen) => result,
        ended = tasks.ended() => Err(ended),
        () = shutdown.cancelled() => Ok(()),
    }
}

/// The tasks beside the demo itself.
struct Tasks {
    manager: JoinHandle<anyhow::Result<()>>,
    standin: JoinHandle<anyhow::Result<()>>,
}

impl Tasks {
    /// Waits until a task ends, which is always an error.
    async fn ended(&mut self) -> anyhow::Error {
        let (name, result) = tokio::select! {
            result = &mut self.manager => ("manager", result),
            result = &mut self.standin => ("stand-in for Cluster API", result),
        };
        let cause = match result {
            Ok(Ok(())) => anyhow::anyhow!("it returned without an error"),
            Ok(Err(error)) => error,
            Err(error) => error.into(),
        };
        cause.context(format!("the {name} ended early"))
    }

    async fn finish(&mut self) {
        for task in [&mut self.standin, &mut self.manager] {
            if !task.is_finished()
                && let Ok(Err(error)) = task.await
            {
                tracing::warn!(error = %nephele_kit::chain(error.as_ref()), "Failed while stopping");
            }
        }
    }
}

fn manager(
    management: &Management,
    port_range: &str,
    journal: &Path,
    stop: &CancellationToken,
) -> anyhow::Result<JoinHandle<anyhow::Result<()>>> {
    let options = Options {
        diagnostics_address: String::new(),
        health_address: String::new(),
        advertise_host: Some("127.0.0.1".to_owned()),
        bind_address: "127.0.0.1".to_owned(),
        workload_ports: port_range.to_owned(),
        seed: "demo".to_owned(),
        journal: journal.display().to_string(),
        identity: "nephele-demo".to_owned(),
        ..Options::default()
    };
    // The only manager option that a user of the demo sets.
    let config =
        Config::new(options).with_context(|| format!("failed to parse --port-range {port_range:?}"))?;
    let manager = Manager::build(config, management.client.clone()).context("failed to build the manager")?;
    let stop = stop.clone();
    Ok(tokio::spawn(async move { Ok(manager.run(stop).await?) }))
}

fn standin(management: &Management, stop: &CancellationToken) -> JoinHandle<anyhow::Result<()>> {
    let (client, stop) = (management.client.clone(), stop.clone());
    tokio::spawn(async move { Ok(nephele_standin::run(client, clusters::plan(), wall_clock(), stop).await?) })
}

fn introduction() -> String {
    let clusters = clusters::plan().clusters;
    let sizes: Vec<_> = clusters
        .iter()
        .map(|cluster| format!("{} ({} + {})", cluster.name, cluster.control_plane, cluster.workers))
        .collect();
    format!(
        "Nephele demo: {} clusters, control plane + workers: {}\n\
         Simulated:  machines, load balancers, Nodes, etcd; their addresses come from IPAM pools. Real: the API servers, their TLS and their certificates.\n\
         Stands in:  an embedded management API for Kubernetes, and a small player of Cluster API's part.\n",
        clusters.len(),
        sizes.join(", "),
    )
}

fn farewell(folder: &Folder, kubeconfigs: &[(String, PathBuf)], took: Duration, once: bool) -> String {
    let mut text = format!("\nAll clusters are available after {:.1} s.\n", took.as_secs_f64());
    if once {
        return text;
    }
    let management = folder.path("management.kubeconfig");
    text += "\nTry, in another terminal:\n";
    text +=
        &format!("  kubectl --kubeconfig {} get clusters,machines,inmemorymachines\n", management.display());
    text += &format!(
        "  kubectl --kubeconfig {} get inclusterippools,ipaddressclaims,ipaddresses\n",
        management.display()
    );
    for (_, path) in kubeconfigs {
        text += &format!("  kubectl --kubeconfig {} get nodes -o wide\n", path.display());
    }
    if let Some((cluster, path)) = kubeconfigs.last() {
        text += &format!("  kubectl --kubeconfig {} get pods -A\n", path.display());
        text += &format!("  kubectl --kubeconfig {} delete cluster {cluster}\n", management.display());
    }
    text += &format!("  nephele journal replay {}\n", folder.path("journal.jsonl").display());
    text += &format!("\nThe log is {}. Ctrl-C ends it all.\n", folder.path("demo.log").display());
    text
}

#[cfg(test)]
mod tests;
