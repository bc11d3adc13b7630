//! The tools of the black-box tests: a namespace for each test on a management cluster, clusters from the released
//! templates, waits whose errors include the last state, and users' access to workload clusters.
//!
//! ```text
//!  Scope (a namespace) ──apply templates──▶ management cluster ──▶ Cluster API + provider
//!    └─ Cluster ──wait on conditions──┘            │ kubeconfig Secret
//!         └─ Workload ◀─────────────────────────────┘   kubectl
//! ```
//!
//! The tests are in `tests/`: `lifecycle` and `ipam` in parallel, `alone` one after the other with nothing else
//! running, `clusterctl` and `leaders` on their own management clusters, `helm` and `installed` in place of the
//! providers that the other tests use. The tests only use the public parts of the product: objects, endpoints, a
//! process.

pub mod bare;
pub mod cluster;
pub mod fields;
pub mod ipam;
pub mod kubectl;
pub mod load;
pub mod management;
pub mod manager;
pub mod page;
pub mod program;
pub mod samples;
pub mod scope;
pub mod shell;
pub mod state;
pub mod templates;
pub mod terminal;
pub mod wait;
pub mod workload;

pub use bare::{Bare, release_of};
pub use cluster::Cluster;
pub use management::Management;
pub use scope::Scope;
pub use templates::Shape;
pub use wait::{Look, until};
pub use workload::Workload;
