//! The kinds of the group `cloud.nephele.dev`: the simulated world that clusters lie in. Cluster API knows nothing of
//! them.
//!
//! ```text
//!  v1alpha1 ── SimulatedCloud ◀── cloudRef ── InMemoryCluster
//!           └─ CloudExtensionConfig: who has a say in machines that come and go
//! ```

mod definitions;
pub mod v1alpha1;

pub use definitions::crds;

/// The API group.
pub const GROUP: &str = "cloud.nephele.dev";

/// The SimulatedCloud of a cluster that names none, where the namespace has one of this name.
pub const DEFAULT_NAME: &str = "default";

/// On a definition: `clusterctl move` takes all its objects along (`cmd/clusterctl/client/cluster/objectgraph.go`).
///
/// Not with what they own, as a cloud owns nothing, and not by an owner: several clusters share a cloud, and what a
/// Cluster owns goes with the last of them, while a cloud is its user's.
pub const MOVE_LABEL: &str = "clusterctl.cluster.x-k8s.io/move";
