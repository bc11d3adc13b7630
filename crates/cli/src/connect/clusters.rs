//! The clusters of the management cluster, as they come and go.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use nephele_api::core::{self, Cluster};

use super::plan::{ClusterId, Observed};
use crate::access::Access;
use crate::exit::Problem;

/// What a watch says, with the number of the watch.
type Numbered = (usize, Result<Event<DynamicObject>, watcher::Error>);

/// All clusters of some namespaces.
pub(super) struct Clusters {
    events: SelectAll<BoxStream<'static, Numbered>>,
    parts: Vec<Part>,
}

/// The clusters of one watch.
#[derive(Debug, Default)]
struct Part {
    /// Whether all clusters that exist are known.
    complete: bool,
    known: BTreeMap<ClusterId, Observed>,
    /// Of a new list that is not complete.
    listed: BTreeMap<ClusterId, Observed>,
}

impl Clusters {
    /// Watches these namespaces; an empty list means all. Returns when all clusters are known.
    pub(super) async fn watch(access: &Access, namespaces: &[String]) -> Result<Self> {
        let resource = access.kind(core::GROUP, "Cluster").await?;
        let scopes: Vec<_> = match namespaces {
            [] => vec![None],
            names => names.iter().map(|name| Some(name.as_str())).collect(),
        };
        let mut clusters = Self { events: SelectAll::new(), parts: Vec::new() };
        for (number, scope) in scopes.into_iter().enumerate() {
            let api = access.api(&resource, scope);
            // A watch tries again for ever; a list fails at once.
            let listed = api.list(&ListParams::default().limit(1)).await;
            listed.map_err(|error| Problem::request("list the clusters", &needs("list", scope), error))?;
            let events = watch(api, watcher::Config::default()).default_backoff();
            clusters.events.push(events.map(move |event| (number, event)).boxed());
            clusters.parts.push(Part::default());
        }
        while !clusters.parts.iter().all(|part| part.complete) {
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
        self.parts[number].apply(event?);
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

impl Part {
    fn apply(&mut self, event: Event<DynamicObject>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                let (id, observed) = observe(object);
                self.listed.insert(id, observed);
            }
            Event::InitDone => {
                self.known = std::mem::take(&mut self.listed);
                self.complete = true;
            }
            Event::Apply(object) => {
                let (id, observed) = observe(object);
                self.known.insert(id, observed);
            }
            Event::Delete(object) => {
                self.known.remove(&observe(object).0);
            }
        }
    }
}

fn observe(object: DynamicObject) -> (ClusterId, Observed) {
    let id = ClusterId { namespace: object.namespace().unwrap_or_default(), name: object.name_any() };
    // A cluster of a shape that we do not know has no endpoint that we know.
    let observed = object.try_parse::<Cluster>().map_or(Observed::Starting, |cluster| Observed::of(&cluster));
    (id, observed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str) -> DynamicObject {
        let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"namespace": "n", "name": name}, "spec": {}});
        serde_json::from_value(object).expect("a Cluster")
    }

    #[test]
    fn clusters_that_vanished_while_the_watch_was_broken_are_gone() {
        let mut part = Part::default();
        let names = |part: &Part| part.known.keys().map(|id| id.name.clone()).collect::<Vec<_>>();
        let list = |part: &mut Part, names: &[&str]| {
            part.apply(Event::Init);
            names.iter().for_each(|name| part.apply(Event::InitApply(cluster(name))));
        };
        list(&mut part, &["a", "b"]);
        assert!(!part.complete);
        part.apply(Event::InitDone);
        part.apply(Event::Apply(cluster("c")));
        part.apply(Event::Delete(cluster("a")));
        assert_eq!((names(&part), part.complete), (vec!["b".to_owned(), "c".to_owned()], true));
        list(&mut part, &["c"]);
        assert_eq!(names(&part), ["b", "c"]);
        part.apply(Event::InitDone);
        assert_eq!(names(&part), ["c"]);
    }
}
