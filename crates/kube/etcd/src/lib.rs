//! The etcd gRPC services that a Kubernetes control plane provider calls, over any byte stream.
//!
//! ```text
//!  bytes without TLS ▶ serve_connection ─▶ HTTP/2, gRPC ─▶ answer(call, cluster, member) ─▶ EtcdCluster
//!                        (hyper, tonic)     (hand-written      (pure)                         (pure)
//!                                            messages)
//! ```
//!
//! [`EtcdCluster`] has members, a leader and a quorum, but no keys: the objects of a simulated cluster are stored
//! elsewhere. It is plain data, and the service answers from it. Members share one value instead of sending messages to
//! each other, so there is no raft: elections and removals take effect at once, and always with the same result.
//!
//! | RPC | behaviour |
//! |---|---|
//! | `Cluster/MemberList` | members by id; needs a leader when linearizable |
//! | `Cluster/MemberRemove` | etcd's strict check, then an election if the leader was removed |
//! | `Maintenance/Status` | leader, term, plausible sizes; without a leader, `errors` says so |
//! | `Maintenance/Alarm` | the alarms that the simulation has raised; disarming one has no lasting effect |
//! | `Maintenance/MoveLeader` | on the leader only, to a running member |
//!
//! All other RPCs are refused as unimplemented. Errors have etcd's codes and texts; a member that does not run, or was
//! removed, answers every call with `etcdserver: server stopped`.
//!
//! The crate opens no socket and uses neither TLS nor Kubernetes.

mod answer;
mod cluster;
mod message;
mod service;

pub use answer::VERSION;
pub use cluster::{Alarm, EtcdCluster, EtcdError, Member, member_id};
pub use service::{
    CallDelay, CallObserver, Connection, Delay, ServeError, SharedEtcdCluster, serve_connection,
};
