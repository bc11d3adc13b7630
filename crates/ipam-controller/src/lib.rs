//! Reconcilers of address pools and of the claims on them: Cluster API's IPAM contract, with the kinds of the
//! in-cluster IPAM provider.
//!
//! ```text
//!  IPAddressClaim ─▶ fetch ▶ plan ▶ act ▶ report             (crate::claim, in the order of crate::claim_queue)
//!                              │ ask   ▲ call
//!                              ▼       │
//!  pools ─watch─▶ Pool: Allocations ◀─ PoolTask: choose ▶ write the pool ▶ call   (crate::pool, a task per pool)
//!                              ▲
//!  IPAddress ─watch────────────┘                            (crate::address)
//! ```
//!
//! The pool's `Allocations` decide which address a claim gets: plain data without a client. The claim is told once the
//! status of the pool names the address. That write is the guard against duplicates: see `pool/task.rs`. All that has to
//! outlive the process is in objects: IPAddresses, pending allocations in the status of a pool, and, for an address that
//! is held back, the deletion timestamp of its IPAddress.
//!
//! What it must not know: the simulated cloud and who makes claims.

mod address;
mod claim;
mod claim_queue;
mod context;
mod metrics;
mod overlap;
mod pool;
mod run;
pub mod webhook;

pub use metrics::Metrics;
pub use overlap::OverlapPolicy;
pub use run::{Error, GATE, Settings, run};
