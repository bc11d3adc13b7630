//! The kinds of the group `cloud.nephele.dev`: the simulated cloud of the clusters. Cluster API knows nothing of them.
//!
//! ```text
//!  v1alpha1 ── SimulatedCloud ◀── cloudRef ── InMemoryCluster
//!           ├─ CloudExtensionConfig: extensions to call before creation and after deletion of machines
//!           ├─ Scenario ──makes──▶ Fault: what goes wrong, and in which order
//!           └─ ClusterFault ──makes──▶ Fault: the same in many namespaces
//! ```

mod definitions;
pub mod v1alpha1;

pub use definitions::{MOVE_LABEL, crds};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The API group.
pub const GROUP: &str = "cloud.nephele.dev";

/// The SimulatedCloud of a cluster that names none, if the namespace has one of this name.
pub const DEFAULT_NAME: &str = "default";

/// Annotation, with any value, of a SimulatedCloud or Fault that is being restored from a checkpoint. While it has the
/// annotation, managers act as if it did not exist: its status, which says what the cloud has to know first, is not yet
/// written.
pub const RESTORING_ANNOTATION: &str = "cloud.nephele.dev/restoring";

/// Whether an object is being restored from a checkpoint.
#[must_use]
pub fn is_being_restored(meta: &ObjectMeta) -> bool {
    meta.annotations
        .as_ref()
        .is_some_and(|all| all.contains_key(RESTORING_ANNOTATION))
}

/// Annotation of a Scenario that needs Cluster API itself, with what it needs of it in words: where a stand-in plays Cluster
/// API, the Scenario fails at once and says so.
pub const NEEDS_CLUSTER_API_ANNOTATION: &str = "cloud.nephele.dev/needs-cluster-api";

/// Label of a Fault that a ClusterFault has made: the name of the ClusterFault, which is short enough for a label.
pub const CLUSTER_FAULT_LABEL: &str = "cloud.nephele.dev/cluster-fault";

/// Label of what a chapter of the workshop has made: the number of the chapter.
pub const WORKSHOP_LABEL: &str = "cloud.nephele.dev/workshop";
