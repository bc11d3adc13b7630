//! Worlds: the whole product in one process on simulated time, each made by a seed.
//!
//! ```text
//!  seed ─▶ Scenario: steps and trouble ─▶ World ─▶ the auditor looks after every step ─▶ Ok or a Violation
//!
//!           stand-in for Cluster API ──▶ management API ◀── troubled connections ── managers (one leads)
//!                     │                        ▲                                        │
//!                     │                     auditor                                     ▼
//!                     └──▶ workload API servers, in this process ◀────────────── simulated cloud
//! ```
//!
//! Time is Tokio's, paused: it jumps to whatever is due next, so that minutes take milliseconds. Everything that goes
//! wrong is drawn from the seed, by what it happens to (which process, which request to which object, the how manieth)
//! and not by when it happens. The order in which tasks of one instant run follows from the seed too, where a world has a
//! process of its own, as the binary runs it: what the product asks the operating system for (keys of hash maps, branches of
//! `select!`) is drawn from the seed there. In a test that calls [`run`], that order is free.
//!
//! The auditor knows what any client of the management API and of the workload clusters can see, and who has sent what.
//! It must not know the insides of the product.

pub mod audit;
mod connection;
mod hub;
mod moves;
mod process;
pub mod scenario;
mod settled;
mod shrink;
mod sight;
mod time;
mod world;

pub use audit::Violation;
pub use scenario::{Scenario, Scope, Step};
pub use shrink::shrink;
pub use world::{Summary, run};
