//! ClusterFaults: keeps the same Fault in each namespace that one selects, and adds up what these Faults have done.
//!
//! ```text
//!  ClusterFault ─┐
//!  Namespaces ───┼─▶ plan ─▶ act: create, restore, delete Faults ─▶ report ─▶ status of the ClusterFault
//!  Faults ───────┘
//! ```
//!
//! The Faults are carried out as all others are: nothing here knows what a Fault hits. The provider that carries them out
//! also runs this controller, so each ClusterFault has one writer.

mod act;
mod plan;
mod reconcile;
mod refusals;
mod report;
mod run;
mod selection;

pub use run::{Settings, run};
pub use selection::selected;
