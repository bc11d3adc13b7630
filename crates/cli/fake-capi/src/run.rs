//! The reconcile loop: at most one round per cluster at a time, triggered by changes in the management API.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, pending},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Secret, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Client, ResourceExt as _,
    runtime::controller::{Action as Requeue, Config, Controller},
};
use nephele_controller::Clock;
use tokio_util::sync::CancellationToken;

use crate::{
    act::{ActError, Actor},
    cache::{Caches, Key},
    create::{Error, create},
    decide::{asks_workload, decide, refused},
    observe::{Observed, Probe, observe},
    plan::{ClusterPlan, Plan, PlannedClusters},
    surroundings::{KeyPairs, Surroundings},
    topology,
    wanted::Wanted,
    watches::{self, Scheduled},
    workload::{self, Clients},
};

/// The time until a failed round is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// What each machine adds to the time between two probes: a thousand Nodes are read every ten seconds.
const PROBE_OF_MACHINE: Duration = Duration::from_millis(10);

/// How many clusters are reconciled at a time.
const CONCURRENCY: u16 = 16;

#[derive(Debug, thiserror::Error)]
enum RoundError {
    #[error("failed to act")]
    Act(#[source] ActError),
}

struct Context {
    client: Client,
    caches: Arc<Caches>,
    clusters: PlannedClusters,
    clock: Clock,
    poll: Duration,
    probe: Duration,
    key_pairs: KeyPairs,
    clients: Clients,
}

/// The contracts of Cluster API.
const CONTRACTS: [&str; 2] = ["v1beta1", "v1beta2"];
/// The kinds whose older version means something without a conversion: their most used fields are those of the newer one.
const ALIKE: [&str; 6] = [
    "Cluster",
    "IPAddress",
    "Machine",
    "MachineDeployment",
    "MachinePool",
    "MachineSet",
];

/// The CRDs that the stand-in needs besides the provider's own: Cluster API's kinds, which accept any field. They have
/// the versions `v1beta2` and `v1beta1`, between which [`convert`](crate::convert) converts.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    let core = [
        nephele_api::core::loose_crds(),
        nephele_api::core::loose_class_crds(),
    ]
    .concat();
    let mut definitions = [core, nephele_api::ipam::loose_crds()].concat();
    definitions.iter_mut().for_each(label_contracts);
    definitions
}

/// Clients such as `clusterctl describe` look up by these labels which version of a kind is for which contract
/// (`internal/contract/version.go` of cluster-api).
fn label_contracts(definition: &mut CustomResourceDefinition) {
    let served = definition.spec.versions.iter().filter(|version| version.served);
    let contracts: Vec<_> = served
        .map(|version| version.name.clone())
        .filter(|name| CONTRACTS.contains(&name.as_str()))
        .collect();
    let labels = contracts
        .into_iter()
        .map(|name| (format!("{}/{name}", nephele_api::core::GROUP), name));
    definition.metadata.labels.get_or_insert_default().extend(labels);
}

/// As [`crds`], for an API server that does not convert them.
#[must_use]
pub fn crds_without_conversion() -> Vec<CustomResourceDefinition> {
    let mut definitions = crds();
    for definition in &mut definitions {
        let is_alike = ALIKE.contains(&definition.spec.names.kind.as_str());
        definition
            .spec
            .versions
            .retain(|version| version.storage || is_alike);
        definition.metadata.labels = None;
        label_contracts(definition);
    }
    definitions
}

/// Creates the clusters of the plan and plays Cluster API for them, and for all Clusters with a topology, until
/// `shutdown`. The CRDs have to exist.
///
/// The future is boxed so that this crate generates its code, once, and not every crate that awaits it.
///
/// # Errors
/// When the clusters cannot be created.
pub fn run(
    client: Client,
    plan: Plan,
    clock: Clock,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), Error>> {
    Box::pin(async move {
        for cluster in &plan.clusters {
            create(&client, cluster).await?;
        }
        play(
            client,
            PlannedClusters::new(plan),
            Surroundings::real(clock),
            shutdown,
        )
        .await;
        Ok(())
    })
}

