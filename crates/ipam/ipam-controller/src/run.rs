//! Starts the watches and the controllers, and connects them.

use std::{
    collections::HashMap,
    num::NonZeroU16,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, join, join_all, try_join3},
};
use kube::{Api, Client, Resource as _, ResourceExt as _, runtime::watcher};
use nephele_api::{
    core::Cluster,
    ipam::{
        GROUP,
        v1alpha2::{
            self, GlobalInClusterIPPool, GlobalInClusterPrefixPool, InClusterIPPool, InClusterPrefixPool,
        },
        v1beta2::{self, IPAddress, IPAddressClaim},
    },
};
use nephele_controller::{
    Cache, Listed, Listing, Readable, RunError, Runner, Services, WatchFilter, chain, own_task, paused,
    scoped,
};
use thiserror::Error;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::{
    address,
    address::lister,
    claim,
    claim_queue::ClaimQueue,
    context::{Ahead, Context, cluster_name},
    fault,
    fault::Faults,
    metrics::Metrics,
    overlap::{OverlapPolicy, Overlaps},
    pool,
    pool::{PoolObject, Pools},
};

/// The gate that is closed until it is known which kinds the management API serves. The other gates exist only then.
pub const GATE: &str = "ipam";

/// How long to wait before checking again whether Cluster API's core is installed.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// Reconciles that may run besides those with a slot. They send no requests and end at once.
const LOOKS: u16 = 16;

/// What the controllers reconcile, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace whose claims and pools are reconciled; none for all. IPAddresses are always watched in all
    /// namespaces, because claims of any namespace may use a global pool.
    pub watch_namespace: Option<String>,
    /// The value of the label `cluster.x-k8s.io/watch-filter` that a claim must have; none for any. A pool without
    /// that label is used, but other managers report its status.
    pub watch_filter: Option<String>,
    /// The number of claims for which requests are sent at a time.
    pub concurrency: NonZeroU16,
    /// Whether IPAddresses whose claim is gone are deleted, and not only reported.
    pub reclaim_orphans: bool,
    /// What to do about pools that have addresses in common.
    pub overlap: OverlapPolicy,
    /// The seed of the draws of Faults.
    pub seed: String,
}

