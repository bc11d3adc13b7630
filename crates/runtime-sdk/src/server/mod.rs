//! Serving hooks.
//!
//! ```text
//!  Extension ──on(hook, name, handler)──▶ Mount ──build()──▶ Service ──router()──▶ axum
//!                                                              │
//!  Tls ◀──files, reloaded when they change                     └──▶ serve(listener, tls, shutdown)
//! ```
//!
//! A call is answered with HTTP 200 whatever its outcome, even when the body was too large or not a request, or
//! when the handler panicked: these answers have the status `Failure`, after which a caller never goes on. A call
//! whose body did not arrive in time (408), or that did not end in time (504), has no response: then the failure
//! policy of the handler decides.

mod extension;
mod handler;
mod listen;
mod metrics;
mod record;
mod service;
mod tls;

pub use extension::{Extension, ExtensionError, Limits, Mount};
pub use handler::{Call, HandlerOptions};
pub use listen::serve;
pub use metrics::Metrics;
pub use record::{Recorder, Recording};
pub use service::Service;
pub use tls::{Tls, TlsError, TlsFiles};