/// Plays Cluster API until `shutdown` for the clusters with a plan, and for all other Clusters with a topology; follows
/// changes of plans and topologies. The CRDs have to exist; [`create`] creates the clusters of a plan.
///
/// The future is boxed so that this crate generates its code, once, and not every crate that awaits it.
pub fn play(
    client: Client,
    clusters: PlannedClusters,
    surroundings: Surroundings,
    shutdown: CancellationToken,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let Surroundings {
            clock,
            poll,
            probe,
            connect,
            key_pairs,
        } = surroundings;
        let planned = clusters.changes();
        let caches = Arc::new(Caches::default());
        let (scheduled, triggers) = watches::open(&client, &caches);
        let context = Arc::new(Context {
            client,
            caches,
            clusters,
            clock,
            poll,
            probe,
            key_pairs,
            clients: Clients::new(connect),
        });
        let playing = Controller::for_shared_stream(pending().into_stream(), scheduled)
            .reconcile_all_on(planned)
            .reconcile_on(triggers)
            .with_config(Config::default().concurrency(CONCURRENCY))
            .run(round, |_, _, _| Requeue::requeue(RETRY), context)
            .for_each(|result| {
                if let Err(error) = result {
                    tracing::debug!(error = %nephele_controller::chain(&error), "A round failed");
                }
                std::future::ready(())
            });
        // A Controller that shuts down gracefully waits for its first lists, which may not be answered any more.
        shutdown.run_until_cancelled(playing).await;
    })
}

/// Observes, decides, acts. What a round writes is observed in the next one, at once.
async fn round(cluster: Arc<Scheduled>, context: Arc<Context>) -> Result<Requeue, RoundError> {
    if !context.caches.are_listed() {
        // The last list triggers a round of each Cluster.
        return Ok(Requeue::await_change());
    }
    let key = Key {
        namespace: cluster.namespace().unwrap_or_default(),
        name: cluster.name_any(),
    };
    let planned = context.clusters.get(&key.namespace, &key.name);
    // A topology may have had a MachinePool before, which then has to go.
    let has_pool = planned.as_ref().is_none_or(|plan| plan.pool.is_some());
    let observed = observe(&context.caches, &key, has_pool);
    let topology = observed.topology.as_ref();
    let wanted = match (planned, topology) {
        (Some(plan), _) => Wanted::Plan(plan),
        (None, Some(topology)) => Wanted::Topology(topology::plan(
            &observed.cluster,
            topology,
            observed.class.as_ref(),
        )),
        (None, None) => return Ok(Requeue::await_change()),
    };
    if observed.cluster.uid().is_none() {
        return Ok(Requeue::await_change());
    }
    Round {
        context: &context,
        wanted,
        observed,
        workload: None,
    }
    .run()
    .await
}

/// One round about a cluster.
struct Round<'a> {
    context: &'a Context,
    wanted: Wanted,
    observed: Observed,
    /// The client of the workload cluster, once it has answered.
    workload: Option<Client>,
}

