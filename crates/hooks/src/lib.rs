//! Nephele's runtime extension: what it answers to the hooks of Cluster API.
//!
//! ```text
//!                        ┌ lifecycle ── script (a ConfigMap for each Cluster: what to answer, what was asked)
//!  Cluster API ──hook──▶ ┼ topology ─── variables, patches and verdicts for classes of simulated clusters
//!                        ┼ upgrade_plan  the versions on the way of an upgrade
//!                        └ in_place ─── what can be changed of a machine, and changing it (its InMemoryMachine says how far)
//! ```
//!
//! The handlers of a cluster's life have the names, settings and ConfigMaps of the extension that Cluster API tests
//! itself with (`test/extension`), so that what was written for that one works with this one.
//!
//! What it must not know: how it is served, with which certificates, and anything of the simulation: it sees what
//! Cluster API sends, the API of the management cluster, and nothing else. A machine that is to be updated is asked by
//! its object, since another process may have it.

mod extension;
pub mod in_place;
mod lifecycle;
pub mod script;
pub mod settings;
pub mod topology;
pub mod upgrade_plan;

pub use extension::{extension, extension_at};
