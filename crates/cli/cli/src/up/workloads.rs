//! Follows the Clusters in the management API, waits for them, and keeps a kubeconfig file for each one that is up.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context as _, bail};
use futures::{
    StreamExt as _, TryStreamExt as _,
    stream::{BoxStream, SelectAll, select_all},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, runtime::watcher};
use nephele_api::{core::Cluster, labels};
use nephele_controller::quietly_watched;

use super::state::{ClusterKey, Followed, State};
use crate::{embedded::Folder, label::label, published::Published};

/// A kubeconfig file.
pub(super) struct Written {
    pub(super) key: ClusterKey,
    pub(super) path: PathBuf,
    /// The URL of the cluster's API server.
    pub(super) server: String,
    content: String,
}

/// The Clusters and their kubeconfig files.
pub(super) struct Workloads<'a> {
    folder: &'a Folder,
    state: State,
    written: BTreeMap<ClusterKey, Written>,
    changes: SelectAll<BoxStream<'static, Result<Followed, watcher::Error>>>,
    /// Why the last watch failed; one that fails for ever explains why nothing happens.
    failure: Option<String>,
}

impl<'a> Workloads<'a> {
    pub(super) fn new(client: &Client, folder: &'a Folder) -> Self {
        let clusters = quietly_watched::<Cluster>(Api::all(client.clone()), watcher::Config::default());
        // Cluster API puts this label on its Secrets.
        let of_clusters = watcher::Config::default().labels(labels::CLUSTER_NAME);
        let secrets = quietly_watched::<Secret>(Api::all(client.clone()), of_clusters);
        let changes = [
            clusters
                .map_ok(|event| Followed::Cluster(Box::new(event)))
                .boxed(),
            secrets.map_ok(|event| Followed::Secret(Box::new(event))).boxed(),
        ];
        Self {
            folder,
            state: State::default(),
            written: BTreeMap::new(),
            changes: select_all(changes),
            failure: None,
        }
    }

    /// Waits until all wanted clusters are available and have their files. If the stand-in plays them, a topology that
    /// cannot be used is an error at once.
    pub(super) async fn until_available(
        &mut self,
        wanted: &[ClusterKey],
        is_played: bool,
    ) -> anyhow::Result<()> {
        loop {
            if is_played && let Some(mistake) = self.state.mistake(wanted) {
                bail!("{mistake}");
            }
            let is_up = |key: &ClusterKey| self.state.is_available(key) && self.written.contains_key(key);
            if wanted.iter().all(is_up) {
                return Ok(());
            }
            self.changed().await?;
            for (key, error) in self.write_files() {
                if wanted.contains(&key) {
                    return Err(error);
                }
                warn(&error);
            }
        }
    }

    /// Keeps the files up to date for ever.
    pub(super) async fn keep(&mut self) -> anyhow::Result<()> {
        loop {
            self.changed().await?;
            self.write_files().iter().for_each(|(_, error)| warn(error));
        }
    }

    /// The files of these clusters.
    pub(super) fn written(&self, clusters: &[ClusterKey]) -> impl Iterator<Item = &Written> {
        clusters.iter().filter_map(|key| self.written.get(key))
    }

    /// The clusters that are not available, with the reasons.
    pub(super) fn what_is_missing(&self, wanted: &[ClusterKey]) -> String {
        let missing = self.state.what_is_missing(wanted);
        let failure = self
            .failure
            .as_ref()
            .map(|failure| format!("; the last watch failed: {failure}"));
        missing + failure.as_deref().unwrap_or_default()
    }

    async fn changed(&mut self) -> anyhow::Result<()> {
        let Some(change) = self.changes.next().await else {
            bail!("the management API is gone")
        };
        match change {
            Ok(change) => {
                self.failure = None;
                self.state.apply(change);
            }
            Err(error) => {
                let failure = nephele_controller::chain(&error);
                tracing::warn!(error = failure, "A watch failed and is tried again");
                self.failure = Some(failure);
            }
        }
        Ok(())
    }

    /// Writes the files of clusters that have come up, and removes those of clusters that are gone. Returns what failed,
    /// by cluster.
    fn write_files(&mut self) -> Vec<(ClusterKey, anyhow::Error)> {
        let wanted = self.state.kubeconfigs();
        let mut failed = Vec::new();
        let gone = self.written.extract_if(.., |key, _| !wanted.contains_key(key));
        for (key, file) in gone {
            failed.extend(Folder::remove(&file.path).err().map(|error| (key, error)));
        }
        for (key, content) in wanted {
            if self.written.get(key).is_some_and(|file| file.content == *content) {
                continue;
            }
            match self.write_file(key, content) {
                Ok(file) => drop(self.written.insert(key.clone(), file)),
                Err(error) => failed.push((key.clone(), error)),
            }
        }
        failed
    }

    /// The file has the same content as the Secret, by which libraries for tests find it.
    fn write_file(&self, key: &ClusterKey, content: &str) -> anyhow::Result<Written> {
        let (namespace, cluster) = key;
        let published = Published::read_whole(content)
            .with_context(|| format!("failed to use the kubeconfig of Cluster {namespace}/{cluster}"))?;
        let path = self.folder.write(&self.file_name(key), content)?;
        Ok(Written {
            key: key.clone(),
            path,
            server: published.server,
            content: content.to_owned(),
        })
    }

    fn file_name(&self, key: &ClusterKey) -> String {
        let file = |label: &str| format!("{label}.kubeconfig");
        let is_taken = |label: &str| {
            let path = self.folder.path(&file(label));
            self.written
                .values()
                .any(|other| other.path == path && other.key != *key)
        };
        file(&label(&key.0, &key.1, is_taken))
    }
}

fn warn(error: &anyhow::Error) {
    tracing::warn!(error = %nephele_controller::chain(error.as_ref()), "A kubeconfig file is not up to date");
}
