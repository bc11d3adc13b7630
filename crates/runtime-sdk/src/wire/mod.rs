//! JSON as Go reads and writes it, and what else travels in a call.
//!
//! Both sides of a call that Cluster API takes part in are written in Go, whose `encoding/json` takes field names in
//! any letter case and `null` for anything. [`from_slice`] reads so; [`Object`] and [`Bytes`] are what Go's types look
//! like on the wire.

mod bytes;
mod lenient;
mod name;
mod object;
mod text;

pub use bytes::Bytes;
pub use lenient::{from_prefix, from_slice, from_value};
pub use name::{is_dns_label, is_dns_subdomain};
pub use object::Object;
pub(crate) use text::text;
