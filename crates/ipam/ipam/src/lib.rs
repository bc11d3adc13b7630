//! Addresses and prefixes of pools: the meaning of a spec, its errors, and the owner of each address.
//!
//! # Example
//!
//! ```
//! use nephele_ipam::{AddressPool, AddressPoolSpec, AllocateAddressError, Owner};
//!
//! let spec = AddressPoolSpec {
//!     addresses: vec!["10.0.0.10-10.0.0.11".to_owned()],
//!     prefix: 24,
//!     gateway: "10.0.0.1".to_owned(),
//!     ..AddressPoolSpec::default()
//! };
//! let layout = spec.validate().expect("a valid spec");
//! let mut pool = AddressPool::new(layout);
//!
//! // An address that exists already, for example one that was read from a cluster.
//! let (first, second) = (Owner::new("default", "first"), Owner::new("default", "second"));
//! pool.adopt(first.clone(), "10.0.0.10".parse()?);
//!
//! // The lowest free address; the same owner always gets the same one.
//! let address = pool.allocate(&second, None)?;
//! assert_eq!(address.to_string(), "10.0.0.11");
//! assert_eq!(pool.allocate(&second, None), Ok(address));
//!
//! let third = Owner::new("default", "third");
//! assert_eq!(pool.allocate(&third, None), Err(AllocateAddressError::Exhausted));
//! pool.release(&first);
//! assert_eq!(pool.allocate(&third, None)?.to_string(), "10.0.0.10");
//! assert_eq!((pool.usage().total, pool.usage().free), (2, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A spec with errors is refused with the fields that are wrong, in the words of a webhook's response:
//!
//! ```
//! # use nephele_ipam::AddressPoolSpec;
//! let spec = AddressPoolSpec { addresses: vec!["10.0.0.300".to_owned()], prefix: 24, ..AddressPoolSpec::default() };
//! let errors = spec.validate().expect_err("no such address");
//! assert_eq!(errors[0].field, "spec.addresses");
//! ```
//!
//! # Modules
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
// In these modules numbers of users enter: a sum that wraps is a wrong answer, and one that panics ends a task.
#[cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
mod address_range;
mod address_set;
#[cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
mod address_spec;
#[cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
mod family;
mod few;
mod field_error;
mod free;
mod holdings;
mod intervals;
mod owner;
mod parse;
#[cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
mod prefix;
mod prefix_pool;
#[cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]
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
