//! The parts of a `Fault` that are the same whoever carries it out. The infrastructure provider does so for machines and
//! clusters, and the IPAM provider for addresses.
//!
//! ```text
//!  FaultSpec ──fields──▶ Matches, Budget | Mistake            ──▶ the target decides what it hits
//!                                                                         │
//!  Event ◀──story── FaultStatus ◀──────────report────────────── Progress, FaultHit
//! ```
//!
//! Each provider runs the [`FaultController`] for its [`Target`], which knows what a Fault hits. The crate does not. Its module
//! [`cluster`] makes the Faults of ClusterFaults.

pub mod cluster;
mod controller;
mod fields;
mod id;
mod in_force;
mod report;
mod story;
mod target;

pub use controller::{Error, FaultController};
pub use fields::{Mistake, budget, is_of_addresses, matches, mistake};
pub use id::{id_of, reference_to};
pub use report::{Progress, number, status};
pub use target::Target;
