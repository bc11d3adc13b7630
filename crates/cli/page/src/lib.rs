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
//!                          pure     └─▶ Recorder ─▶ Scenario
//! ```
//!
//! A manager serves the page to many people, each with a token of their own ([`serve_visits`]): each of them has the tasks above.
//!
//! The crate knows no command line, no Secret, and nothing of the simulated cloud but its objects and its journal ([`Source`]). What
//! a Fault would hit ([`Matcher`]) and which scenarios there are ([`Library`]) it learns from whoever starts it ([`Means`]). Others
//! can show the same [`Model`] ([`sights`]).

mod act;
mod act_error;
mod actor;
mod allowance;
mod board;
mod cluster_view;
mod density;
mod diff;
mod draft;
mod drawer;
mod drawer_html;
mod effect;
mod elements;
mod feed;
mod follow;
mod guard;
mod html;
mod hub;
mod kiosk_html;
mod library;
mod library_html;
mod machine_view;
mod model;
mod models;
mod objects;
mod observed;
mod observed_html;
mod origin;
mod outcome;
mod palette;
mod palette_html;
mod pool_grid;
mod pool_view;
mod pools_html;
mod preview;
mod recording;
mod recording_html;
mod reports;
mod scenario_view;
mod screen;
mod serve;
mod sign_in_html;
mod stages;
mod surroundings;
mod table;
mod time_of_day;
mod timeline;
mod timeline_html;
mod visits;

pub use allowance::Allowance;
pub use board::{CHAPTERS, Progress};
pub use cluster_view::ClusterView;
pub use effect::effect_name;
pub use follow::Source;
pub use library::{Lacks, Library, LibraryEntry};
pub use machine_view::{MachineView, Role, State};
pub use model::Model;
pub use models::{Sight, sights};
pub use objects::Key;
pub use pool_view::PoolView;
pub use preview::{Candidates, Matcher, Selected};
pub use reports::{CloudView, FaultView, Leak, Limit, Wait};
pub use scenario_view::ScenarioView;
pub use serve::{Means, Page, PageError, Screens};
pub use stages::Stage;
pub use visits::{Admitted, Door, NotAdmitted, SignIn, serve_visits};
