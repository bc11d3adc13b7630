//! Addresses and prefixes of pools: the meaning of a spec, its errors, and the owner of each address.
//!
//! ```text
//!   AddressPoolSpec ──validate──▶ AddressLayout ──▶ AddressPool::{adopt, allocate, release, usage, …}
//!   PrefixPoolSpec  ──validate──▶ PrefixLayout  ──▶ PrefixPool::{adopt, allocate, release, usage, …}
//!        │    │          │
//!        │    │          └──▶ Vec<FieldError>        for the webhook's response or a condition of the pool
//!        │    └── check_*_update(old, new, in use) ──▶ UpdateError
//!        └── entries ──▶ AddressRange ──▶ AddressSet: union, subtract, intersect
//! ```
//!
//! Sets are disjoint intervals, never lists or bitmaps: a /8 of v4 or a /64 of v6 costs as much as a /28. A pool can be
//! rebuilt from existing addresses in any order, and an owner that has an address always gets the same one.
//!
//! The crate has no I/O, no async, no clock, no source of entropy and no Kubernetes objects. It takes specs as they
//! were written and never panics on them.

mod address_pool;
mod address_range;
mod address_set;
mod address_spec;
mod family;
mod few;
mod field_error;
mod free;
mod holdings;
mod intervals;
mod owner;
mod parse;
mod prefix;
mod prefix_pool;
mod prefix_spec;
mod update;
mod usage;

pub use address_pool::{AddressPool, Adoption, AllocateAddressError};
pub use address_range::{AddressRange, ParseRangeError};
pub use address_set::AddressSet;
pub use address_spec::{AddressLayout, AddressPoolSpec};
pub use family::Family;
pub use field_error::{FieldError, FieldValue};
pub use owner::Owner;
pub use parse::{ParseAddressError, ParsePrefixError, parse_address};
pub use prefix::Prefix;
pub use prefix_pool::{AllocatePrefixError, PrefixPool};
pub use prefix_spec::{DEFAULT_ALLOCATION_PREFIX_LENGTH, PrefixLayout, PrefixPoolSpec};
pub use update::{UpdateError, check_address_pool_update, check_prefix_pool_update};
pub use usage::{StatusCounts, Usage};
