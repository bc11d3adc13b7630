//! Reserves the published ports, addresses, pod networks and numbers of all objects before the cloud chooses new ones.
//!
//! After a restart objects are reconciled one after the other, and paused objects perhaps much later. So the ports of
//! all clusters, and the addresses, pod networks and numbers of all machines, are reserved in the cloud first.
//!
//! A manager with a watch filter does not see the objects of other managers. But it sees all Clusters, and reserves the
//! ports of the Clusters that are published under its own host. Managers that share a host need separate port ranges.

use std::sync::atomic::Ordering;

use kube::{ResourceExt as _, runtime::reflector::Store};
use nephele_api::{
    cloud::DEFAULT_NAME,
    core::Cluster,
    finalizers,
    infrastructure::v1beta2::{InMemoryCluster, InMemoryMachine},
};
use nephele_cloud::{PreviousCluster, PreviousMachine};
use nephele_controller::{is_externally_managed, owner_cluster, owner_machine};
use nephele_model::{ClusterId, MachineId, Market};

use crate::{
    context::{Context, cluster_of, cluster_of_machine, infrastructure_of_cluster},
    finalizer::is_held,
    machine::{allocation, cloud, hardware, has_begun, zone},
    resolved_cloud::cloud_name,
};

/// Reserves the ports of clusters.
pub(crate) fn endpoints(context: &Context, store: &Store<InMemoryCluster>, filtered: bool) {
    let mut objects = store.state();
    // If two clusters were published with one port, the one that had it keeps it, else the older one. Only the manager
    // writes the status, so no older object gets the port of another cluster by naming it.
    objects.sort_by_cached_key(|object| {
        (
            !object.is_provisioned(),
            object.creation_timestamp(),
            object.namespace(),
            object.name_any(),
        )
    });
    let ours = objects.iter().filter_map(|object| published(object));
    let clusters = if filtered {
        context.clusters.store().state()
    } else {
        Vec::new()
    };
    let host = context.cloud.advertised_host();
    let others = clusters
        .iter()
        .filter_map(|cluster| published_elsewhere(cluster, host));
    context.cloud.reserve_endpoints(ours.chain(others));
}

/// Reserves the port that a cluster was published with, for example one that comes from another management cluster.
pub(crate) fn endpoint(context: &Context, object: &InMemoryCluster) {
    // A cluster that is being deleted already has its port, or has released it.
    if object.metadata.deletion_timestamp.is_none()
        && let Some(cluster) = published(object)
    {
        context.cloud.reserve_endpoint(cluster);
    }
}

/// Reserves what machines have.
pub(crate) fn machines(context: &Context, store: &Store<InMemoryMachine>) {
    let objects = store.state();
    let reserved = objects
        .iter()
        .filter_map(|object| previous(context, object))
        .inspect(|machine| {
            // So that they are not reserved again, one by one.
            context.machine_index.note(&machine.id.cluster, &machine.id.name);
        });
    context.cloud.reserve_machines(reserved);
    context.machines_reserved.store(true, Ordering::Release);
}

/// Reserves the same for a machine that is seen for the first time, for example one that comes from another management
/// cluster. Such a machine may have to wait for its cluster, and until then a new machine could take its room.
pub(crate) fn machine(context: &Context, object: &InMemoryMachine) {
    let namespace = object.namespace().unwrap_or_default();
    let is_known = context
        .machine_index
        .cluster_of(&namespace, &object.name_any())
        .is_some();
    if !is_known && object.metadata.deletion_timestamp.is_none() {
        context.cloud.reserve_machines(previous(context, object));
    }
}

/// The cluster of an InMemoryCluster with its published port. A port in the spec alone reserves nothing: there has to be a
/// Cluster that owns the object, and the manager has published it, here or in the management cluster that it was moved from,
/// or an external manager has.
fn published(object: &InMemoryCluster) -> Option<PreviousCluster> {
    owner_cluster(&object.metadata)?;
    let is_published = is_held(&object.metadata, finalizers::CLUSTER)
        || object.first_created().is_some()
        || is_externally_managed(&object.metadata);
    if !is_published {
        return None;
    }
    let endpoint = object.spec.control_plane_endpoint.as_ref()?;
    // A user may have chosen the endpoint of a cluster whose creation has not begun. The load balancer of an externally
    // managed cluster was created by another manager.
    let exists = object.first_created().is_some() || is_externally_managed(&object.metadata);
    let cloud_spec = exists.then(|| cloud_name(object).to_owned());
    Some(PreviousCluster {
        id: cluster_of(&object.metadata)?,
        port: port(endpoint.port)?,
        cloud_spec,
    })
}

/// A Cluster that may belong to another manager, with its port under our host. Its SimulatedCloud is not known.
fn published_elsewhere(cluster: &Cluster, host: &str) -> Option<PreviousCluster> {
    infrastructure_of_cluster(cluster)?;
    let endpoint = cluster
        .spec
        .control_plane_endpoint
        .as_ref()
        .filter(|endpoint| endpoint.host == host)?;
    let id = ClusterId {
        namespace: cluster.namespace()?,
        name: cluster.name_any(),
    };
    Some(PreviousCluster {
        id,
        port: port(endpoint.port)?,
        cloud_spec: None,
    })
}

/// The port of an endpoint; none when it is 0 or out of range, which the schema refuses.
fn port(port: i32) -> Option<u16> {
    u16::try_from(port).ok().filter(|port| *port != 0)
}

/// A machine that already has addresses, a number or a start time; none for a machine without them or whose instance is
/// gone.
fn previous(context: &Context, object: &InMemoryMachine) -> Option<PreviousMachine> {
    let namespace = object.namespace()?;
    let owner = owner_machine(&object.metadata);
    let owner = owner.and_then(|owner| context.machines.get(&namespace, &owner.name));
    let cluster = cluster_of_machine(&object.metadata, owner.as_deref())?;
    if object.has_ended() {
        return None;
    }
    let has_begun = has_begun(object);
    let allocation = allocation(object, owner.as_deref());
    let has_some = has_begun || !allocation.addresses.is_empty() || allocation.ordinal.is_some();
    has_some.then(|| PreviousMachine {
        id: MachineId {
            cluster,
            name: object.name_any(),
        },
        has_begun,
        zone: zone(object),
        cloud_spec: cloud(object).unwrap_or_else(|| DEFAULT_NAME.to_owned()),
        instance_type: Some(object.spec.instance_type.clone()).filter(|name| !name.is_empty()),
        market: Market::of(&object.spec.market),
        hardware: hardware(object).unwrap_or_default(),
        allocation,
    })
}
