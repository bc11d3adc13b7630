//! The tests of the crate from outside, in one program, so that only one program is linked.

mod extension;
mod hostile;
mod recordings;
mod upgrade_plan;
