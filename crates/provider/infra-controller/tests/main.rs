//! The tests of the crate from outside, in one program, so that only one program is linked.

mod backends;
mod bootstrap;
mod capacities;
mod clouds;
mod damage;
mod extension;
mod faults;
mod identity;
mod machine_hooks;
mod machine_pools;
mod moves;
mod pools;
mod preview;
mod reconcile;
mod restarts;
mod unreadable;
mod updates;
mod world;
mod writes;
