//! Worlds: the whole product in one process on simulated time, each made from a seed.
//!
//! ```text
//!  seed ─▶ Scenario: steps and trouble ─▶ World ─▶ the auditor checks after every step ─▶ Ok or a Violation
//!
//!           stand-in for Cluster API ──▶ management API ◀── troubled connections ── managers (one leads)
//!                     │                        ▲                                        │
//!                     │                     auditor                                     ▼
//!                     └──▶ workload API servers, in this process ◀────────────── simulated cloud
//! ```
//!
//! Time is Tokio's paused time: it jumps to the next timer, so that minutes take milliseconds. Every failure is drawn
//! from the seed and its target (which process, which request to which object, and how many such requests came before),
//! and not from the time. The binary runs each world in a process of its own. There the order of tasks at one instant
//! follows from the seed too, because all randomness of the operating system (keys of hash maps, branches of `select!`)
//! is drawn from the seed. In a test that calls [`run`], that order is free.
//!
//! The auditor sees everything that a client of the management API and of the workload clusters can see, and the
//! requests of each manager. It must not know the internals of the product.

pub mod audit;
mod book;
mod connection;
mod fault;
mod hub;
mod library;
pub mod memory;
mod moves;
mod neighbours;
mod owners;
mod prepared;
mod process;
mod quiet;
mod restarts;
mod rewind;
pub mod scenario;
mod script;
mod settled;
mod shrink;
mod sight;
pub mod story;
mod time;
mod world;

pub use audit::Violation;
pub use book::book;
pub use library::library;
pub use neighbours::neighbours;
pub use prepared::Prepared;
pub use restarts::restarts;
pub use rewind::rewind;
pub use scenario::{Scenario, Scope, Step};
pub use shrink::shrink;
pub use world::{Summary, run};
