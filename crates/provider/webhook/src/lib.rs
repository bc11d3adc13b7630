//! Webhooks that an API server calls, for admission and conversion, and their certificates.
//!
//! ```text
//!  API server ──TLS──▶ serve ──review──▶ Webhook ──Change<K>──▶ handlers that the caller registered
//!                        ▲
//!                        │ ServedCertificate, swapped while serving
//!            ┌───────────┴───────────┐
//!  keep: Secret shared by all     follow_folder: files that another
//!  replicas, planned by `plan`,   program renews, cert-manager for instance
//!  bundle injected into
//!  definitions and configurations
//! ```
//!
//! The crate knows only the kinds that it needs itself (Secrets, definitions, webhook configurations). It reads no
//! clock: `now` comes from the caller. No request makes it panic. If a handler panics, only its own request is denied.

pub mod admission;
pub mod certificate;
mod conversion;
mod envelope;
mod metrics;
mod serve;
mod tls;
mod webhook;

pub use admission::{AdmissionRequest, Cause, Change, Denial};
pub use certificate::{ServedCertificate, folder::follow_folder, keeper::keep};
pub use metrics::Metrics;
pub use serve::serve;
pub use tls::{TlsPolicy, TlsPolicyError};
pub use webhook::Webhook;
