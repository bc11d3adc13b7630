//! The tests of the crate from outside, in one program, so that only one program is linked.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue says where")]

mod clusters;
mod control_planes;
mod faults;
mod machines;
mod restart;
mod support;
mod tunnels;
mod updates;
