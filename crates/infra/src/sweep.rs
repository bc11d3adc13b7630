//! Forgets what is simulated for objects that are not there any more.
//!
//! A finalizer of ours holds most objects until nothing stands behind them. It does not where somebody took it away:
//! by force, or as `clusterctl move` does once an object is on another management cluster (`deleteSourceObject` in
//! `cmd/clusterctl/client/cluster/mover.go` of cluster-api), whose manager then makes the same cluster on the same
//! port. And objects that others manage never have one.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::runtime::reflector::{ObjectRef, Store};
use nephele_api::infrastructure::v1beta2::pool_machine::annotation;
use nephele_api::infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine};
use nephele_cloud::{ClusterId, MachineId};
use nephele_kit::{Gone, is_externally_managed, owner_cluster};
use tracing::info;

use crate::cluster;
use crate::context::{Context, infrastructure_of_cluster, labelled_cluster};

/// On an object that goes because it is somewhere else (`api/core/v1beta2/common_types.go` of cluster-api).
const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

/// Ends the simulated clusters of externally managed objects when their Clusters are gone.
pub(crate) async fn clusters_without_cluster(context: Arc<Context>, store: Store<InMemoryCluster>) {
    let mut touched = context.clusters.touched();
    while let Some(cluster) = touched.next().await {
        let id = ClusterId { namespace: cluster.namespace().unwrap_or_default(), name: cluster.name_any() };
        let object = infrastructure_of_cluster(&cluster).and_then(|object| store.get(&object));
        let ours = object.is_some_and(|object| !is_externally_managed(&object.metadata));
        if context.cluster(&id).is_none() && !ours {
            cluster::abandon(&context, &id);
        }
    }
}

/// Ends the simulated clusters whose objects went without asking us. The port is free at once: when the objects were
/// moved, somebody waits for it.
pub(crate) async fn clusters(
    context: Arc<Context>,
    store: Store<InMemoryCluster>,
    gone: impl Stream<Item = Gone<InMemoryCluster>>,
) {
    let mut gone = std::pin::pin!(gone);
    while let Some(gone) = gone.next().await {
        // Those that went while no manager ran are among them, as something may be kept of them.
        let known: BTreeSet<ClusterId> = context.cloud.clusters().into_iter().collect();
        let ids: BTreeSet<ClusterId> = match gone {
            Gone::Object(object) => {
                id_of(&object.metadata).filter(|id| known.contains(id)).into_iter().collect()
            }
            Gone::Any => known,
        };
        let there: BTreeSet<ClusterId> =
            store.state().iter().filter_map(|object| id_of(&object.metadata)).collect();
        for id in ids.difference(&there) {
            info!(cluster = %id, "Forgot a cluster whose InMemoryCluster is gone");
            cluster::abandon(&context, id);
        }
    }
}

/// Ends the simulated machines whose objects went without asking us. Those that were moved stay until their cluster
/// goes: their Nodes do not go, whoever looks at them last.
pub(crate) async fn machines(
    context: Arc<Context>,
    store: Store<InMemoryMachine>,
    gone: impl Stream<Item = Gone<InMemoryMachine>>,
) {
    let mut gone = std::pin::pin!(gone);
    while let Some(gone) = gone.next().await {
        let (ids, moved) = match gone {
            Gone::Object(object) => {
                let namespace = object.namespace().unwrap_or_default();
                let id = context.members.cluster_of(&namespace, &object.name_any());
                let id = id.map(|cluster| MachineId { cluster, name: object.name_any() });
                (id.into_iter().collect(), annotation(&object.metadata, DELETE_FOR_MOVE_ANNOTATION).is_some())
            }
            Gone::Any => {
                let there = store.state();
                let there =
                    there.iter().map(|object| (object.namespace().unwrap_or_default(), object.name_any()));
                // Those that went while no manager ran, nobody has noted.
                context.cloud.retain_machines(there.collect());
                (context.members.all(), false)
            }
        };
        for id in ids {
            let namespace = &id.cluster.namespace;
            if store.get(&ObjectRef::new(&id.name).within(namespace)).is_some() {
                continue;
            }
            context.members.forget(namespace, &id.name);
            if !moved && context.cloud.observe_machine(&id).is_some() {
                info!(machine = %id, "Forgot a machine whose InMemoryMachine is gone");
                // The cloud tells nobody who would have to look again: there is no object left.
                let _ = context.cloud.delete_machine(&id);
            }
        }
    }
}

/// The cluster that an InMemoryCluster stands for.
fn id_of(metadata: &ObjectMeta) -> Option<ClusterId> {
    let owned = owner_cluster(metadata).and_then(|owner| {
        Some(ClusterId { namespace: metadata.namespace.clone()?, name: owner.name.clone() })
    });
    owned.or_else(|| labelled_cluster(metadata))
}
