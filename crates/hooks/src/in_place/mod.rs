//! Updates of machines in place.
//!
//! | object | what may change in place |
//! |---|---|
//! | Machine | `spec.version` |
//! | KubeadmConfig | `spec.files`, `spec.clusterConfiguration.etcd.local.imageTag` |
//! | InMemoryMachine | `spec.image`; `spec.behaviour`, which counts for machines that start |
//!
//! What else changes has Cluster API replace the machine: a simulated machine stays of the type, in the place and with
//! the addresses that it was made with.
//!
//! Whoever has the machine may be another process. What it is asked to become is noted on its `InMemoryMachine`
//! ([`nephele_api::infrastructure::v1beta2::update`]), and so is that it has become so: each call looks there. So it
//! does not matter which replica is called, and a restart of any of them forgets nothing.
//!
//! An update takes the time that the settings say. It fails where the ConfigMap of the Cluster ([`crate::script`]) has a
//! response with status `Failure` preloaded for `UpdateMachine-<machine>`, or for `UpdateMachine`, which is for all of
//! them; it is begun anew once that is gone. One that has the caller wait keeps an update from being begun.

mod call;
mod cover;
mod step;
mod target;

pub(crate) use call::update_machine;
pub use cover::{can_update_machine, can_update_machine_set};
pub use step::{Pace, Step, step};
pub use target::target;

/// The group of KubeadmConfigs.
const BOOTSTRAP_GROUP: &str = "bootstrap.cluster.x-k8s.io";
/// The group of InMemoryMachines.
const INFRASTRUCTURE_GROUP: &str = nephele_api::infrastructure::GROUP;

/// Where a KubeadmConfig says what etcd's image is, inside of its spec.
const ETCD_IMAGE_TAG: [&str; 4] = ["clusterConfiguration", "etcd", "local", "imageTag"];
