//! The tests of the crate from outside, in one program, so that only one program is linked.

mod address_pool_model;
mod allocation;
mod grammar;
mod prefix_pool_model;
mod sets;
mod validation;
