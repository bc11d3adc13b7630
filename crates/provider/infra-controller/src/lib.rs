//! Reconcilers of simulated clusters, machines and pools of machines.
//!
//! ```text
//!  InMemoryCluster ─▶ fetch ▶ validate ▶ plan ▶ act ▶ report     (crate::cluster)
//!  InMemoryMachine ─▶ fetch ▶ validate ▶ plan ▶ act ▶ report     (crate::machine)
//!  InMemoryMachinePool ─▶ the same, and makes InMemoryMachines   (crate::machine_pool)
//!  SimulatedCloud ─▶ zones of clusters (crate::resolved_cloud); its spec, sent to the cloud (crate::clouds)
//!                       ▲                          │
//!           caches, cloud.observe        cloud.ensure, patches
//!                                     IPAddressClaims (crate::claims)
//!  AdmissionRequest of a template ─▶ allowed or denied           (crate::admission)
//!  MachineHooks ◀─ may this machine be created? may it go?       (crate::hooks)
//! ```
//!
//! All decisions are made in `validate` and `plan`, pure functions of plain values; only `fetch`, `act` and `report` do
//! I/O. The crate knows no sockets, no IPAM provider and nothing of the engine: it calls the cloud, and reconciles
//! again when the cloud reports a change. All state is in the objects and in the cloud. After a restart the cloud is
//! rebuilt from the objects.

pub mod admission;
mod authorities;
mod claims;
mod clouds;
mod cluster;
mod context;
mod events;
mod expected_capacity;
mod fault;
mod finalizer;
mod garbage_collection;
mod leaked;
mod machine;
mod machine_hooks;
mod machine_index;
mod machine_pool;
mod messages;
mod preview;
mod report;
mod resolved_cloud;
mod restore_addresses;
mod rests;
mod run;
mod secret;
mod simulated_cloud;
mod template;

pub use machine_hooks::{Answer, HookError, Instance, MachineHooks, MachineInQuestion, NoHooks};
pub use preview::{Objects, Preview, preview};
pub use resolved_cloud::built_in_cloud;
pub use run::{Error, Settings, run};
