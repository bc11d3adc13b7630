//! The memory that deleted clusters leave behind: a world without trouble, in which clusters are created and deleted
//! again and again.

use std::time::Duration;

use kube::{Api, api::DeleteParams};
use nephele_api::core::{Cluster, Machine};
use tokio::time::{Instant, sleep};

use crate::{
    quiet::Quiet,
    world::{paused_runtime, plan},
};

/// Clusters of a round, side by side.
pub const CLUSTERS: u8 = 4;
/// Machines of a cluster: one of the control plane and two workers.
const MACHINES: usize = 3;
/// How long machines may take to come up, or a cluster to go.
const LIMIT: Duration = Duration::from_secs(1800);
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// After an hour the API server has forgotten the Events of a round.
const AFTER_ROUND: Duration = Duration::from_secs(3700);
/// The length of that hour: renewing the default lease would take half of the time of a round.
const LEASE: Duration = Duration::from_secs(3600);

/// Runs this many rounds and returns what `allocated` said after each.
///
/// # Errors
/// When clusters do not come up, or do not go.
pub fn rounds(rounds: usize, allocated: impl Fn() -> u64) -> Result<Vec<u64>, String> {
    fastrand::seed(0);
    paused_runtime().block_on(async {
        let world = Quiet::start(LEASE).await;
        let mut measured = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            world.round().await?;
            measured.push(allocated());
        }
        world.stop().await;
        Ok(measured)
    })
}

impl Quiet {
    /// Creates clusters, waits until their machines have Nodes, deletes them and waits until they are gone. Each round
    /// has the same names, so that lists by name do not grow.
    async fn round(&self) -> Result<(), String> {
        let client = self.api.client();
        let clusters: Api<Cluster> = Api::default_namespaced(client.clone());
        let machines: Api<Machine> = Api::default_namespaced(client.clone());
        let workers = u32::try_from(MACHINES - 1).unwrap_or(u32::MAX);
        for cluster in 0..CLUSTERS {
            let plan = plan(
                &("default".to_owned(), format!("cluster-{cluster}")),
                "salt",
                1,
                workers,
                true,
            );
            self.planned.set(plan.clone());
            nephele_fake_capi::create(&client, &plan)
                .await
                .map_err(|error| error.to_string())?;
        }
        let wanted = usize::from(CLUSTERS) * MACHINES;
        until("every machine has a Node", async || {
            let listed = machines
                .list(&Default::default())
                .await
                .map_err(|error| error.to_string())?;
            let has_node = |machine: &&Machine| {
                let status = machine.status.as_ref();
                status.is_some_and(|status| status.node_ref.is_some())
            };
            Ok(listed.iter().filter(has_node).count() == wanted)
        })
        .await?;
        for cluster in 0..CLUSTERS {
            let name = format!("cluster-{cluster}");
            clusters
                .delete(&name, &DeleteParams::default())
                .await
                .map_err(|error| error.to_string())?;
        }
        until("every cluster is gone", async || {
            let listed = clusters
                .list(&Default::default())
                .await
                .map_err(|error| error.to_string())?;
            Ok(listed.items.is_empty())
        })
        .await?;
        sleep(AFTER_ROUND).await;
        // The API of tests keeps each write until it is read.
        drop(self.api.take_writes());
        Ok(())
    }
}

async fn until(what: &str, is_so: impl AsyncFn() -> Result<bool, String>) -> Result<(), String> {
    let start = Instant::now();
    while !is_so().await? {
        if start.elapsed() > LIMIT {
            return Err(format!("not after {LIMIT:?}: {what}"));
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}
