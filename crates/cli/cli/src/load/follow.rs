//! Watches the Clusters of a run and their Machines, and yields what is seen.

use std::{collections::BTreeSet, sync::Arc};

use futures::{Stream, StreamExt as _, stream, stream::BoxStream};
use kube::{
    Api, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher as watch},
    },
};
use nephele_api::{
    core::{Cluster, Machine},
    labels,
};
use tokio::time::Instant;

use super::{
    management::Management,
    plan::{LABEL, Shape},
    record::{Observation, Seen},
};

/// What the watches yield: an observation, or that a watch failed and starts again.
pub(super) type Followed = Result<Observation, watcher::Error>;

/// Follows the run from now on.
pub(super) fn run(
    management: &Management,
    shape: &Shape,
    start: Instant,
) -> impl Stream<Item = Followed> + use<> {
    stream::select(
        clusters(management, shape, start),
        machines(management, shape, start),
    )
}

fn clusters(management: &Management, shape: &Shape, start: Instant) -> BoxStream<'static, Followed> {
    let api = Api::<Cluster>::namespaced(management.client.clone(), &shape.namespace);
    let config = watcher::Config::default().labels(&format!("{LABEL}={}", shape.run));
    let seen = move |event: Event<Cluster>| {
        let what = match event {
            Event::Apply(cluster) | Event::InitApply(cluster) => Seen::cluster(cluster.name_any(), &cluster),
            Event::Delete(cluster) => Seen::Gone {
                cluster: cluster.name_any(),
            },
            Event::Init | Event::InitDone => return None,
        };
        Some(Observation {
            at: start.elapsed(),
            what,
        })
    };
    observations(watch(api, config).default_backoff(), seen)
}

fn machines(management: &Management, shape: &Shape, start: Instant) -> BoxStream<'static, Followed> {
    let api = Api::<Machine>::namespaced(management.client.clone(), &shape.namespace);
    let config = watcher::Config::default().labels(labels::CLUSTER_NAME);
    let ours: Arc<BTreeSet<_>> = Arc::new(shape.names().into_iter().collect());
    let seen = move |event: Event<Machine>| match event {
        Event::Apply(machine) | Event::InitApply(machine) if ours.contains(&machine.spec.cluster_name) => {
            Some(Observation {
                at: start.elapsed(),
                what: Seen::machine(machine.name_any(), &machine),
            })
        }
        Event::Apply(_) | Event::InitApply(_) | Event::Delete(_) | Event::Init | Event::InitDone => None,
    };
    observations(watch(api, config).default_backoff(), seen)
}

fn observations<K: Send + 'static>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
    seen: impl Fn(Event<K>) -> Option<Observation> + Send + 'static,
) -> BoxStream<'static, Followed> {
    events
        .filter_map(move |event| std::future::ready(event.map(&seen).transpose()))
        .boxed()
}
