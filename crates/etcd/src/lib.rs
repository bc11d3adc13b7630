//! The etcd gRPC services that a Kubernetes control plane's manager asks for, over any byte stream.
//!
//! ```text
//!  bytes (TLS ended by the caller) ─▶ serve_connection ─▶ HTTP/2 ─▶ gRPC ─▶ EtcdCluster (pure)
//! ```
//!
//! [`EtcdCluster`] holds members, a leader and a quorum, and no keys: the objects of a simulated cluster live
//! elsewhere. It is a plain value that decides; the service answers from it. The crate opens no socket, knows no TLS
//! and no Kubernetes.

mod cluster;
mod message;
mod service;

pub use cluster::{EtcdCluster, EtcdError, Member, member_id};
pub use service::{CallObserver, Connection, ServeError, SharedEtcdCluster, serve_connection};
