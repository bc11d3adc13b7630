//! The reconcile loop: at most one round per cluster at a time, triggered by changes in the management API.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::controller::{Action as Requeue, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt as _};
use nephele_api::core::{Cluster, ClusterNetwork, ClusterSpec, Machine, MachinePool, NetworkRanges};
use nephele_api::infrastructure::v1beta2::{
    self as infrastructure, InMemoryCluster, InMemoryClusterSpec, InMemoryMachine, InMemoryMachinePool,
};
use nephele_api::labels;
use nephele_kit::Clock;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::act::{self, ActError, Actor, reference};
use crate::decide::{asks_workload, decide};
use crate::names::CLUSTER_FINALIZER;
use crate::observe::observe;
use crate::plan::{ClusterPlan, Plan, PlannedClusters};
use crate::surroundings::{KeyPairs, Surroundings};
use crate::workload::{self, Clients};

/// The time until a failed round is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// How many clusters are reconciled at a time.
const CONCURRENCY: u16 = 16;

/// Why the stand-in cannot run.
#[derive(Debug, Error)]
pub enum Error {
    /// The clusters of the plan could not be created.
    #[error("failed to create the clusters of the plan: {0}")]
    Create(String),
}

#[derive(Debug, Error)]
enum RoundError {
    #[error("failed to read the management API")]
    Observe(#[source] kube::Error),
    #[error("failed to act")]
    Act(#[source] ActError),
}

struct Context {
    client: Client,
    clusters: PlannedClusters,
    clock: Clock,
    poll: Duration,
    key_pairs: KeyPairs,
    clients: Clients,
}

/// The CRDs that the stand-in needs besides the provider's own: Cluster API's kinds, which accept any field.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    [nephele_api::core::loose_crds(), nephele_api::ipam::loose_crds()].concat()
}

/// Creates the clusters of the plan and plays Cluster API for them until `shutdown`. The CRDs have to exist.
///
/// # Errors
/// When the clusters cannot be created.
pub async fn run(client: Client, plan: Plan, clock: Clock, shutdown: CancellationToken) -> Result<(), Error> {
    for cluster in &plan.clusters {
        create(&client, cluster).await?;
    }
    play(client, PlannedClusters::new(plan), Surroundings::real(clock), shutdown).await;
    Ok(())
}

/// Plays Cluster API for the clusters until `shutdown`, and follows changes of their plans. The CRDs have to exist;
/// [`create`] creates the clusters.
pub async fn play(
    client: Client,
    clusters: PlannedClusters,
    surroundings: Surroundings,
    shutdown: CancellationToken,
) {
    let everything = watcher::Config::default;
    let Surroundings { clock, poll, connect, key_pairs } = surroundings;
    let planned = clusters.changes();
    let context = Arc::new(Context {
        client: client.clone(),
        clusters,
        clock,
        poll,
        key_pairs,
        clients: Clients::new(connect),
    });
    Controller::new(Api::<Cluster>::all(client.clone()), everything())
        .reconcile_all_on(planned)
        .with_config(Config::default().concurrency(CONCURRENCY))
        .watches(Api::<Machine>::all(client.clone()), everything(), |machine| of_cluster(&machine))
        .watches(Api::<InMemoryMachine>::all(client.clone()), everything(), |machine| of_cluster(&machine))
        .watches(Api::<MachinePool>::all(client.clone()), everything(), |pool| of_cluster(&pool))
        .watches(Api::<InMemoryMachinePool>::all(client.clone()), everything(), |pool| of_cluster(&pool))
        .watches(Api::<InMemoryCluster>::all(client), everything(), |cluster| of_cluster(&cluster))
        .graceful_shutdown_on(shutdown.cancelled_owned())
        .run(round, |_, _, _| Requeue::requeue(RETRY), context)
        .for_each(|result| {
            if let Err(error) = result {
                tracing::debug!(error = %nephele_kit::chain(&error), "A round failed");
            }
            std::future::ready(())
        })
        .await;
}

fn of_cluster<K: Resource>(object: &K) -> Option<ObjectRef<Cluster>> {
    let name = labels::value(object.meta(), labels::CLUSTER_NAME)?;
    Some(ObjectRef::new(name).within(object.meta().namespace.as_deref()?))
}

/// Creates the objects that a user applies: a Cluster and its InMemoryCluster, which has no owner yet. Existing objects
/// stay unchanged.
///
/// # Errors
/// When one of the objects cannot be created.
pub async fn create(client: &Client, plan: &ClusterPlan) -> Result<(), Error> {
    create_objects(client, plan).await.map_err(|error| Error::Create(nephele_kit::chain(&error)))
}

async fn create_objects(client: &Client, plan: &ClusterPlan) -> Result<(), ActError> {
    let metadata = |name: &str| ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata: metadata(&plan.namespace), ..Namespace::default() };
    act::create(&Api::all(client.clone()), &namespace).await?;
    let pool = plan.control_plane_address_pool.clone();
    let network =
        pool.map(|pool| infrastructure::ClusterNetwork { control_plane_address_from_pool: Some(pool) });
    let infrastructure = InMemoryCluster {
        metadata: metadata(&plan.name),
        spec: InMemoryClusterSpec { network, ..InMemoryClusterSpec::default() },
        status: None,
    };
    act::create(&Api::namespaced(client.clone(), &plan.namespace), &infrastructure).await?;
    let blocks = |block: &str| Some(NetworkRanges { cidr_blocks: vec![block.to_owned()] });
    let cluster = Cluster {
        metadata: ObjectMeta { finalizers: Some(vec![CLUSTER_FINALIZER.to_owned()]), ..metadata(&plan.name) },
        spec: ClusterSpec {
            cluster_network: Some(ClusterNetwork {
                pods: blocks(&plan.pod_network),
                services: blocks("10.128.0.0/12"),
                service_domain: "cluster.local".to_owned(),
            }),
            infrastructure_ref: Some(reference("InMemoryCluster", &plan.name)),
            ..ClusterSpec::default()
        },
        status: None,
    };
    act::create(&Api::namespaced(client.clone(), &plan.namespace), &cluster).await
}

