//! Serving hooks.
//!
//! ```text
//!  Extension ──on(hook, name, handler)──▶ Mount ──build()──▶ Service ──router()──▶ axum
//!                                                              │
//!  Tls ◀──files, reloaded when they change                     └──▶ serve(listener, tls, shutdown)
//! ```
//!
//! A call that was processed is answered with HTTP 200, whatever came of it; so is one whose body was too large or no
//! request, and one whose handler panicked: they have the status `Failure`, under which a caller never goes on. A call
//! that did not end in time, or for which there is no room, has no response at all (504, 503): there the failure policy
//! of the handler decides.
//!
//! The listener is hyper-util's connections over tokio-rustls: a page of code, and a crate less than axum-server.

mod extension;
mod handler;
mod jobs;
mod listen;
mod metrics;
mod record;
mod service;
mod tls;

pub use extension::{Extension, ExtensionError, Limits, Mount};
pub use handler::{Call, HandlerOptions};
pub use jobs::{JobLimits, Jobs, Progress};
pub use listen::serve;
pub use metrics::Metrics;
pub use record::{Recorder, Recording};
pub use service::Service;
pub use tls::{Tls, TlsError, TlsFiles};
