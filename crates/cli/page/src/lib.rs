//! The live page: what the simulated cloud does, in a browser, while it does it.
//!
//! ```text
//!  journal ─────────────────────┐                             ┌─▶ viewer 1 (server-sent events)
//!  watches of Clusters, Machines ├▶ Objects ▶ Model ▶ Elements ▶ diff ▶ Feed ─▶ viewer 2 …
//!  clouds and Faults ───────────┘      pure   pure     pure     └─ a viewer that falls behind gets the whole page
//! ```
//!
//! HTML is made here only. The module in the browser sets attributes and texts, inserts the elements that it is sent, and moves
//! the focus. Without scripts the page is complete, too, and loads again every five seconds.
//!
//! A form of the page becomes an [`Act`](act::Act), which is sent with the rights of whoever started the command:
//!
//! ```text
//!  POST /act/… ─▶ guard ─▶ Act ─▶ Actor ─▶ API server ─▶ watches, as above
//!                          pure
//! ```
//!
//! The crate knows no command line, no Secret, and nothing of the simulated cloud but its objects and its journal.

mod act;
mod actor;
mod cluster_view;
mod density;
mod diff;
mod drawer;
mod drawer_html;
mod effect;
mod elements;
mod feed;
mod follow;
mod guard;
mod html;
mod hub;
mod machine_view;
mod model;
mod objects;
mod palette;
mod reports;
mod serve;
mod stages;
mod surroundings;
mod table;

pub use effect::effect_name;
pub use follow::Source;
pub use serve::{Page, PageError};
pub use stages::Stage;
