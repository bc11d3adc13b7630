//! The product without Kubernetes around it: what `nephele demo` and `nephele up` share.
//!
//! ```text
//!  kubectl ──TLS──▶ management API (embedded) ◀── manager ──▶ simulated cloud ◀──TLS── kubectl
//!                        ▲                                         ▲
//!                        └──── stand-in for Cluster API ────TLS────┘
//! ```

mod conversion;
mod folder;
mod management;
mod tasks;

pub(crate) use folder::{Folder, log_to};
pub(crate) use management::{GIT_VERSION, Management, is_embedded};
pub(crate) use tasks::{ManagerSettings, Tasks, WebhookSettings};

#[cfg(test)]
mod rights;
