//! Nephele's runtime extension: its answers to the hooks of Cluster API.
//!
//! ```text
//!                        ┌ lifecycle ── script (a ConfigMap for each Cluster: what to answer, what was asked)
//!  Cluster API ──hook──▶ ┼ topology ─── variables, patches and verdicts for classes of simulated clusters
//!                        ┼ upgrade_plan  the versions between the current one and the target of an upgrade
//!                        └ in_place ─── which changes of a machine need no new machine, and the request for them
//! ```
//!
//! The handlers for a cluster's life have the names, settings and ConfigMaps of the extension in Cluster API's own tests
//! (`test/extension`), so that tests written for that extension work with this one.
//!
//! What it must not know: how it is served, with which certificates, and anything of the simulation. It sees what
//! Cluster API sends and the API of the management cluster, nothing else. It asks for an update by writing to the
//! machine's object, since another process may run the machine. All objects are reached through [`Access`], which
//! checks the names in requests.

mod access;
mod extension;
pub mod in_place;
mod lifecycle;
pub mod script;
pub mod settings;
pub mod topology;
pub mod upgrade_plan;

pub use access::{Access, NameError};
pub use extension::extension;
