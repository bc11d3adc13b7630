//! The serving side: an extension and its handlers.
//!
//! ```text
//!  Extension ──on(hook, name, handler)──▶ Mount ──build()──▶ Service ──router()──▶ axum
//!                                                              │
//!  Tls ◀──files, reloaded when they change                     └──▶ serve(listener, tls, shutdown)
//! ```
//!
//! Almost every call is answered with HTTP 200. When the body is too large or not a request, or the handler panics,
//! the response has the status `Failure`, after which a caller never continues. Only a call whose body does not arrive
//! in time (408), or that does not end in time (504), has no response. Then the failure policy of the handler decides.

mod extension;
mod handler;
mod limits;
mod listen;
mod metrics;
mod record;
mod service;
mod tls;

pub use extension::{Extension, ExtensionError, Mount};
pub use handler::{Call, HandlerOptions};
pub use limits::Limits;
pub use listen::serve;
pub use metrics::Metrics;
pub use record::{Recorder, Recording};
pub use service::Service;
pub use tls::{Tls, TlsError, TlsFiles};
