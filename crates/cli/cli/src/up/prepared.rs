//! `--save` and `--from`: clusters that a test suite makes once and then starts with.

use std::{
    collections::BTreeSet,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use axum::{Router, body::Body};
use clap::Args;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use jiff::Timestamp;
use kube::Client;
use nephele_api::core;
use nephele_checkpoint::{Checkpoint, Restore, Workloads};
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use super::state::ClusterKey;
use crate::checkpoint::{
    maker::refuse_machines_of_cluster_api,
    save,
    workloads::{PATH, names_in, path},
};

/// How long the manager may take until it can keep objects of workload clusters.
const STARTED_WITHIN: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
pub(super) struct PreparedArgs {
    /// Begin with the clusters of this file, which --save or `nephele checkpoint save` wrote.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Write all clusters, with everything in them, to this file when the Clusters are available.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// The manager of this process, by its routes.
struct OfProcess(Router);

impl PreparedArgs {
    /// Restores the clusters of the file, if there is one, and returns them. `is_played` says whether the stand-in plays them.
    pub(super) async fn restore(
        &self,
        client: &Client,
        routes: &Router,
        is_played: bool,
        time_limit: Duration,
    ) -> anyhow::Result<Vec<ClusterKey>> {
        let Some(path) = &self.from else {
            return Ok(Vec::new());
        };
        let checkpoint = read(path).with_context(|| format!("failed to read {}", path.display()))?;
        if is_played {
            let refused = refuse_machines_of_cluster_api(&checkpoint);
            refused.with_context(|| format!("failed to restore {}", path.display()))?;
        }
        let clusters = clusters(&checkpoint);
        let workloads = OfProcess(routes.clone());
        workloads.started().await?;
        let restore = Restore {
            client,
            workloads: &workloads,
            replace: false,
            time_limit,
            report: &|step| tracing::info!(step, "Restoring"),
        };
        let restored = restore.run(checkpoint).await;
        restored.with_context(|| format!("failed to restore {}", path.display()))?;
        Ok(clusters)
    }

    /// The file to save all clusters to, if there is one.
    pub(super) fn saved(&self) -> Option<&Path> {
        self.save.as_deref()
    }

    /// Saves all clusters to the file, if there is one.
    pub(super) async fn save(&self, client: &Client, routes: &Router, now: Timestamp) -> anyhow::Result<()> {
        let Some(path) = &self.save else { return Ok(()) };
        let workloads = OfProcess(routes.clone());
        let namespaces = save::all_namespaces(client).await?;
        let version = nephele_manager::version();
        let saved = nephele_checkpoint::save(client, &workloads, &namespaces, now, version).await;
        let saved = saved.context("failed to read the clusters (--save)")?;
        save::write(&saved, path).with_context(|| format!("failed to write {}", path.display()))
    }
}

fn read(path: &Path) -> anyhow::Result<Checkpoint> {
    Ok(Checkpoint::read(BufReader::new(File::open(path)?))?)
}

/// The Clusters of a checkpoint.
fn clusters(checkpoint: &Checkpoint) -> Vec<ClusterKey> {
    let is_cluster = |object: &&kube::api::DynamicObject| {
        let types = object.types.as_ref();
        types.is_some_and(|types| {
            types.kind == "Cluster" && types.api_version.starts_with(&format!("{}/", core::GROUP))
        })
    };
    let clusters = checkpoint.objects.iter().filter(is_cluster);
    let keys = clusters.filter_map(|cluster| {
        Some((
            cluster.metadata.namespace.clone()?,
            cluster.metadata.name.clone()?,
        ))
    });
    keys.collect()
}

impl OfProcess {
    /// Waits until the cloud runs.
    async fn started(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + STARTED_WITHIN;
        while let Err(error) = self.names("default").await {
            if Instant::now() > deadline {
                return Err(error).context("the manager has not started");
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .body(Body::from(body))
            .context("failed to ask the manager")?;
        let answer = self
            .0
            .clone()
            .oneshot(request)
            .await
            .unwrap_or_else(|never| match never {});
        let status = answer.status();
        let body = answer
            .into_body()
            .collect()
            .await
            .context("failed to read from the manager")?;
        let body = body.to_bytes();
        if !status.is_success() && status != StatusCode::CONFLICT {
            bail!("the manager answers {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok((status, body))
    }

    async fn get(&self, namespace: &str, names: &str) -> anyhow::Result<Bytes> {
        let (_, body) = self
            .ask(Method::GET, &path(namespace, names), Bytes::new())
            .await?;
        Ok(body)
    }
}

impl Workloads for OfProcess {
    type Error = anyhow::Error;

    async fn read(&self, namespace: &str) -> anyhow::Result<Vec<u8>> {
        self.get(namespace, "false").await.map(Vec::from)
    }

    async fn names(&self, namespace: &str) -> anyhow::Result<BTreeSet<String>> {
        names_in(&self.get(namespace, "true").await?)
    }

    async fn put_back(&self, lines: Bytes) -> anyhow::Result<bool> {
        let (status, _) = self.ask(Method::PUT, PATH, lines).await?;
        Ok(status != StatusCode::CONFLICT)
    }

    async fn forget(&self) -> anyhow::Result<()> {
        self.ask(Method::DELETE, PATH, Bytes::new()).await.map(drop)
    }
}
