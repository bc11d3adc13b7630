//! Certificate authorities of any key type, and the leaves they issue.
//!
//! A workload cluster's authorities come from outside, in Secrets written by Cluster API or by a user: RSA or
//! elliptic curve, PKCS#1, SEC1 or PKCS#8. [`Authority`] reads them all and issues leaves from them.
//!
//! ```text
//!  certificate PEM ┐
//!                  ├─▶ Authority ──issue(LeafRequest)──▶ Leaf (certificate, P-256 key)
//!  key PEM         ┘
//! ```
//!
//! Leaves are a function of the authority and the request: the leaf's key and serial are derived from the authority's
//! private key and the request's identity, so a restarted process serves the certificates it served before without
//! having kept any. The crate knows nothing of Kubernetes, sockets or clocks.

mod authority;
mod client;
mod derive;
mod leaf;
mod signer;

pub use authority::{Authority, AuthorityError, KeyAlgorithm};
pub use client::{ClientIdentity, ClientIdentityError, client_identity};
pub use leaf::{IssueError, Leaf, LeafRequest};
