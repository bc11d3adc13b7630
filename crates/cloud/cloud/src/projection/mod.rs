//! The objects of a simulated cluster: pure functions from the cloud's state to Kubernetes objects.
//!
//! Names, uids and creation times depend only on the cluster, the object and the times at which stages were reached. So
//! a restarted process projects the same objects with the same identities. Objects are created only if they do not
//! exist, so changes by clients are never overwritten.

mod addons;
mod base;
mod conditions;
mod kubeadm;
mod node;
mod projected;
mod static_pod;
#[cfg(test)]
mod tests;

pub use addons::DNS_IMAGE_TAG;
pub(crate) use addons::{addon_keys, addons, count_nodes, roll_out};
pub(crate) use base::base;
pub(crate) use conditions::{clock_skew, renew_heartbeats, show_visible_effects, skewed};
pub(crate) use kubeadm::kubeadm;
pub(crate) use node::{
    change_node, fill_status, has_status, has_wrong_provider_id, is_node_of, node, renew_lease, renewed,
    set_wrong_provider_id,
};
pub(crate) use projected::{Projected, Scope, made, time, uid};
pub(crate) use static_pod::{API_SERVER_PORT, Component, change_pod, static_pod};
