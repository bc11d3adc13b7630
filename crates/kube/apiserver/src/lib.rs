//! A small, faithful Kubernetes API server: an object store and the HTTP surface over it.
//!
//! ```text
//!  request ─▶ ApiServer ─▶ RequestInfo ─▶ read | write | watch | discovery ─▶ Store
//!                                             │                                │
//!                                             └──────── pulls changes ◀────────┘
//! ```
//!
//! Objects are in memory. A [`Journal`] may keep them elsewhere as well; then a client's write is answered when the
//! journal has it.
//!
//! It serves the simulated workload clusters, the embedded management cluster of the demo, and the tests. It knows
//! nothing of Cluster API, opens no socket and starts no task: the owner of a connection calls
//! [`ApiServer::handle`].
//!
//!
#![doc = include_str!("../DIFFERENCES.md")]

mod allowance;
mod apply;
mod conversion;
mod depth;
mod http;
mod parse_cost;
mod patch;
mod protobuf;
mod registry;
mod store;
mod table;
mod time;

pub use conversion::Conversion;
pub use http::{
    ApiServer, Authentication, PortForward, RequestInfo, RequestObserver, Settings, UserInfo, Version,
    percent_decode,
};
pub use registry::{PrinterColumn, Registry, ResourceType};
#[cfg(debug_assertions)]
pub use store::objects_parsed;
pub use store::{
    Change, ChangeKind, DeleteOptions, Deletion, Expired, Fault, GroupResource, Journal, Kept, Key, Listed,
    Object, Part, Propagation, Recorded, RestoreError, Store, StoreError, StoreOptions, Unkept, is_label,
};
