//! What the black-box tests are written with: scopes of their own on a management cluster, clusters from the released
//! templates, waits that say what they last saw, and the ways in which users look into a workload cluster.
//!
//! ```text
//!  Scope (a namespace) ──apply templates──▶ management cluster ──▶ Cluster API + provider
//!    └─ Cluster ──wait on conditions──┘            │ kubeconfig Secret
//!         └─ Workload ◀─────────────────────────────┘   kubectl
//! ```
//!
//! The tests are in `tests/`: `lifecycle` and `ipam` side by side, `alone` one after the other with nothing else going
//! on, `clusterctl` on management clusters of their own, `helm` and `installed` in the place of what the others use. They know the product by what it publishes: objects, endpoints,
//! a process. Nothing of its insides is used here.

pub mod bare;
pub mod cluster;
pub mod ipam;
pub mod kubectl;
pub mod load;
pub mod management;
pub mod manager;
pub mod samples;
pub mod scope;
pub mod slope;
pub mod state;
pub mod templates;
pub mod wait;
pub mod workload;

pub use bare::Bare;
pub use cluster::Cluster;
pub use management::Management;
pub use scope::Scope;
pub use templates::Shape;
pub use wait::{Look, until};
pub use workload::Workload;
