//! Clusters that have to be available all the time. They are followed with a watch, because polling would miss short
//! interruptions.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::ensure;
use futures::StreamExt;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{WatchStreamExt, watcher},
};
use nephele_e2e::{Cluster, Scope, management::kinds, state};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;

/// The most states that are recorded, which is enough to find a cause.
const MOMENTS_MAX: usize = 40;

/// The interruptions of the clusters in a namespace since all were available.
pub(crate) struct Witness {
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The time since which each cluster is available.
    since: BTreeMap<String, Value>,
    /// States in which a cluster was not available, with the reason.
    moments: Vec<String>,
}

impl Seen {
    /// Whether the state differs from the last one.
    fn differs(&mut self, cluster: &Value) -> bool {
        let available = state::condition(cluster, "Available")
            .cloned()
            .unwrap_or_default();
        let transition = &available["lastTransitionTime"];
        let since = self
            .since
            .entry(state::name(cluster).to_owned())
            .or_insert_with(|| transition.clone());
        let differs = available["status"] != "True" || since != transition;
        *since = transition.clone();
        differs
    }
}

impl Witness {
    /// Starts to follow clusters, all of which are available.
    pub(crate) fn follow(scope: &Scope, clusters: &[Cluster]) -> Self {
        let (group, version, kind) = kinds::CLUSTER;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> =
            Api::namespaced_with(scope.management.client(), &scope.namespace, &resource);
        let clusters: BTreeMap<_, _> = clusters
            .iter()
            .map(|cluster| (cluster.name.clone(), cluster.clone()))
            .collect();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let followed = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
            while let Some(event) = events.next().await {
                let Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) = event else {
                    continue;
                };
                let object = serde_json::to_value(&object).unwrap_or_default();
                if !followed.lock().differs(&object) {
                    continue;
                }
                let details = match clusters.get(state::name(&object)) {
                    Some(cluster) => cluster.state().await.unwrap_or_else(|error| format!("{error:#}")),
                    None => String::new(),
                };
                let moment = format!("{} {}\n{details}", jiff::Timestamp::now(), state::line(&object));
                let moments = &mut followed.lock().moments;
                if moments.len() < MOMENTS_MAX {
                    moments.push(moment);
                }
            }
        });
        Self { seen, task }
    }

    /// Fails if one of the clusters was not available, even for a moment.
    pub(crate) fn all_the_time(&self, clusters: usize) -> anyhow::Result<()> {
        let seen = self.seen.lock();
        ensure!(
            seen.since.len() == clusters,
            "{} of {clusters} clusters are followed",
            seen.since.len()
        );
        ensure!(
            seen.moments.is_empty(),
            "not available all the time:\n{}",
            seen.moments.join("\n\n")
        );
        Ok(())
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_moment_that_has_passed_is_seen() {
        let cluster = |status: &str, since: &str| {
            json!({"metadata": {"name": "a"}, "status": {"conditions": [
                {"type": "Available", "status": status, "lastTransitionTime": since},
            ]}})
        };
        let mut seen = Seen::default();
        assert!(!seen.differs(&cluster("True", "1")) && !seen.differs(&cluster("True", "1")));
        assert!(seen.differs(&cluster("True", "2")) && !seen.differs(&cluster("True", "2")));
        assert!(seen.differs(&cluster("Unknown", "2")));
        assert!(seen.differs(&json!({"metadata": {"name": "b"}})));
    }
}
