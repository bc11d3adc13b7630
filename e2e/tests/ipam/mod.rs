//! Addresses from pools, as claims, machines and clients of both versions get them from a real API server with Cluster
//! API's own webhooks. The tests run in parallel, each in its own namespace.

mod adoption;
mod allocation;
mod deletion;
mod machines;
mod pause;
mod refusals;
mod versions;
mod waiting;
