//! Deletes simulated clusters and machines whose objects no longer exist.
//!
//! Normally our finalizer keeps an object until its simulated cluster or machine is gone. That does not work when
//! the finalizer was removed: by force, or with `clusterctl move`, which removes it once the object is on another
//! management cluster (`deleteSourceObject` in `cmd/clusterctl/client/cluster/mover.go` of cluster-api). The manager of
//! that management cluster then creates the same cluster on the same port. Externally managed objects never have our
//! finalizer.
//!
//! A manager deletes only when it is sure that the object is gone. A manager of one namespace does not delete anything
//! in other namespaces. A manager with a watch filter lists all objects, labelled or not, before it treats one as gone.
//! When there is not a single object, a backup may be about to be restored: then the manager waits before it deletes.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource, ResourceExt as _, api::ListParams, core::NamespaceResourceScope, runtime::reflector::Store,
};
use nephele_api::{
    core::DELETE_FOR_MOVE_ANNOTATION,
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine, pool_machine::annotation},
};
use nephele_controller::{ByNamespace, Gone, is_externally_managed, owner_machine, scoped};
use nephele_model::{ClusterId, MachineId};
use nephele_poll_time::apart;
use serde::de::DeserializeOwned;
use tokio::{
    task::yield_now,
    time::{Instant, timeout_at},
};
use tracing::{info, warn};

use crate::{
    cluster,
    context::{Context, cluster_of, cluster_of_machine, infrastructure_of_cluster},
};

/// How long a management cluster may have no object of a kind before all of them are treated as gone. Restoring a
/// backup or installing a CRD again takes less time.
const GRACE: Duration = Duration::from_secs(600);
/// The time until the next try after objects could not be listed.
const RETRY: Duration = Duration::from_secs(30);

/// Which objects this manager sees.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The watched namespace; none means all namespaces.
    pub(crate) namespace: Option<String>,
    /// Whether the manager sees only objects with its watch filter label.
    pub(crate) filtered: bool,
}

impl Scope {
    fn covers(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|seen| seen == namespace)
    }
}

/// What to do with the simulated clusters or machines that are known.
#[derive(Debug, PartialEq, Eq)]
enum Verdict<T> {
    /// The objects of these are gone: delete them.
    Forget(BTreeSet<T>),
    /// There is no object at all: check again later.
    Wait,
}

/// Which of the `known` clusters or machines have no object in `there`. `waited` tells whether the grace period is
/// over. Pure.
fn verdict<T: Ord + Clone>(known: &BTreeSet<T>, there: &BTreeSet<T>, waited: bool) -> Verdict<T> {
    if there.is_empty() && !known.is_empty() && !waited {
        return Verdict::Wait;
    }
    Verdict::Forget(known.difference(there).cloned().collect())
}

/// Deletes the simulated clusters of externally managed InMemoryClusters when their Clusters are gone.
pub(crate) async fn clusters_without_cluster(context: Arc<Context>, store: Store<InMemoryCluster>) {
    let mut touched = context.clusters.touched();
    while let Some(cluster) = touched.next().await {
        let id = ClusterId {
            namespace: cluster.namespace().unwrap_or_default(),
            name: cluster.name_any(),
        };
        let object = infrastructure_of_cluster(&cluster).and_then(|object| store.get(&object));
        let ours = object.is_some_and(|object| !is_externally_managed(&object.metadata));
        if context.cluster(&id).is_none() && !ours {
            cluster::abandon(&context, &id);
        }
    }
}

