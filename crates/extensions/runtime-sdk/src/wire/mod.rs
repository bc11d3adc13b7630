//! JSON as Go reads and writes it, and the types in it that all messages share.
//!
//! Cluster API and most extensions are written in Go, whose `encoding/json` accepts field names in any letter case and
//! `null` for any value. [`from_slice`] does the same. [`Object`] and [`Bytes`] have the wire format of Go's types.

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
