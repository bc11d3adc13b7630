//! The parts of a `Fault` that are the same whoever carries it out. The infrastructure provider does so for machines and
//! clusters, and the IPAM provider for addresses.
//!
//! ```text
//!  FaultSpec ──fields──▶ Budget, Selector | Mistake           ──▶ the provider decides what it hits
//!                                                                         │
//!  Event ◀──story── FaultStatus ◀──────────report────────────── Progress, FaultHit
//! ```
//!
//! The crate does not know what a Fault hits. Its module [`cluster`] makes the Faults of ClusterFaults.

pub mod cluster;
mod fields;
mod in_force;
mod report;
mod story;

pub use fields::{Mistake, budget, is_of_addresses, mistake, selector};
pub use in_force::{InForce, Standing, paused_status};
pub use report::{Progress, differs_in_numbers_only, number, status};
pub use story::publish;
