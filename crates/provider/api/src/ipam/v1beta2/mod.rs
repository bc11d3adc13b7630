//! Version `v1beta2` of the kinds that Cluster API itself defines in the group: the fields that we read and write.
//!
//! Both specs are immutable once written (`core/webhooks/admission/ipaddress.go`, `ipaddressclaim.go`). Every field may
//! be absent: an object that was written by hand must not break the watch of all others.

mod address;
mod claim;

pub use address::{IPAddress, IPAddressSpec};
pub use claim::{IPAddressClaim, IPAddressClaimSpec, IPAddressClaimStatus};
use serde::{Deserialize, Serialize};

/// This version's name.
pub const VERSION: &str = "v1beta2";

/// A reference by name to an object of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NameReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}
