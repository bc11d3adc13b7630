//! Pools: the allocations and the task of each pool, and the registry of all pools.

mod allocations;
mod follow;
mod key;
mod kinds;
mod ranges;
mod registry;
mod remaining;
mod report;
mod state;
mod task;

pub(crate) use allocations::{Allocation, Answer, Request, Troubles};
pub(crate) use follow::follow;
pub(crate) use key::PoolKey;
pub(crate) use kinds::{PoolObject, PoolSpec};
pub(crate) use ranges::{Block, Grant, PoolRanges, address_spec, prefix_spec};
pub(crate) use registry::Pools;
pub(crate) use remaining::remaining;
pub(crate) use state::{Facts, Pool};
pub(crate) use task::PoolTask;
