//! `nephele connect`: the API servers of workload clusters on ports of this machine.
//!
//! ```text
//!  Clusters ──watch──▶ clusters ──▶ plan ──▶ session ──▶ forward: a port, and a stream to the pod per connection
//!  Pods, Leases ─────▶ pods ──▶ Managers: which pod ───────┘ │
//!  Secrets ──────────▶ kubeconfig: rewritten, merged ◀───────┘──▶ files
//! ```
//!
//! `plan`, `Managers` and `kubeconfig` decide and are pure.

mod clusters;
mod files;
mod forward;
mod kubeconfig;
mod lines;
mod plan;
mod pods;
mod session;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::ExitCode,
    slice,
};

use anyhow::Context as _;
use clap::{ArgGroup, Args};
use clusters::Clusters;
use files::Destination;
use forward::Forwarder;
use plan::{ClusterId, Selection};
use session::Session;
use tokio_util::sync::CancellationToken;

use crate::{
    access::AccessArgs,
    embedded::is_embedded,
    exit::{Exit, Problem, is_forbidden},
    provider::{self, NamespaceArgs},
};

/// The flags of `connect`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true))]
pub(crate) struct ConnectArgs {
    /// Clusters, as NAME or NAMESPACE/NAME.
    #[arg(value_name = "CLUSTER", group = "which")]
    clusters: Vec<String>,
    /// All clusters, also those that are created later; in all namespaces, or in that of --namespace.
    #[arg(long, short = 'A', visible_alias = "all-namespaces", group = "which")]
    all: bool,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    provider: NamespaceArgs,
    /// Where to write a kubeconfig for each cluster, as NAMESPACE-NAME.kubeconfig.
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "nephele-kubeconfigs",
        conflicts_with = "merge"
    )]
    folder: PathBuf,
    /// Write contexts NAMESPACE-NAME into one kubeconfig instead [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    merge: Option<Option<PathBuf>>,
}

/// Forwards until `shutdown`. Removes the kubeconfigs that it wrote.
pub(crate) async fn run(args: ConnectArgs, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
    let prepared = shutdown.run_until_cancelled(prepare(args)).await;
    let Some(prepared) = prepared else {
        return Ok(ExitCode::SUCCESS);
    };
    let (mut session, mut clusters) = prepared?;
    let outcome = shutdown.run_until_cancelled(session.run(&mut clusters)).await;
    let closed = session.close().await;
    outcome.unwrap_or(Ok(()))?;
    closed.map(|()| ExitCode::SUCCESS)
}

async fn prepare(args: ConnectArgs) -> anyhow::Result<(Session, Clusters)> {
    let access = args.access.open().await?;
    // What does not answer is told of below.
    if access.manager.is_some() || is_embedded(&access.client).await.unwrap_or(false) {
        let message = "nothing has to be forwarded: the folder of `nephele up` has a kubeconfig for each workload cluster, \
                       NAMESPACE-NAME.kubeconfig";
        return Err(Problem::new(Exit::Failed, message).into());
    }
    let (selection, namespaces) = args.selection(&access.namespace);
    let clusters = match Clusters::watch(&access, &namespaces).await {
        Err(refused) if namespaces.is_empty() && is_forbidden(&refused) => {
            let clusters = Clusters::watch(&access, slice::from_ref(&access.namespace)).await;
            // The first error names what is missing.
            let Ok(clusters) = clusters else {
                return Err(refused);
            };
            access.tell_of_one_namespace("The command");
            clusters
        }
        watched => watched?,
    };
    let namespace = provider::namespace(&access.client, &args.provider).await?;
    let (managers, pods) = pods::follow(&access.client, &namespace).await?;
    let session = Session {
        forwarder: Forwarder::new(access.client.clone(), managers),
        pods,
        client: access.client,
        destination: args.destination()?,
        selection,
        forwards: BTreeMap::new(),
        waiting: BTreeMap::new(),
    };
    Ok((session, clusters))
}

impl ConnectArgs {
    /// The clusters, and the namespaces to watch; none of them means all.
    fn selection(&self, namespace: &str) -> (Selection, Vec<String>) {
        if self.all {
            return (Selection::All, self.access.namespace.iter().cloned().collect());
        }
        let names: BTreeSet<_> = self
            .clusters
            .iter()
            .map(|name| ClusterId::parse(name, namespace))
            .collect();
        let namespaces: BTreeSet<_> = names.iter().map(|id| id.namespace.clone()).collect();
        (Selection::Named(names), namespaces.into_iter().collect())
    }

    fn destination(&self) -> anyhow::Result<Destination> {
        match &self.merge {
            None => Destination::folder(self.folder.clone()),
            Some(Some(path)) => Ok(Destination::File {
                path: path.clone(),
                usual: false,
            }),
            Some(None) => {
                let variable = std::env::var_os("KUBECONFIG");
                let path = files::usual_kubeconfig(variable.as_deref(), std::env::home_dir().as_deref());
                let path = path.context("failed to find your kubeconfig; set KUBECONFIG or --merge=FILE")?;
                Ok(Destination::File { path, usual: true })
            }
        }
    }
}

#[cfg(test)]
mod tests;