/// Observes, decides, acts. Each write triggers the next round.
async fn round(cluster: Arc<Cluster>, context: Arc<Context>) -> Result<Requeue, RoundError> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let Some(plan) = context.clusters.get(&namespace, &name) else {
        return Ok(Requeue::await_change());
    };
    let mut observed =
        observe(&context.client, &cluster, plan.pool.is_some()).await.map_err(RoundError::Observe)?;
    if observed.cluster.uid().is_none() || observed.cluster.is_paused() {
        return Ok(Requeue::await_change());
    }
    let mut workload = None;
    let kubeconfig = observed.secret("kubeconfig").cloned();
    if let Some(kubeconfig) = &kubeconfig
        && asks_workload(&observed)
    {
        // A workload cluster that does not answer is not up yet, or no longer up: either way there is nothing to read.
        let asked = async {
            let client = context.clients.get(kubeconfig).await?;
            let answer = workload::ask(&client).await?;
            Ok::<_, workload::WorkloadError>((client, answer))
        };
        match asked.await {
            Ok((client, answer)) => {
                workload = Some(client);
                observed.workload = Some(answer);
            }
            Err(error) => {
                tracing::debug!(cluster = name, error = %nephele_kit::chain(&error), "The cluster does not answer");
            }
        }
    }
    let now = (context.clock)();
    let decision = decide(&plan, &observed, now);
    let actor = Actor {
        client: &context.client,
        workload: workload.as_ref(),
        plan: &plan,
        key_pairs: &context.key_pairs,
        observed: &observed,
        now,
    };
    for action in decision.actions {
        tracing::debug!(cluster = name, ?action, "Acting");
        actor.act(action).await.map_err(RoundError::Act)?;
    }
    if observed.cluster.metadata.deletion_timestamp.is_some()
        && let Some(kubeconfig) = &kubeconfig
    {
        context.clients.forget(kubeconfig).await;
    }
    Ok(if decision.polls { Requeue::requeue(context.poll) } else { Requeue::await_change() })
}
