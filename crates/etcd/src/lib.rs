//! The etcd gRPC services that a Kubernetes control plane provider calls, over any byte stream.
//!
//! ```text
//!  bytes, TLS ended ─▶ serve_connection ─▶ HTTP/2, gRPC ─▶ answer(call, cluster, member) ─▶ EtcdCluster
//!                        (hyper, tonic)     (hand-written      (pure)                         (pure)
//!                                            messages)
//! ```
//!
//! [`EtcdCluster`] holds members, a leader and a quorum, and no keys: the objects of a simulated cluster are stored
//! elsewhere. It is a plain value that decides; the service answers from it. Members share that value instead of
//! talking to each other, so there is no raft: what raft would decide is decided at once, and always the same way.
//!
//! | RPC | what it does here |
//! |---|---|
//! | `Cluster/MemberList` | members by id; needs a leader when linearizable |
//! | `Cluster/MemberRemove` | etcd's strict check, then an election if the leader went |
//! | `Maintenance/Status` | leader, term, plausible sizes; also without a leader, and then says so in `errors` |
//! | `Maintenance/Alarm` | there are none |
//! | `Maintenance/MoveLeader` | on the leader only, to a running member |
//!
//! All others are refused as unimplemented. Errors have etcd's codes and texts; a member that does not run, or was
//! removed, answers every call with `etcdserver: server stopped`.
//!
//! The crate opens no socket, knows no TLS and no Kubernetes.

mod answer;
mod cluster;
mod message;
mod service;

pub use answer::VERSION;
pub use cluster::{EtcdCluster, EtcdError, Member, member_id};
pub use service::{CallObserver, Connection, ServeError, SharedEtcdCluster, serve_connection};
