//! Nephele's runtime extension: its answers to the hooks of Cluster API.
//!
//! ```text
//!                        ┌ lifecycle ── script (a ConfigMap for each Cluster: what to answer, what was asked)
//!  Cluster API ──hook──▶ ┼ topology ─── variables, patches and verdicts for classes of simulated clusters
//!                        ┼ upgrade_plan  the versions between the current one and the target of an upgrade
//!                        └ in_place ─── which changes of a machine need no new machine, and the request for them
//! ```
//!
//! The handlers of the lifecycle hooks have the names, settings and ConfigMaps of the extension in Cluster API's
//! own tests (`test/extension`), so that tests written for that extension work with this one.
//!
//! The crate knows neither the server and its certificates nor the simulation. It uses only the requests of Cluster API
//! and the management API. It requests an update by writing to the machine's object, because another process may run
//! the machine. It reaches all objects through [`Access`], which checks the names in requests.

// Numbers of users enter here: a sum that wraps is a wrong answer, and one that panics ends a request.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

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
