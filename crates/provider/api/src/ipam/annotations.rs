//! Annotations of claims and pools.

/// On a claim: the address that it wants. This annotation is our own; a claim without it gets the lowest free address.
pub const WANTED_ADDRESS: &str = "ipam.nephele.dev/address";

/// On a pool, with any value: it may be deleted although it has addresses.
pub const SKIP_DELETE_VALIDATION: &str = "ipam.cluster.x-k8s.io/skip-validate-delete-webhook";

/// On a pool: the fields that only another version has, as JSON (`util/conversion`).
pub const CONVERSION_DATA: &str = "cluster.x-k8s.io/conversion-data";
