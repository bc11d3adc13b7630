//! A small, faithful Kubernetes API server: an object store and the HTTP surface over it.
//!
//! ```text
//!  request ─▶ ApiServer ─▶ RequestInfo ─▶ read | write | watch | discovery ─▶ Store
//!                                             │                                │
//!                                             └──────── pulls changes ◀────────┘
//! ```
//!
//! It serves the simulated workload clusters, the embedded management cluster of the demo, and the tests. It knows
//! nothing of Cluster API, opens no socket and starts no task: whoever owns a connection calls
//! [`ApiServer::handle`].

mod http;
mod patch;
mod protobuf;
mod registry;
mod store;
mod table;

pub use http::{
    ApiServer, Authentication, PortForward, RequestInfo, RequestObserver, Settings, UserInfo, Version,
};
pub use registry::{PrinterColumn, Registry, ResourceType};
pub use store::{
    Change, ChangeKind, DeleteOptions, Deletion, Expired, Fault, GroupResource, Key, Listed, Object, Part,
    Propagation, Store, StoreError, StoreOptions, resource_type_of_definition,
};
