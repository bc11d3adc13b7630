//! For tests only: a management API in this process, the objects that Cluster API would put into it, and the stage for the
//! controllers that are tested.
//!
//! ```text
//!  test ──objects::{cluster, machine, …}──▶ ManagementApi ◀──kube::Client── what is tested
//!    ▲                                        │   (no socket: the client calls the server's service)
//!    ├── eventually, writes ◀─────────────────┘
//!    └── Backstage ──run──▶ Stage: controllers, from their start to their stop
//! ```
//!
//! What it must not know: anything of the product but its kinds, what all controllers share, and the guard of the
//! manager's requests, which fails a test whose product sends a request that it must not send. A test plays Cluster API
//! core by writing objects. Everything here panics rather than returning errors: that is how a test fails.

#![expect(
    clippy::missing_panics_doc,
    reason = "everything here panics when the test has gone wrong"
)]

mod damage;
mod hostile_names;
mod management;
pub mod objects;
mod patience;
mod stage;

pub use damage::{Damage, Owners};
pub use hostile_names::{CUT, hostile_texts, texts_of, with_text};
pub use management::{Definitions, ManagementApi, Write, definitions, take_definitions};
pub use patience::{PATIENCE, eventually, eventually_of};
pub use stage::{Backstage, Stage};
