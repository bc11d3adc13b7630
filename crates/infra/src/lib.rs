//! Reconcilers of simulated clusters, machines and pools of machines.
//!
//! ```text
//!  InMemoryCluster ─▶ fetch ▶ validate ▶ plan ▶ act ▶ report     (crate::cluster)
//!  InMemoryMachine ─▶ fetch ▶ validate ▶ plan ▶ act ▶ report     (crate::machine)
//!  InMemoryMachinePool ─▶ the same, and makes InMemoryMachines   (crate::machine_pool)
//!  SimulatedCloud ─▶ zones of clusters (crate::offer); what machines are made from, told to the cloud (crate::catalogs)
//!                       ▲                          │
//!           caches, cloud.observe        cloud.ensure, patches
//!                                     IPAddressClaims (crate::claims)
//!  AdmissionRequest of a template ─▶ refused or not              (crate::admission)
//!  MachineHooks ◀─ may this machine begin? may it go?            (crate::hooks)
//! ```
//!
//! What is decided is decided in `validate` and `plan`, pure functions of plain values; `fetch`, `act` and `report`
//! touch the world. The crate knows no sockets, no IPAM provider and nothing of the engine: it asks the cloud, and looks again when the
//! cloud says that something changed. All state is in the objects and in the cloud, which is made anew from the objects
//! after a restart.

pub mod admission;
mod authorities;
mod catalogs;
mod claims;
mod cluster;
mod context;
mod hooks;
mod machine;
mod machine_pool;
mod members;
mod notable;
mod offer;
mod outlook;
mod refusal;
mod report;
mod reserve;
mod run;
mod secret;
mod simulated_cloud;
mod sweep;
mod template;

pub use hooks::{Answer, HookError, Instance, MachineHooks, MachineInQuestion, NoHooks};
pub use offer::built_in_catalog;
pub use run::{Error, Settings, run};
