//! Certificate authorities of any key type, and the leaf certificates that they issue.
//!
//! Cluster API or a user writes the authorities of a workload cluster to Secrets, with RSA or elliptic-curve keys in
//! PKCS#1, SEC1 or PKCS#8. [`Authority`] reads all of these and issues leaf certificates.
//!
//! ```text
//!  certificate PEM ┐
//!                  ├─▶ Authority ──issue(LeafRequest)──▶ Leaf (certificate, P-256 key)
//!  key PEM         ┘                                       │
//!                                                          ▼ sent by a client, verified by TLS
//!                                      ClientIdentity ◀── parse_client(certificate)
//! ```
//!
//! A leaf is a function of the authority and the request: its key is derived from the authority's private key and the
//! request's identity, its serial also from the content, and signatures are deterministic. So a restarted process
//! serves the same certificates without storing them.
//!
//! The crate uses no Kubernetes objects, sockets or clocks, and none of its errors and debug outputs shows a key.

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
pub use pem::{PemError, certificate_pem};