/// Deletes the simulated clusters whose InMemoryCluster disappeared before a reconcile deleted them. The port is free
/// at once: when the objects were moved, another manager waits for it.
pub(crate) async fn clusters(
    context: Arc<Context>,
    scope: Scope,
    clusters: ByNamespace<InMemoryCluster>,
    gone: impl Stream<Item = Gone<InMemoryCluster>>,
) {
    let mut sweep = Sweep {
        gone: Box::pin(gone),
        again: None,
    };
    while let Some(next) = sweep.next().await {
        let (known, waited, place) = match next {
            Next::Gone(object) => {
                if is_there(&context, &scope, &*object).await {
                    continue;
                }
                (
                    cluster_of(&object.metadata)
                        .into_iter()
                        .filter(|id| context.cloud.knows(id))
                        .collect(),
                    true,
                    object.namespace(),
                )
            }
            // These include clusters that disappeared while no manager ran: the state directory may still have records
            // of them.
            Next::Any { waited } => {
                let known = context.cloud.clusters().into_iter();
                (
                    known
                        .filter(|id| scope.covers(&id.namespace))
                        .collect::<BTreeSet<_>>(),
                    waited,
                    None,
                )
            }
        };
        let there = match all(&context, &scope, &clusters, place.as_deref(), |object| {
            cluster_of(&object.metadata)
        })
        .await
        {
            Ok(there) => there,
            Err(error) => {
                warn!(
                    error = nephele_controller::chain(&error),
                    "Failed to list InMemoryClusters"
                );
                sweep.look_again(RETRY, waited);
                continue;
            }
        };
        match verdict(&known, &there, waited) {
            Verdict::Wait => {
                info!(
                    clusters = known.len(),
                    "There is no InMemoryCluster; no simulated cluster is deleted yet"
                );
                sweep.look_again(GRACE, true);
            }
            Verdict::Forget(ids) => {
                for id in ids {
                    info!(cluster = %id, "Deleted a cluster whose InMemoryCluster is gone");
                    cluster::abandon(&context, &id);
                }
            }
        }
    }
}

/// Deletes the simulated machines whose InMemoryMachine disappeared before a reconcile deleted them. Machines that were
/// moved stay until their cluster is deleted, so that no late reader of the workload cluster sees their Nodes go.
pub(crate) async fn machines(
    context: Arc<Context>,
    scope: Scope,
    machines: ByNamespace<InMemoryMachine>,
    gone: impl Stream<Item = Gone<InMemoryMachine>>,
) {
    let mut sweep = Sweep {
        gone: Box::pin(gone),
        again: None,
    };
    while let Some(next) = sweep.next().await {
        let waited = match next {
            Next::Gone(object) => {
                let namespace = object.namespace().unwrap_or_default();
                let moved = annotation(&object.metadata, DELETE_FOR_MOVE_ANNOTATION).is_some();
                let cluster = context.machine_index.cluster_of(&namespace, &object.name_any());
                // A change of its cluster may already have removed it from `machine_index`.
                let cluster = cluster.or_else(|| {
                    let owner = owner_machine(&object.metadata);
                    let owner = owner.and_then(|owner| context.machines.get(&namespace, &owner.name));
                    cluster_of_machine(&object.metadata, owner.as_deref())
                });
                if let Some(cluster) = cluster
                    && !is_there(&context, &scope, &*object).await
                {
                    forget_machine(
                        &context,
                        &machines,
                        &MachineId {
                            cluster,
                            name: object.name_any(),
                        },
                        moved,
                    );
                    // A collection of objects may have been deleted at once.
                    yield_now().await;
                }
                continue;
            }
            Next::Any { waited } => waited,
        };
        let there = match all(&context, &scope, &machines, None, named).await {
            Ok(there) => there,
            Err(error) => {
                warn!(
                    error = nephele_controller::chain(&error),
                    "Failed to list InMemoryMachines"
                );
                sweep.look_again(RETRY, waited);
                continue;
            }
        };
        if there.is_empty() && !waited {
            sweep.look_again(GRACE, true);
            continue;
        }
        let looking = Arc::clone(&context);
        let objects = machines.clone();
        let gone = apart(move || retain_machines(&looking, &objects, &there)).await;
        for id in gone {
            forget_machine(&context, &machines, &id, false);
            yield_now().await;
        }
    }
}

/// Tells the cloud which machines are there, and returns those of the index that are not.
fn retain_machines(
    context: &Context,
    machines: &ByNamespace<InMemoryMachine>,
    there: &BTreeSet<(String, String)>,
) -> Vec<MachineId> {
    let noted = context.machine_index.all().into_iter();
    let gone = noted.filter(|id| !there.contains(&(id.cluster.namespace.clone(), id.name.clone())));
    let gone = gone.collect();
    // Machines that disappeared while no manager ran are not in `machine_index`. An instance that is gone has nothing
    // either, whatever a disk still says that did not take the last changes before a crash.
    let ended = machines.all().into_iter().filter(|object| object.has_ended());
    let ended: BTreeSet<_> = ended.filter_map(|object| named(&object)).collect();
    context.cloud.retain_machines(there - &ended);
    gone
}

fn named(object: &InMemoryMachine) -> Option<(String, String)> {
    Some((object.namespace()?, object.name_any()))
}

