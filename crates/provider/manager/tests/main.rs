//! The tests of the crate from outside, in one program, so that only one program is linked.

mod fetch;
mod hostile_names;
mod leadership;
mod manager;
mod one_namespace;
mod permissions;
mod pools;
mod runtime_extension;
