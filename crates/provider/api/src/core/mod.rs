//! Cluster API's own kinds, group `cluster.x-k8s.io`, version `v1beta2`: the fields we read.
//!
//! They are read and patched, but never written as a whole, because that would lose the other fields. Every field may
//! be absent. The fields that we rely on, and the source of each promise (cluster-api,
//! docs/book/src/developer/providers/contracts and the API types' own documentation):
//!
//! | Of | Field | Promised by |
//! |---|---|---|
//! | Cluster | `spec.paused` | the contract's pausing rule |
//! | | `spec.clusterNetwork`, `spec.controlPlaneEndpoint` | user's API; the endpoint rule lets a user set it |
//! | | `spec.infrastructureRef`, `spec.controlPlaneRef` | user's API: which objects are the cluster's |
//! | | `status.initialization`, before 1.11 `status.infrastructureReady` | the contract: bootstrap and machines wait for it |
//! | | condition `ControlPlaneInitialized` | the contract: worker machines may wait for it |
//! | | `status.failureDomains` | the contract: from there machines get their failure domain |
//! | | `status.controlPlane`, `status.workers`: numbers of replicas | user's API; shown by the stand-in, no decision depends on them |
//! | Machine | `spec.clusterName`, `spec.infrastructureRef` | user's API |
//! | | `spec.bootstrap.dataSecretName` | the contract: wait for it, read the Secret |
//! | | `spec.version`, `spec.failureDomain`, `spec.providerID` | the contract: placement; user's API |
//! | | `status.nodeRef`, `status.addresses`, `status.initialization`, conditions | user's API; shown by demo and stand-in, no decision depends on them |
//! | MachinePool | `spec.replicas`, `spec.failureDomains`, `spec.template.spec`, `spec.providerIDList` | the contract of machine pools |
//! | all | `status.phase` | user's API; shown, no decision depends on it |
//!
//! The types also read `v1beta1` of Cluster API up to 1.10: where a field has another shape there, both shapes are
//! accepted.

mod cluster;
mod definitions;
mod explained;
pub(crate) mod failure_domain;
mod groups;
mod machine;
pub(crate) mod machine_address;
mod machine_pool;
mod object_reference;

pub use cluster::{
    Cluster, ClusterInitialization, ClusterNetwork, ClusterSpec, ClusterStatus, Endpoint, NetworkRanges,
    ReplicaCounts,
};
pub(crate) use definitions::{age, column, loose};
pub use definitions::{loose_class_crds, loose_crds};
pub use groups::{BOOTSTRAP_GROUP, CONTROL_PLANE_GROUP, GROUP};
pub use machine::{Bootstrap, Machine, MachineInitialization, MachineSpec, MachineStatus, NodeReference};
pub use machine_pool::{MachinePool, MachinePoolSpec, MachinePoolStatus, MachinePoolTemplate};
pub use object_reference::ObjectReference;

/// The annotation, with any value, of an object that `clusterctl move` has created on another management cluster and is
/// about to delete here (`deleteSourceObject` in `cmd/clusterctl/client/cluster/mover.go` of cluster-api).
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

#[cfg(test)]
mod tests;
