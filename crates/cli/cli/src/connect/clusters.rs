//! The clusters of the management cluster, as they come and go.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use kube::{
    ResourceExt as _,
    api::ListParams,
    core::DynamicObject,
    runtime::{
        WatchStreamExt as _, watcher as watch,
        watcher::{self, Event},
    },
};
use nephele_api::core::{self, Cluster};

use super::plan::{ClusterId, Observed};
use crate::{access::Access, exit::Problem, watched::Watched};

/// What a watch says, with the number of the watch.
type Numbered = (usize, Result<Event<DynamicObject>, watcher::Error>);

/// All clusters of some namespaces.
pub(super) struct Clusters {
    events: SelectAll<BoxStream<'static, Numbered>>,
    /// The clusters of each watch.
    parts: Vec<Watched<ClusterId, Observed>>,
}

impl Clusters {
    /// Watches these namespaces; an empty list means all. Returns when all clusters are known.
    pub(super) async fn watch(access: &Access, namespaces: &[String]) -> Result<Self> {
        let resource = access.kind(core::GROUP, "Cluster").await?;
        let scopes: Vec<_> = match namespaces {
            [] => vec![None],
            names => names.iter().map(|name| Some(name.as_str())).collect(),
        };
        let mut clusters = Self {
            events: SelectAll::new(),
            parts: Vec::new(),
        };
        for (number, scope) in scopes.into_iter().enumerate() {
            let api = access.api(&resource, scope);
            // A watch tries again for ever; a list fails at once.
            let listed = api.list(&ListParams::default().limit(1)).await;
            listed.map_err(|error| Problem::request("list the clusters", &needs("list", scope), error))?;
            let events = watch(api, watcher::Config::default()).default_backoff();
            clusters
                .events
                .push(events.map(move |event| (number, event)).boxed());
            clusters.parts.push(Watched::default());
        }
        while !clusters.parts.iter().all(|part| part.is_complete) {
            if let Err(watcher::Error::InitialListFailed(error)) = clusters.changed().await {
                return Err(Problem::request("watch the clusters", &needs("watch", None), error).into());
            }
        }
        Ok(clusters)
    }

    /// Waits for a change.
    pub(super) async fn changed(&mut self) -> Result<(), watcher::Error> {
        let Some((number, event)) = self.events.next().await else {
            // A watch does not end by itself.
            return std::future::pending().await;
        };
        self.parts[number].apply(event?, observe);
        Ok(())
    }

    pub(super) fn observed(&self) -> BTreeMap<ClusterId, Observed> {
        self.parts.iter().flat_map(|part| part.known.clone()).collect()
    }
}

fn needs(verb: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{verb} clusters.cluster.x-k8s.io in namespace {namespace}"),
        None => {
            format!("{verb} clusters.cluster.x-k8s.io in all namespaces (or choose one with --namespace)")
        }
    }
}

fn observe(object: DynamicObject) -> Option<(ClusterId, Observed)> {
    let id = ClusterId {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    };
    // A cluster of a shape that we do not know has no endpoint that we know.
    let observed = object
        .try_parse::<Cluster>()
        .map_or(Observed::Starting, |cluster| Observed::of(&cluster));
    Some((id, observed))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Part = Watched<ClusterId, Observed>;

    fn cluster(name: &str) -> DynamicObject {
        let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"namespace": "n", "name": name}, "spec": {}});
        serde_json::from_value(object).expect("a Cluster")
    }

    #[test]
    fn clusters_that_vanished_while_the_watch_was_broken_are_gone() {
        let mut part = Watched::default();
        let names = |part: &Part| part.known.keys().map(|id| id.name.clone()).collect::<Vec<_>>();
        let list = |part: &mut Part, names: &[&str]| {
            part.apply(Event::Init, observe);
            names
                .iter()
                .for_each(|name| part.apply(Event::InitApply(cluster(name)), observe));
        };
        list(&mut part, &["a", "b"]);
        assert!(!part.is_complete);
        part.apply(Event::InitDone, observe);
        part.apply(Event::Apply(cluster("c")), observe);
        part.apply(Event::Delete(cluster("a")), observe);
        assert_eq!(
            (names(&part), part.is_complete),
            (vec!["b".to_owned(), "c".to_owned()], true)
        );
        list(&mut part, &["c"]);
        assert_eq!(names(&part), ["b", "c"]);
        part.apply(Event::InitDone, observe);
        assert_eq!(names(&part), ["c"]);
    }
}
