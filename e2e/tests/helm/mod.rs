//! The packaged chart, installed into a cluster with Cluster API and nothing of the provider's: what pods, upgrades and
//! permissions come to there. One test, since there is one release. `cargo xtask helm` runs it, on the machine where the
//! pods are.

mod chart;
mod permissions;
mod pod;
mod release;
