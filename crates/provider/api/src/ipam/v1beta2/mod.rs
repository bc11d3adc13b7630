//! Version `v1beta2` of the kinds that Cluster API itself defines in the group: the fields that we read and write.
//!
//! Both specs are immutable once written (`core/webhooks/admission/ipaddress.go`, `ipaddressclaim.go`). Every field may
//! be absent: an object that was written by hand must not break the watch of all others.

mod address;
mod claim;
mod name_reference;

pub use address::{IPAddress, IPAddressSpec};
pub use claim::{IPAddressClaim, IPAddressClaimSpec, IPAddressClaimStatus};
pub use name_reference::NameReference;

/// This version's name.
pub const VERSION: &str = "v1beta2";
