//! The kinds of the group `infrastructure.cluster.x-k8s.io`, a module per version.
//!
//! ```text
//!  v1beta2 ── InMemoryCluster, InMemoryMachine, their templates ── stored, and what we work with ──┐
//!  v1beta1 ── the same for those who read Cluster API's contract v1beta1 ────────── conversion ────┘
//! ```

pub mod conversion;
pub mod v1beta1;
pub mod v1beta2;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::definitions::{infrastructure_crds, machine_pool_crds};

/// The API group.
pub const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// The definitions of the simulated infrastructure, in the order of their names.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut all = infrastructure_crds();
    all.extend(machine_pool_crds());
    all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    all
}
