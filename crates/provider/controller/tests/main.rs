//! The tests of the crate from outside, in one program, so that only one program is linked.

mod lease;
mod patch;
mod readable;
mod runner;
mod watch;
