//! The transport of calls to extensions.

mod error;
mod exchange;
mod https;
mod identity;
mod identity_files;
mod resolve;

pub use error::{BoxedError, TransportError, TrustError};
pub use exchange::{Incoming, Outgoing, Transport};
pub use https::{Https, HttpsSettings};
pub use identity::{Identity, IdentityError};
pub use identity_files::IdentityFiles;
