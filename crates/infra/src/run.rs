//! Caches, controllers, and who wakes whom.

use std::num::NonZeroU16;
use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _, future, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt as _};
use nephele_api::core::{Cluster, Machine};
use nephele_api::infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine};
use nephele_cloud::{Changed, Cloud, ClusterId};
use nephele_kit::{Cache, RunError, Runner, Services, WatchFilter, scoped};
use thiserror::Error;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::context::{Context, find_cluster, infrastructure_of, labelled_cluster};
use crate::{cluster, machine};

/// What the controllers look after, and how much at a time.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace to look at; none for all.
    pub watch_namespace: Option<String>,
    /// The value of `cluster.x-k8s.io/watch-filter` that an object must carry; none for any.
    pub watch_filter: Option<String>,
    /// Clusters reconciled at a time.
    pub cluster_concurrency: NonZeroU16,
    /// Machines reconciled at a time.
    pub machine_concurrency: NonZeroU16,
}

/// Why the controllers stopped.
#[derive(Debug, Error)]
pub enum Error {
    /// The cluster controller ended.
    #[error("failed to keep the cluster controller running")]
    Cluster(#[source] RunError),
    /// The machine controller ended.
    #[error("failed to keep the machine controller running")]
    Machine(#[source] RunError),
}

/// Runs both controllers until `shutdown`.
///
/// # Errors
/// When one of them ends by itself.
pub async fn run(
    client: Client,
    cloud: Cloud,
    services: Services,
    settings: Settings,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let Settings { watch_namespace, watch_filter, cluster_concurrency, machine_concurrency } = settings;
    let namespace = watch_namespace.as_deref();
    let everything = watcher::Config::default;
    let (clusters, follow_clusters) =
        Cache::<Cluster>::start(&services, scoped(client.clone(), namespace), everything(), shutdown.clone());
    let (machines, follow_machines) =
        Cache::<Machine>::start(&services, scoped(client.clone(), namespace), everything(), shutdown.clone());
    // Only the Secrets that Cluster API itself writes or adopts: certificates and kubeconfigs.
    let of_clusters = everything().fields("type=cluster.x-k8s.io/secret");
    let (secrets, follow_secrets) =
        Cache::<Secret>::start(&services, scoped(client.clone(), namespace), of_clusters, shutdown.clone());

    let context = Arc::new(Context {
        client: client.clone(),
        cloud: cloud.clone(),
        clock: services.clock.clone(),
        clusters: clusters.clone(),
        machines: machines.clone(),
        secrets: secrets.clone(),
        handed: Mutex::default(),
    });

    let filter = WatchFilter::new(watch_filter.as_deref());
    let cluster_runner = Runner::<InMemoryCluster>::new(
        "inmemorycluster",
        &services,
        scoped(client.clone(), namespace),
        filter.watch_config(),
        cluster_concurrency,
    );
    let by_secret = clusters.clone();
    let by_change = clusters.clone();
    let cluster_store = cluster_runner.store();
    let changed_clusters = cloud.changes().flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Cluster(id) => infrastructure_of_id(&by_change, &id).into_iter().collect(),
            Changed::Machine(_) => Vec::new(),
            Changed::Everything => all(&cluster_store),
        })
    });
    let cluster_runner = cluster_runner
        .watches(&clusters, infrastructure_of)
        .watches(&secrets, move |secret: &Secret| {
            labelled_cluster(&secret.metadata).and_then(|id| infrastructure_of_id(&by_secret, &id))
        })
        .reconcile_on(changed_clusters);

    let machine_runner = Runner::<InMemoryMachine>::new(
        "inmemorymachine",
        &services,
        scoped(client, namespace),
        filter.watch_config(),
        machine_concurrency,
    );
    let (of_cluster, of_change) = (machine_runner.store(), machine_runner.store());
    let changed_machines = cloud.changes().flat_map(move |changed| {
        stream::iter(match changed {
            Changed::Machine(id) => vec![ObjectRef::new(&id.name).within(&id.cluster.namespace)],
            Changed::Cluster(id) => machines_of(&of_change, &id),
            Changed::Everything => all(&of_change),
        })
    });
    let machine_runner = machine_runner
        .watches(&machines, infrastructure_of_machine)
        .watches(&clusters, move |cluster: &Cluster| {
            let namespace = cluster.namespace().unwrap_or_default();
            machines_of(&of_cluster, &ClusterId { namespace, name: cluster.name_any() })
        })
        .reads(&secrets)
        .reconcile_on(changed_machines);

    let (for_clusters, for_machines) = (context.clone(), context);
    let run_clusters = cluster_runner
        .run(move |object| cluster::reconcile(object, for_clusters.clone()), shutdown.clone())
        .map(|result| result.map_err(Error::Cluster));
    let run_machines = machine_runner
        .run(move |object| machine::reconcile(object, for_machines.clone()), shutdown.clone())
        .map(|result| result.map_err(Error::Machine));
    let follow = future::join3(follow_clusters, follow_machines, follow_secrets).map(Ok);
    future::try_join3(run_clusters, run_machines, follow).await.map(drop)
}

fn infrastructure_of_id(clusters: &Cache<Cluster>, id: &ClusterId) -> Option<ObjectRef<InMemoryCluster>> {
    infrastructure_of(&*find_cluster(clusters, id)?)
}

fn infrastructure_of_machine(machine: &Machine) -> Option<ObjectRef<InMemoryMachine>> {
    let reference = machine.spec.infrastructure_ref.as_ref()?;
    let namespace = machine.metadata.namespace.as_deref()?;
    (reference.kind == "InMemoryMachine").then(|| ObjectRef::new(&reference.name).within(namespace))
}

fn machines_of(store: &Store<InMemoryMachine>, id: &ClusterId) -> Vec<ObjectRef<InMemoryMachine>> {
    let of_cluster =
        |machine: &Arc<InMemoryMachine>| labelled_cluster(&machine.metadata).as_ref() == Some(id);
    store
        .state()
        .iter()
        .filter(|machine| of_cluster(machine))
        .map(|machine| ObjectRef::from(&**machine))
        .collect()
}

fn all<K>(store: &Store<K>) -> Vec<ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.state().iter().map(|object| ObjectRef::from(&**object)).collect()
}
