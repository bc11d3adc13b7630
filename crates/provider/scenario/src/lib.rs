//! The controller of Scenarios.
//!
//! ```text
//!  Scenario ─▶ runs ▶ validate(expanded) ─▶ Script ─▶ plan(script, status so far, what was seen, now)
//!     ▲          │                                        │
//!     │          └── observe: Faults, Clusters, Machines, clocks  ▼
//!     └── status ◀── report ◀── settle ◀── act: Faults, patches, Events
//! ```
//!
//! All progress is in the status. `plan` and `validate` are pure, each action can be repeated, and no action is done
//! before the status says that its step has begun. So it makes no difference where the process stops and continues. What is
//! kept in memory (`runs`) only spares work: the script, so that no look reads the whole spec again, and the times of looks.
//!
//! The crate knows neither the cloud nor its engine: all that it does, users can do with `kubectl`.

// Numbers of users enter here: a sum that wraps is a wrong answer, and one that panics ends a request.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod act;
mod again;
pub mod clock;
mod expand;
mod look;
mod manifests;
mod mistake;
mod observe;
mod plan;
mod reconcile;
mod refusal;
mod report;
mod resource;
mod run;
mod runs;
mod script;
mod validate;
mod variables;

pub use again::again;
pub use expand::actions;
pub use run::{Settings, run};
pub use validate::GROUPS;
