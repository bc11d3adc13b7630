//! Addresses from pools, as claims, machines and clients of either version get them from a real API server, next to
//! Cluster API's own webhooks. The tests run side by side, each in a namespace of its own.

mod adoption;
mod allocation;
mod deletion;
mod machines;
mod pause;
mod refusals;
mod versions;
mod waiting;
