//! Conditions of claims and pools: reasons of the condition `Ready`, and what pools have besides.
//!
//! Reasons that Cluster API has are its own (`api/ipam/v1beta2/ipaddressclaim_types.go`), as is the reason for success
//! that other IPAM providers use.

/// A claim has its address.
pub const ADDRESS_ALLOCATED: &str = "AddressAllocated";
/// A claim could not get an address; the message says why.
pub const ALLOCATION_FAILED: &str = "AllocationFailed";
/// A Fault lets a claim wait for its address.
pub const ALLOCATION_DELAYED: &str = "AllocationDelayed";
/// The pool of a claim is missing, paused or being deleted, or its spec is invalid.
pub const POOL_NOT_READY: &str = "PoolNotReady";
/// The pool of a claim has no address left.
pub const POOL_EXHAUSTED: &str = "PoolExhausted";
/// A pool has addresses that another pool has, too; the message names it.
pub const ADDRESSES_IN_COMMON: &str = "AddressesInCommon";

/// Types of conditions that pools have besides `Ready` and `Paused`.
pub mod types {
    /// Another pool has some of the addresses, too.
    pub const OVERLAPPING: &str = "Overlapping";
}
