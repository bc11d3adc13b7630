//! Reconcilers of address pools and of the claims on them: Cluster API's IPAM contract, with the kinds of the
//! in-cluster IPAM provider.
//!
//! ```text
//!  IPAddressClaim ─▶ fetch ▶ plan ▶ act ▶ report          (crate::claim, many at a time)
//!                               │ ask    ▲ granted
//!                               ▼        │
//!  pools ──watch──▶ Pool: ledger ◀── Keeper: choose ▶ write the pool ▶ tell   (crate::pool, a task per pool)
//!                     ▲
//!  IPAddress ─watch───┘                                   (crate::address)
//! ```
//!
//! Which address a claim gets is decided in the pool's ledger, plain data without a client. It is promised to the claim
//! once the pool's status names it: that write is the guard against duplicates, see [`pool`](crate) `keeper`. All that
//! has to outlive the process is in the objects: IPAddresses, what is pending in a pool's status, and for an address
//! that is held back the time at which the deletion of its IPAddress was asked for.
//!
//! What it must not know: the simulated cloud and who makes claims.

mod address;
mod claim;
mod context;
mod metrics;
mod overlap;
mod pool;
mod run;
pub mod webhook;

pub use metrics::Metrics;
pub use overlap::OverlapPolicy;
pub use run::{Error, GATE, Settings, run};
