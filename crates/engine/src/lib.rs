//! The simulated cloud as a value: a pure, seeded state machine on virtual time.
//!
//! ```text
//!            now, Operation                      now
//!                 │                               │
//!                 ▼                               ▼
//!   Engine::apply ──▶ Outcome | Rejected    Engine::poll ──▶ Vec<Event>
//!                 │                               │
//!                 └──────────▶ Journal ◀──────────┘
//! ```
//!
//! A resource passes through named stages. Each has a latency and failure odds; both are drawn once, when the stage
//! is entered, from a generator keyed by (seed, resource, stage, attempt), and kept as a deadline. So the order in
//! which resources arrive, extra polls and a restart change no result.
//!
//! The crate has no I/O, no async, no clock and no source of entropy, and does not know what a stage stands for.

mod config;
mod engine;
mod identity;
mod journal;
mod latency;
mod operation;
mod resource;
mod seed;
mod time;

pub use config::{Config, Quota, Zone};
pub use engine::Engine;
pub use identity::{ResourceId, ResourceKind, StageName};
pub use journal::{Entry, Journal, Record};
pub use latency::{Latency, Odds};
pub use operation::{Command, ErrorClass, Event, EventKind, Operation, Outcome, Rejected};
pub use resource::{Resource, ResourceSpec, StageSpec, StageState};
pub use seed::Seed;
pub use time::SimTime;
