//! Follows the objects in the management API and shows their changes.

use std::{sync::Arc, time::Duration};

use anyhow::bail;
use futures::{
    StreamExt as _, TryStreamExt as _,
    stream::{BoxStream, SelectAll},
};
use kube::{
    Api, Client,
    runtime::{
        reflector::{self, Store},
        watcher,
    },
};
use nephele_api::{
    core::{Cluster, Machine},
    infrastructure::v1beta2::InMemoryMachine,
    ipam::v1alpha2::InClusterIPPool,
};
use nephele_controller::{Kind, quietly_watched};
use nephele_fake_capi::Plan;

use super::{screen::Screen, view::View};

/// Changes within this time are shown together.
const FRAME: Duration = Duration::from_millis(50);

/// The followed objects.
pub(super) struct Progress {
    names: Vec<String>,
    pools: Store<InClusterIPPool>,
    clusters: Store<Cluster>,
    machines: Store<Machine>,
    infrastructure: Store<InMemoryMachine>,
    changes: SelectAll<BoxStream<'static, Result<(), watcher::Error>>>,
}

impl Progress {
    /// Starts to follow all clusters. `until_available` waits for the clusters of the plan.
    pub(super) fn start(client: &Client, plan: Plan) -> Self {
        let (pools, of_pools) = follow::<InClusterIPPool>(client);
        let (clusters, of_clusters) = follow::<Cluster>(client);
        let (machines, of_machines) = follow::<Machine>(client);
        let (infrastructure, of_infrastructure) = follow::<InMemoryMachine>(client);
        Self {
            names: plan.clusters.into_iter().map(|cluster| cluster.name).collect(),
            pools,
            clusters,
            machines,
            infrastructure,
            changes: futures::stream::select_all([of_pools, of_clusters, of_machines, of_infrastructure]),
        }
    }

    /// The state of everything now.
    pub(super) fn view(&self) -> View {
        let pools = self.pools.state();
        let clusters = self.clusters.state();
        let machines = self.machines.state();
        let infrastructure = self.infrastructure.state();
        View::new(
            &borrowed(&pools),
            &borrowed(&clusters),
            &borrowed(&machines),
            &borrowed(&infrastructure),
        )
    }

    /// Shows changes until all clusters of the plan are available.
    pub(super) async fn until_available(&mut self, screen: &mut Screen) -> anyhow::Result<()> {
        loop {
            let view = self.view();
            let available = view.are_available(self.names.iter().map(String::as_str));
            screen.show(view);
            if available {
                return Ok(());
            }
            self.changed().await?;
        }
    }

    /// Shows changes for ever.
    pub(super) async fn follow(&mut self, screen: &mut Screen) -> anyhow::Result<()> {
        loop {
            self.changed().await?;
            screen.show(self.view());
        }
    }

    /// Waits for a change, and for further changes within [`FRAME`].
    async fn changed(&mut self) -> anyhow::Result<()> {
        let Some(first) = self.changes.next().await else {
            bail!("the management API is gone")
        };
        if let Err(error) = first {
            tracing::debug!(error = %nephele_controller::chain(&error), "A watch failed and is tried again");
        }
        let frame = tokio::time::Instant::now() + FRAME;
        while tokio::time::timeout_at(frame, self.changes.next())
            .await
            .is_ok_and(|change| change.is_some())
        {}
        Ok(())
    }
}

fn borrowed<K>(objects: &[Arc<K>]) -> Vec<&K> {
    objects.iter().map(|object| &**object).collect()
}

fn follow<K: Kind>(client: &Client) -> (Store<K>, BoxStream<'static, Result<(), watcher::Error>>) {
    let (store, writer) = reflector::store();
    let events = quietly_watched::<K>(Api::all(client.clone()), watcher::Config::default());
    (store, reflector::reflector(writer, events).map_ok(|_| ()).boxed())
}
