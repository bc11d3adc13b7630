//! `nephele demo`: everything in one process, without Kubernetes. It is `nephele up` with two clusters of its own, and a
//! view of their progress.

mod clusters;
mod news;
mod pools;
mod screen;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use futures::{StreamExt as _, stream::BoxStream};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use nephele_controller::wall_clock;
use nephele_fake_capi::PlannedClusters;
use nephele_manager::Options;
use nephele_page::{Allowance, Sight, Source, sights};
use news::{are_available, what_is_missing};
use screen::Screen;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    embedded::{self, Folder, Management, ManagerSettings, Tasks},
    published::Published,
    scenario::page_library,
};

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
    /// Do not serve the page that shows clusters and machines in a browser.
    #[arg(long)]
    no_page: bool,
}

/// Runs the demo until everything is up (`--once`), or until `shutdown`.
pub(crate) async fn run(args: DemoArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let folder = Folder::open(args.kubeconfig_dir.as_deref(), "nephele-demo")?;
    let log = folder.path("demo.log");
    embedded::log_to(&log, "warn,kube_client::client::builder=off,nephele=debug")?;
    let mut screen = Screen::new(started);
    screen.say(&introduction());

    let stop = CancellationToken::new();
    let management = Management::start("nephele-demo", &wall_clock(), stop.clone())?;
    folder.write("management.kubeconfig", &management.kubeconfig)?;
    pools::create(&management.client).await?;
    let mut tasks = Tasks::new(stop.clone());
    let journal = folder.path("journal.jsonl");
    let settings = ManagerSettings {
        port_range: args.port_range,
        journal,
        name: "demo",
        seed: "demo".to_owned(),
        webhooks: None,
        has_stand_in: true,
    };
    let routes = tasks.add_manager(management.client.clone(), settings)?;
    management.serve_cloud(routes.clone());
    let source = Source {
        client: management.client.clone(),
        namespace: None,
        journal: routes.clone(),
        allowance: Allowance::unlimited(),
    };
    let mut seen = sights(source, stop);
    // A demo that ends at once has no viewers.
    if !args.no_page && !args.once {
        let library = page_library(management.client.clone())?;
        let page = tasks.add_page(management.client.clone(), routes, library)?;
        screen.say(&format!("Page  {page}\n"));
    }
    let plan = clusters::plan();
    for cluster in &plan.clusters {
        nephele_fake_capi::create(&management.client, cluster).await?;
    }
    tasks.add_standin(management.client.clone(), PlannedClusters::new(plan));

    let outcome = tokio::select! {
        outcome = bring_up(&mut seen, &mut screen, args.time_limit) => outcome,
        ended = tasks.ended() => Err(ended),
        () = shutdown.cancelled() => Ok(()),
    };
    let outcome = match outcome {
        Ok(()) if shutdown.is_cancelled() && args.once => {
            Err(anyhow!("interrupted before all clusters were available (--once)"))
        }
        Ok(()) if shutdown.is_cancelled() => Ok(()),
        Ok(()) => {
            let kubeconfigs = write_kubeconfigs(&folder, &management.client).await?;
            screen.say(&farewell(&folder, &kubeconfigs, started.elapsed(), args.once));
            if args.once {
                Ok(())
            } else {
                stay(&mut seen, &mut screen, &mut tasks, &shutdown).await
            }
        }
        Err(error) => Err(error),
    };
    tasks.finish().await;
    if let Err(error) = outcome {
        return Err(error.context(format!("the demo failed; its log is {}", log.display())));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows progress until every cluster is available.
async fn bring_up(
    seen: &mut BoxStream<'static, Sight>,
    screen: &mut Screen,
    time_limit: Duration,
) -> anyhow::Result<()> {
    let clusters = clusters::plan().clusters;
    let until_available = async {
        while !are_available(
            &screen.shown().model,
            clusters.iter().map(|cluster| &*cluster.name),
        ) {
            screen.show(next(seen).await?);
        }
        Ok(())
    };
    match timeout(time_limit, until_available).await {
        Ok(result) => result,
        Err(_) => bail!(
            "not everything was up within {time_limit:?}: {}",
            what_is_missing(&screen.shown().model)
        ),
    }
}

/// Keeps showing changes while people try things out.
async fn stay(
    seen: &mut BoxStream<'static, Sight>,
    screen: &mut Screen,
    tasks: &mut Tasks,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let changes = async {
        loop {
            screen.show(next(seen).await?);
        }
    };
    tokio::select! {
        result = changes => result,
        ended = tasks.ended() => Err(ended),
        () = shutdown.cancelled() => Ok(()),
    }
}

async fn next(seen: &mut BoxStream<'static, Sight>) -> anyhow::Result<Sight> {
    seen.next().await.context("the management API is gone")
}

/// Writes the kubeconfig of each cluster. Returns the names of the clusters with the files.
async fn write_kubeconfigs(folder: &Folder, client: &Client) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut written = Vec::new();
    for cluster in clusters::plan().clusters {
        let name = format!("{}-kubeconfig", cluster.name);
        let api = Api::<Secret>::namespaced(client.clone(), &cluster.namespace);
        let secret = api
            .get(&name)
            .await
            .with_context(|| format!("failed to read Secret {name}"))?;
        let value = secret.data.as_ref().and_then(|data| data.get("value"));
        let value = value.with_context(|| format!("failed to find a kubeconfig in Secret {name}"))?;
        let text = String::from_utf8_lossy(&value.0);
        Published::read_whole(&text)
            .with_context(|| format!("failed to use the kubeconfig of Secret {name}"))?;
        let path = folder.write(&format!("{}.kubeconfig", cluster.name), &text)?;
        written.push((cluster.name, path));
    }
    Ok(written)
}

fn introduction() -> String {
    let clusters = clusters::plan().clusters;
    let sizes: Vec<_> = clusters
        .iter()
        .map(|cluster| {
            format!(
                "{} ({} + {})",
                cluster.name,
                cluster.control_plane,
                cluster.workers()
            )
        })
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
    let mut text = format!(
        "\nAll clusters are available after {:.1} s.\n",
        took.as_secs_f64()
    );
    if once {
        return text;
    }
    let management = folder.path("management.kubeconfig");
    text += "\nTry, in another terminal:\n";
    text += &format!(
        "  kubectl --kubeconfig {} get clusters,machines,inmemorymachines\n",
        management.display()
    );
    text += &format!(
        "  kubectl --kubeconfig {} get inclusterippools,ipaddressclaims,ipaddresses\n",
        management.display()
    );
    for (_, path) in kubeconfigs {
        text += &format!("  kubectl --kubeconfig {} get nodes -o wide\n", path.display());
    }
    if let Some((cluster, path)) = kubeconfigs.last() {
        text += &format!("  kubectl --kubeconfig {} get pods -A\n", path.display());
        text += &format!(
            "  kubectl --kubeconfig {} delete cluster {cluster}\n",
            management.display()
        );
    }
    text += &format!(
        "  nephele journal replay {}\n",
        folder.path("journal.jsonl").display()
    );
    text += &format!(
        "\nThe log is {}. Ctrl-C ends it all.\n",
        folder.path("demo.log").display()
    );
    text
}

#[cfg(test)]
mod tests;
