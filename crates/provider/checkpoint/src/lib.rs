//! Checkpoints: clusters with everything in them, in one file, and a management cluster that goes back to it.
//!
//! ```text
//!  save:     management API ──objects──▶ Checkpoint ──▶ file        manager ──objects of workload clusters──▶ ┘
//!
//!  restore:  file ──▶ pause, remove what is there ──▶ manager keeps the objects of workload clusters
//!                 ──▶ create objects, owners first ──▶ write their status ──▶ resume
//! ```
//!
//! A restored object has a new uid, as after `clusterctl move`; owner references are changed accordingly. Its status is
//! that of the checkpoint, so that controllers continue where they were: that is what a restart does, too. The engine needs
//! no place in the file, because its state follows from the objects.
//!
//! While objects are restored, nothing may act on them: Clusters are paused, objects outside of a Cluster have the
//! annotation that pauses them, and SimulatedClouds and Faults have one that hides them, because their status has what
//! the cloud has to know first.

mod clear;
mod error;
mod file;
mod kinds;
mod order;
mod rehearse;
mod restore;
mod save;
mod scope;
mod workloads;

pub use error::{FileError, RestoreError, SaveError};
pub use file::{Checkpoint, Header};
pub use restore::{Restore, Restored};
pub use save::save;
pub use workloads::Workloads;
