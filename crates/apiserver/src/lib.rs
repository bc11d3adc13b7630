//! A small, faithful Kubernetes API server: an object store and the HTTP surface over it.
//!
//! ```text
//!  request ─▶ ApiServer ─▶ RequestInfo ─▶ read | write | watch | discovery ─▶ Store
//!                                             │                                │
//!                                             └──────── pulls changes ◀────────┘
//! ```
//!
//! Objects are in memory; a [`Journal`] may keep them elsewhere as well, and a client's write is answered when it has.
//!
//! It serves the simulated workload clusters, the embedded management cluster of the demo, and the tests. It knows
//! nothing of Cluster API, opens no socket and starts no task: whoever owns a connection calls
//! [`ApiServer::handle`].
//!
//! What a real server does and this one does not, yet: server-side apply (415) and `managedFields`; validation,
//! defaulting and pruning by the schema of a kind, and conversion between its versions beyond their name; admission
//! webhooks; authorization (whoever is authenticated may do everything); quotas; schemas in OpenAPI documents;
//! protobuf answers (JSON is answered); graceful deletion of pods (they are gone at once); allocation of cluster
//! IPs; `pods/exec`, `pods/attach`, `pods/proxy` and `serviceaccounts/token`. Pages of a list are made from the event
//! log, so that a continue token expires with the log rather than after five minutes.

mod depth;
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
    Change, ChangeKind, DeleteOptions, Deletion, Expired, Fault, GroupResource, Journal, Kept, Key, Listed,
    Object, Part, Propagation, Recorded, RestoreError, Store, StoreError, StoreOptions, Unkept,
    resource_type_of_definition,
};
