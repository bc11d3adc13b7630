//! The tests of the crate from outside, in one program, so that only one program is linked.

mod active_effects;
mod api_limits;
mod capacities;
mod clocks;
mod cloud;
mod costs;
mod duplicates;
mod faults;
#[cfg(debug_assertions)]
mod growth;
mod lags;
mod latencies;
mod leaks;
mod notices;
mod paused;
mod properties;
mod restarts;
mod rules;
mod schedules;
mod took;
