//! Reconcilers of address pools and of the claims on them: Cluster API's IPAM contract, with the kinds of the
//! in-cluster IPAM provider.
//!
//! ```text
//!  IPAddressClaim ─▶ fetch ▶ plan ▶ act ▶ report             (crate::claim, in the order of crate::claim_queue)
//!                              │ ask   ▲ wake
//!                              ▼       │
//!  pools ─watch─▶ Pool: Allocations ◀─ PoolTask: choose ▶ write the pool ▶ wake   (crate::pool, a task per pool)
//!                              ▲      ▲
//!  IPAddress ─watch────────────┘      └── Faults ◀─watch─ Fault   (crate::address, crate::fault)
//! ```
//!
//! The pool's `Allocations`, plain data without a client, decide which address a claim gets. The IPAddress is created
//! only after the address was written to the status of the pool. That write prevents duplicates: see `pool/task.rs`.
//! All state that has to outlive the process is in objects: IPAddresses, pending allocations in the status of a pool,
//! and, for an address that is held back, the deletion timestamp of its IPAddress.
//!
//! The crate depends neither on the simulated cloud nor on the creators of claims. Of the engine it uses only the values that
//! say how often a Fault hits.

mod address;
mod claim;
mod claim_queue;
mod context;
mod fault;
mod metrics;
mod overlap;
mod owner;
mod pool;
mod preview;
mod run;
pub mod webhook;

pub use fault::Moment;
pub use metrics::Metrics;
pub use overlap::OverlapPolicy;
pub use preview::{Objects, Preview, preview};
pub use run::{Error, GATE, Settings, run};
