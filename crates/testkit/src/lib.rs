//! For tests only: a management API in this process, and the objects that Cluster API would put into it.
//!
//! ```text
//!  test ──objects::{cluster, machine, …}──▶ ManagementApi ◀──kube::Client── what is tested
//!    ▲                                        │   (no socket: the client calls the server's service)
//!    └── eventually, writes ◀─────────────────┘
//! ```
//!
//! What it must not know: anything of the product but its kinds, and the guard of the manager's requests, which fails a test
//! whose product sends a request that it must not send. A test plays Cluster API core by writing objects.
//! Everything here panics rather than returning errors: that is how a test fails.

#![expect(clippy::missing_panics_doc, reason = "everything here panics when the test has gone wrong")]

mod damage;
mod hostile_names;
mod management;
pub mod objects;

pub use damage::{Damage, Owners};
pub use hostile_names::{CUT, hostile_texts, texts_of, with_text};
pub use management::{Clock, Definitions, ManagementApi, Write, definitions, take_definitions};