impl Round<'_> {
    async fn run(mut self) -> Result<Requeue, RoundError> {
        let name = self.observed.name();
        let kubeconfig = self.observed.secret("kubeconfig").cloned();
        let now = (self.context.clock)();
        if let Some(kubeconfig) = &kubeconfig {
            self.observed.probe = self.context.clients.probe(kubeconfig).await;
            if asks_workload(&self.observed) && self.is_probe_due(now) {
                self.ask_workload(kubeconfig).await;
            }
        }
        let now = (self.context.clock)();
        let decision = decide(&self.wanted, &self.observed, now);
        let is_deleting = self.observed.cluster.metadata.deletion_timestamp.is_some();
        if let Wanted::Topology(Err(error)) = &self.wanted
            && !decision.actions.is_empty()
            && !is_deleting
        {
            tracing::warn!(cluster = name, error = %nephele_controller::chain(error), "A topology cannot be used");
        }
        let nothing = ClusterPlan::new(&name, "", 0, 0);
        let actor = Actor {
            client: &self.context.client,
            caches: &self.context.caches,
            workload: self.workload.as_ref(),
            // Without a plan, nothing is created.
            plan: self.wanted.plan().unwrap_or(&nothing),
            key_pairs: &self.context.key_pairs,
            observed: &self.observed,
            now,
            wrote: AtomicBool::new(false),
        };
        for action in decision.actions {
            tracing::debug!(cluster = name, ?action, "Acting");
            if let Err(error) = actor.act(action).await {
                let refusal = error.refusal();
                let report = refusal.and_then(|text| refused(&self.wanted, &self.observed, &text, now));
                if let Some(report) = report {
                    actor.act(report).await.map_err(RoundError::Act)?;
                }
                return Err(RoundError::Act(error));
            }
        }
        if is_deleting && let Some(kubeconfig) = &kubeconfig {
            self.context.clients.forget(kubeconfig).await;
        }
        if actor.wrote.into_inner() {
            return Ok(Requeue::requeue(Duration::ZERO));
        }
        Ok(match decision.polls {
            true => Requeue::requeue(self.context.poll),
            false if asks_workload(&self.observed) => Requeue::requeue(self.probe_after()),
            false => Requeue::await_change(),
        })
    }

    /// The time between two probes. It grows with the number of Nodes that each of them reads.
    fn probe_after(&self) -> Duration {
        let machines = u32::try_from(self.observed.machines.len()).unwrap_or(u32::MAX);
        self.context.probe + PROBE_OF_MACHINE.saturating_mul(machines)
    }

    /// Whether the cluster may be asked. One that has answered once and does not answer may take ten seconds to say so, and
    /// each change of an object leads to a round.
    fn is_probe_due(&self, now: Timestamp) -> bool {
        let Probe {
            last_success,
            failures,
            last_attempt,
        } = self.observed.probe;
        let (Some(_), Some(last)) = (last_success, last_attempt) else {
            return true;
        };
        failures == 0 || now.duration_since(last).unsigned_abs() >= self.context.probe
    }

    /// Reads the workload cluster. One that does not answer is not up yet, or no longer up: either way there is nothing
    /// to read.
    async fn ask_workload(&mut self, kubeconfig: &Secret) {
        let asked = async {
            let client = self.context.clients.get(kubeconfig).await?;
            let answer = workload::ask(&client).await?;
            Ok::<_, workload::WorkloadError>((client, answer))
        };
        let asked = asked.await;
        let now = (self.context.clock)();
        self.observed.probe = self.context.clients.note(kubeconfig, asked.is_ok(), now).await;
        match asked {
            Ok((client, answer)) => {
                self.workload = Some(client);
                self.observed.workload = Some(answer);
            }
            Err(error) => {
                let cluster = self.observed.name();
                tracing::debug!(cluster, error = %nephele_controller::chain(&error), "The cluster does not answer");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending};

    use http::{Request, Response};
    use kube::client::Body;
    use tokio::time::timeout;
    use tower::service_fn;

    use super::*;

    #[tokio::test]
    async fn it_ends_although_the_management_api_answers_no_list() {
        let silent = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
        let shutdown = CancellationToken::new();
        let playing = play(
            Client::new(silent, "default"),
            PlannedClusters::new(Plan { clusters: Vec::new() }),
            Surroundings::real(Arc::new(jiff::Timestamp::now)),
            shutdown.clone(),
        );
        let stop = async {
            // The first lists are requested before that.
            tokio::task::yield_now().await;
            shutdown.cancel();
        };
        let ended = timeout(Duration::from_secs(5), async { tokio::join!(playing, stop) });
        assert!(ended.await.is_ok());
    }
}
