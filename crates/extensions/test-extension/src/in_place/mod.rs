//! In-place updates of machines.
//!
//! | object | what may change in place |
//! |---|---|
//! | Machine | `spec.version` |
//! | KubeadmConfig | `spec.files`, `spec.clusterConfiguration.etcd.local.imageTag` |
//! | InMemoryMachine | `spec.image`; `spec.behaviour`, which matters only when a machine starts |
//!
//! For any other change, Cluster API replaces the machine: a simulated machine keeps its instance type, its zone
//! and its addresses.
//!
//! Another process may run the machine. The request and its completion are written to the `InMemoryMachine`
//! ([`nephele_api::infrastructure::v1beta2::update`]), and each call reads them there. So any replica can be called,
//! and a restart loses nothing.
//!
//! The settings say how long an update takes. An update fails while the ConfigMap of the Cluster ([`crate::script`])
//! has a preloaded response with status `Failure` for `UpdateMachine-<machine>`, or for `UpdateMachine`, which applies
//! to all machines. It starts again once that response is removed. A preloaded response that makes the caller wait
//! keeps an update from starting.

mod call;
mod cover;
mod groups;
mod step;
mod target;

pub(crate) use call::update_machine;
pub use cover::{can_update_machine, can_update_machine_set};
pub use step::{Pace, Step, step};
pub use target::target;
