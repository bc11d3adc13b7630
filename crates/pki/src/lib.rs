//! Certificate authorities of any key type, and the leaves they issue.
//!
//! A workload cluster's authorities come from outside, in Secrets written by Cluster API or by a user: RSA or
//! elliptic curve, PKCS#1, SEC1 or PKCS#8. [`Authority`] reads them all and issues leaves from them.
//!
//! ```text
//!  certificate PEM ┐
//!                  ├─▶ Authority ──issue(LeafRequest)──▶ Leaf (certificate, P-256 key)
//!  key PEM         ┘                                       │
//!                                                          ▼ shown by a client, verified by TLS
//!                                      ClientIdentity ◀── parse_client(certificate)
//! ```
//!
//! A leaf is a function of the authority and the request: its key is derived from the authority's private key and
//! the request's identity, its serial also from the content, and signatures are deterministic. So a restarted
//! process serves the same certificates as before without having stored any.
//!
//! The crate knows nothing of Kubernetes objects, sockets or clocks, and no error or debug output of it shows a key.

mod authority;
mod certificate;
mod client;
mod derive;
mod key;
mod leaf;
mod pem;
#[cfg(test)]
mod tests;

pub use authority::{Authority, AuthorityError, KeyAlgorithm};
pub use client::{ClientIdentity, ClientIdentityError, parse_client};
pub use key::KeyError;
pub use leaf::{IssueError, Leaf, LeafRequest};
pub use pem::PemError;