/// Why the controllers stopped.
#[derive(Debug, Error)]
pub enum Error {
    /// The claim controller ended by itself.
    #[error("the claim controller failed")]
    Claim(#[source] RunError),
    /// The fault controller ended by itself.
    #[error("the fault controller failed")]
    Fault(#[source] RunError),
}

/// Runs the controllers until `shutdown`. If the management cluster does not have the kinds, for example without
/// Cluster API's core, it logs that and waits for them.
///
/// The future is boxed so that this crate generates its code, once, and not every crate that awaits it.
///
/// # Errors
/// When the claim controller ends by itself.
pub fn run(
    client: Client,
    services: Services,
    metrics: Metrics,
    settings: Settings,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(async move {
        let gate = services.readiness.gate(GATE);
        if !await_kinds(&client, &gate, &shutdown).await {
            return Ok(());
        }
        let Settings {
            watch_namespace,
            watch_filter,
            concurrency,
            reclaim_orphans,
            overlap,
            seed,
        } = settings;
        let namespace = watch_namespace.as_deref();
        let filter = WatchFilter::new(watch_filter.as_deref());

        let clusters_api = scoped(client.clone(), namespace);
        let (clusters, follow_clusters) = Cache::<Cluster>::start(
            &services,
            clusters_api,
            watcher::Config::default(),
            shutdown.clone(),
        );
        let (lister, serve_lists) = lister(Api::all(client.clone()), shutdown.clone());
        let runner = Runner::<IPAddressClaim>::new(
            "ipaddressclaim",
            &services,
            scoped(client.clone(), namespace),
            &filter,
            concurrency.saturating_add(LOOKS),
        );
        let listed_claims = runner.listed();
        let context = Arc::new(Context {
            client: client.clone(),
            clock: services.clock.clone(),
            events: services.events.clone(),
            metrics,
            pools: Arc::new(Pools::default()),
            queue: ClaimQueue::new(concurrency.get().into()),
            lister,
            claims: runner.store(),
            claims_listed: AtomicBool::new(false),
            clusters: clusters.clone(),
            filter,
            watch_namespace: watch_namespace.clone(),
            holder: uuid::Uuid::new_v4().to_string(),
            reclaim_orphans,
            overlaps: Overlaps::new(overlap),
            ahead: Ahead::default(),
            faults: Faults::new(&seed),
        });

        let (follows, mut listed) = follow_all(&client, &services, &context, namespace, &shutdown);
        // No claim is served past a Fault.
        let (first_list, told) = Listing::start();
        listed.push(told);
        let run_faults = fault::run::follow(
            Arc::clone(&context),
            services.clone(),
            concurrency,
            first_list,
            shutdown.clone(),
        );
        let run_faults = own_task("address faults", run_faults).map(|result| result.map_err(Error::Fault));
        gate.open();

        let run_claims = reconcile_claims(runner, &context, listed, &shutdown);
        let rest = join(
            join(follow_clusters, own_task("lists of addresses", serve_lists)),
            join(
                join_all(follows),
                join(
                    note_listed(&context, listed_claims, &shutdown),
                    own_task(
                        "claims of clusters",
                        wake_by_clusters(Arc::clone(&context), clusters.clone(), shutdown.clone()),
                    ),
                ),
            ),
        );
        try_join3(run_claims, run_faults, rest.map(Ok)).await.map(drop)
    })
}

/// Reconciles claims once it is known what they are decided from.
async fn reconcile_claims(
    runner: Runner<IPAddressClaim>,
    context: &Arc<Context>,
    listed: Vec<Listed>,
    shutdown: &CancellationToken,
) -> Result<(), Error> {
    // A claim that is reconciled before its pool is known would report that the pool does not exist.
    // A watch that ended before its first list did so on shutdown.
    if shutdown.run_until_cancelled(all(listed)).await != Some(true) {
        return Ok(());
    }
    let runner = runner
        .reads(&context.clusters)
        .reconcile_on(context.queue.listen(context.claims.clone()));
    let context = Arc::clone(context);
    let run = runner.run(
        move |object| claim::reconcile(object, Arc::clone(&context)),
        shutdown.clone(),
    );
    run.await.map_err(Error::Claim)
}

/// Notes when the claims have been listed.
async fn note_listed(context: &Context, claims: Listed, shutdown: &CancellationToken) {
    if shutdown.run_until_cancelled(claims.wait()).await == Some(true) {
        context.claims_listed.store(true, Ordering::Release);
    }
}

/// Follows addresses and all kinds of pools. The second result tells when each has been listed.
fn follow_all(
    client: &Client,
    services: &Services,
    context: &Arc<Context>,
    namespace: Option<&str>,
    shutdown: &CancellationToken,
) -> (Vec<BoxFuture<'static, ()>>, Vec<Listed>) {
    let mut listed = Vec::new();
    let mut follows = Vec::new();
    {
        let (first_list, told) = Listing::start();
        listed.push(told);
        let gate = services.readiness.gate("cache IPAddress");
        let context = Arc::clone(context);
        let shutdown = shutdown.clone();
        let api = Api::<Readable<IPAddress>>::all(client.clone());
        let services = services.clone();
        let follow = async move {
            address::follow(
                &services,
                api,
                &context.pools,
                &context.queue,
                gate,
                first_list,
                shutdown,
            )
            .await;
        };
        follows.push(own_task("addresses", follow).boxed());
    }
    macro_rules! follow_pools {
        ($($kind:ty),*) => {$({
            let (first_list, told) = Listing::start();
            listed.push(told);
            let gate = services.readiness.gate(format!("cache {}", <$kind>::kind(&())));
            let api = <$kind as PoolObject>::readable(client.clone(), namespace);
            let follow =
                pool::follow(Arc::clone(context), services.clone(), api, gate, first_list, shutdown.clone());
            follows.push(own_task("pools", follow).boxed());
        })*};
    }
    follow_pools!(
        InClusterIPPool,
        GlobalInClusterIPPool,
        InClusterPrefixPool,
        GlobalInClusterPrefixPool
    );
    (follows, listed)
}

/// Whether all of these are listed; not if a watch ends before.
async fn all(listed: Vec<Listed>) -> bool {
    for listed in listed {
        if !listed.wait().await {
            return false;
        }
    }
    true
}

/// Wakes claims when their Cluster is created, deleted, paused or resumed.
async fn wake_by_clusters(context: Arc<Context>, clusters: Cache<Cluster>, shutdown: CancellationToken) {
    let mut touched = std::pin::pin!(clusters.touched());
    // Whether each Cluster is paused. Bounded by the Clusters that exist.
    let mut known: HashMap<(String, String), bool> = HashMap::new();
    while let Some(cluster) = shutdown.run_until_cancelled(touched.next()).await.flatten() {
        let id = (cluster.namespace().unwrap_or_default(), cluster.name_any());
        let current = clusters
            .get(&id.0, &id.1)
            .map(|cluster| paused(&*cluster, Some(&cluster)).is_some());
        let before = match current {
            Some(paused) => known.insert(id.clone(), paused),
            None => known.remove(&id),
        };
        if before != current {
            context.wake_claims(|claim| {
                claim.namespace().unwrap_or_default() == id.0 && cluster_name(claim) == Some(&id.1)
            });
        }
    }
}

/// Waits until the management API serves all kinds that are needed; false on `shutdown`.
async fn await_kinds(client: &Client, gate: &nephele_controller::Gate, shutdown: &CancellationToken) -> bool {
    let mut told = false;
    loop {
        let Some(missing) = shutdown.run_until_cancelled(missing_kinds(client)).await else {
            return false;
        };
        match missing {
            Ok(missing) if missing.is_empty() => return true,
            Ok(missing) => {
                if !std::mem::replace(&mut told, true) {
                    let missing = missing.join(", ");
                    warn!(
                        missing,
                        "No addresses are allocated until these kinds are installed; everything else works"
                    );
                }
                // The rest of the manager is ready without these kinds.
                gate.open();
            }
            Err(error) => debug!(error = %chain(&error), "Failed to check for the IPAM kinds"),
        }
        if shutdown.run_until_cancelled(sleep(LOOK_AGAIN)).await.is_none() {
            return false;
        }
    }
}

/// The kinds that the management API does not serve.
async fn missing_kinds(client: &Client) -> Result<Vec<String>, kube::Error> {
    let wanted = [
        (
            v1beta2::VERSION,
            vec!["ipaddressclaims".to_owned(), "ipaddresses".to_owned()],
        ),
        (
            v1alpha2::VERSION,
            vec![
                InClusterIPPool::plural(&()).into_owned(),
                GlobalInClusterIPPool::plural(&()).into_owned(),
                InClusterPrefixPool::plural(&()).into_owned(),
                GlobalInClusterPrefixPool::plural(&()).into_owned(),
            ],
        ),
    ];
    let mut missing = Vec::new();
    for (version, plurals) in wanted {
        let served = match client
            .list_api_group_resources(&format!("{GROUP}/{version}"))
            .await
        {
            Ok(list) => list.resources.into_iter().map(|resource| resource.name).collect(),
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            Err(error) => return Err(error),
        };
        let absent = plurals.into_iter().filter(|plural| !served.contains(plural));
        missing.extend(absent.map(|plural| format!("{plural}.{version}.{GROUP}")));
    }
    Ok(missing)
}
