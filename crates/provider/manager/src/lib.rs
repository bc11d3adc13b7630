//! The manager, which does all of Nephele's work in one process. It is a library, so that the binary, the demo and the
//! tests start the same manager.
//!
//! ```text
//!             ┌ health       /healthz /readyz                 every replica
//!             ├ diagnostics  /metrics, tokens checked         every replica
//!             ├ page         by the caller, if switched on    every replica
//!             ├ webhooks     pools' admission and conversion  every replica
//!             ├ extension    hooks of Cluster API             every replica
//!  Manager ───┤ lease        one leader                       ─┐
//!             ├ cloud        workload API servers from 20000   ├ the leader
//!             └ controllers  infra, ipam-controller           ─┘
//! ```
//!
//! Each part is a task. If a task ends early, the process ends with its error. After the kubelet has restarted it, the
//! manager restores its state from the management objects.
//!
//! The crate declares the flags of a manager. The binary reads arguments, environment variables and signals.

mod address;
mod admin;
mod client;
mod client_authorities;
mod config;
mod core_version;
mod feature_gates;
mod managed_fields;
mod manager;
mod options;
mod process_metrics;
mod requests;
mod roles;
mod runtime_extension;
mod tasks;
mod throttle;
mod urgent;
mod webhooks;

pub use address::{AddressError, ListenAddress};
pub use admin::{
    certificate::{CertificateError, fingerprint},
    diagnostics::Verbosity,
    visitors::{ForVisitors, Visitor, VisitorError, Visitors},
};
pub use client::{Clients, ConnectError, connect};
pub use client_authorities::ClientAuthoritiesError;
pub use config::{Config, ConfigError};
pub use feature_gates::FeatureGateError;
pub use manager::{
    BuildError, DIAGNOSTICS_AUDIENCE, DIAGNOSTICS_CERTIFICATE, Manager, PagePort, RunError, ServePage,
};
pub use options::{LEADER_ELECTION_ID, Options, go_bool};
pub use roles::{Roles, RolesError};
pub use runtime_extension::RuntimeExtensionError;
pub use tasks::TaskError;
pub use throttle::RequestRate;
pub use urgent::Urgent;

/// The version of this program.
#[must_use]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The revision from `NEPHELE_REVISION` at build time, or `unknown`.
#[must_use]
pub fn revision() -> &'static str {
    option_env!("NEPHELE_REVISION").unwrap_or("unknown")
}