fn forget_machine(context: &Context, machines: &ByNamespace<InMemoryMachine>, id: &MachineId, moved: bool) {
    let namespace = &id.cluster.namespace;
    if machines.get(namespace, &id.name).is_some() {
        return;
    }
    if !moved {
        let is_there = context.cloud.observe_machine(id).is_some();
        // No reconciler retries the deletion: there is no object left.
        if let Err(error) = context.cloud.sweep_machine(id) {
            let error = nephele_controller::chain(&error);
            warn!(machine = %id, error, "Failed to delete a machine whose InMemoryMachine is gone");
            // So that the next sweep tries again.
            return;
        }
        if is_there {
            info!(machine = %id, "Deleted a machine whose InMemoryMachine is gone");
        }
    }
    context.machine_index.forget(namespace, &id.name);
}

/// The deleted objects of a kind, and when to check all objects again.
struct Sweep<S> {
    gone: std::pin::Pin<Box<S>>,
    /// When to check all objects again, and whether the grace period is over by then.
    again: Option<(Instant, bool)>,
}

/// Which objects may be gone.
enum Next<K> {
    /// This object.
    Gone(Arc<K>),
    /// Any.
    Any { waited: bool },
}

impl<S> Sweep<S> {
    fn look_again(&mut self, after: Duration, waited: bool) {
        let at = Instant::now() + after;
        // Another list before that does not extend the grace period.
        self.again = Some(
            self.again
                .take()
                .filter(|(earlier, _)| *earlier < at)
                .unwrap_or((at, waited)),
        );
    }

    async fn next<K>(&mut self) -> Option<Next<K>>
    where
        S: Stream<Item = Gone<K>>,
    {
        let gone = match self.again {
            None => self.gone.next().await?,
            Some((at, waited)) => match timeout_at(at, self.gone.next()).await {
                Ok(gone) => gone?,
                Err(_elapsed) => {
                    self.again = None;
                    return Some(Next::Any { waited });
                }
            },
        };
        Some(match gone {
            Gone::Object(object) => Next::Gone(object),
            Gone::Any => Next::Any { waited: false },
        })
    }
}

/// The ids that `of` gives for the existing objects of a kind, also for objects that this manager does not reconcile: those of
/// one namespace, or of all that it watches.
async fn all<K, T>(
    context: &Context,
    scope: &Scope,
    objects: &ByNamespace<K>,
    namespace: Option<&str>,
    of: impl Fn(&K) -> Option<T> + Send + 'static,
) -> Result<BTreeSet<T>, kube::Error>
where
    T: Ord + Send + 'static,
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + Debug + Default + DeserializeOwned + Send + Sync + 'static,
{
    if !scope.filtered {
        let objects = namespace.map_or_else(|| objects.all(), |namespace| objects.of(namespace));
        return Ok(apart(move || objects.iter().filter_map(|object| of(object)).collect()).await);
    }
    let api: Api<K> = scoped(context.client.clone(), namespace.or(scope.namespace.as_deref()));
    let listed = api.list_metadata(&ListParams::default()).await?;
    let with = |metadata: ObjectMeta| {
        let mut object = K::default();
        *object.meta_mut() = metadata;
        object
    };
    Ok(listed
        .items
        .into_iter()
        .filter_map(|object| of(&with(object.metadata)))
        .collect())
}

/// Whether an object still exists although the watch no longer shows it, because it lost the label.
async fn is_there<K>(context: &Context, scope: &Scope, object: &K) -> bool
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned,
{
    if !scope.filtered {
        return false;
    }
    let namespace = object.namespace().unwrap_or_default();
    let api: Api<K> = Api::namespaced(context.client.clone(), &namespace);
    match api.get_metadata_opt(&object.name_any()).await {
        Ok(found) => found.is_some_and(|found| found.metadata.uid == object.meta().uid),
        // The next list shows whether the object is gone.
        Err(error) => {
            warn!(
                object = object.name_any(),
                error = nephele_controller::chain(&error),
                "Failed to look for an object"
            );
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn nothing_is_forgotten_at_once_where_there_is_no_object_at_all() {
        let known = set(&["a", "b"]);
        assert_eq!(verdict(&known, &set(&["b"]), false), Verdict::Forget(set(&["a"])));
        assert_eq!(verdict(&known, &set(&[]), false), Verdict::Wait);
        assert_eq!(verdict(&known, &set(&[]), true), Verdict::Forget(known.clone()));
        assert_eq!(verdict(&set(&[]), &set(&[]), false), Verdict::Forget(set(&[])));
    }
}
