//! The simulated cloud as a value: a pure, seeded state machine on virtual time.
//!
//! ```text
//!              Operation                         now
//!                 │                               │
//!                 ▼                               ▼
//!   Engine::apply ──▶ checks ──▶ Outcome    Engine::poll
//!                 │ operations                    │ events
//!                 └──────────▶ Journal ◀──────────┘
//!                                 │ read with a cursor each: projection of a cluster, metrics, notices
//!
//!   no room: Refused ─▶ waits in line ─▶ Record::RoomFreed ─▶ asks again
//!
//!   a stage:   Blocked ──▶ Running{since, due} ──▶ Reached ──▶ those after it are entered
//!                                 ▲          └───▶ Failed
//!                                 └──── Retry ───────┘
//!
//!   an instance:  RegisterBackend ─▶ its stage is Reached ─▶ BackendInService ─▶ its deletion, or DeregisterBackend,
//!                                                            begins ─▶ BackendOutOfService
//! ```
//!
//! A resource passes through named stages, several at a time where they do not depend on each other. Each stage has a
//! latency and failure odds, drawn from a generator keyed by (seed, resource, stage, attempt). The seed is that of the
//! resource's cloud, or else that of the engine. The resource in this key is its [`SeedKey`](nephele_model::SeedKey)
//! (its set and its number in the set) if it has one, and its name otherwise. The latency is drawn once, when the stage
//! is entered, and kept as a deadline. Everything due by an operation's time happens before the operation. So the order
//! in which resources arrive, extra polls and a restart change no result, and replaying the journal of one cloud on
//! another makes them equal.
//!
//! The clock of a cloud says how fast time passes for its instances ([`ClockSetting`]).
//!
//! The crate has no I/O, no async, no clock, no source of entropy and no unordered map. It does not know what a stage,
//! a zone or a visible effect stands for.

mod active_effect;
mod adoption;
mod api_limits;
mod as_list;
mod billing;
mod caller_mistakes;
mod checks;
mod clock;
mod cloud_spec;
mod clouds;
mod config;
mod digest;
mod engine;
mod environment;
mod event;
mod fault;
mod fault_index;
mod faults;
mod hasher;
mod journal;
mod latency;
mod leak;
mod operation;
mod outcome;
mod quantile;
mod read_after_write;
mod replay;
mod resource;
mod resource_counts;
mod seed;
mod spec;
mod state;
mod usage;
mod wait_queue;

pub use active_effect::{ActiveEffect, Notice, NoticeEnd};
pub use adoption::{Loss, Previous};
pub use api_limits::{ApiLimits, Calls, NamedCalls};
pub use billing::{Cost, NamedBilling, Spent, Sum};
pub use caller_mistakes::{CallerMistakes, MistakesByCaller, NamedCallerMistakes};
pub use clock::{Clock, ClockRecord, ClockSetting, CloudTime, NamedClock, Rate};
pub use cloud_spec::{CloudSpec, Hardware, Latencies, Model};
pub use config::{Config, NamespaceQuotas, Zone};
pub use engine::Engine;
pub use event::{Event, EventKind, Took};
pub use fault::{Effect, Fault, FaultState, Hit};
pub use journal::{Behind, Cursor, Entry, Journal, Record};
pub use latency::Latency;
pub use leak::Leaked;
pub use operation::{Operation, Request};
pub use outcome::Outcome;
pub use replay::{Difference, Line, Replay};
pub use resource::{Deletion, Due, Resource, StageState, Update, UpdateSpec, UpdateState};
pub use resource_counts::ResourceCounts;
pub use seed::Seed;
pub use spec::{ResourceSpec, StageSpec};
pub use state::{NamedCloud, Reserved, State, StateError};
pub use usage::{CapacityUsage, Footprint};
pub use wait_queue::Waiter;
