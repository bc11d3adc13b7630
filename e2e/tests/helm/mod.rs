//! The packaged chart, installed into a cluster with Cluster API and without our providers: pods, upgrades and
//! permissions. It is one test, because there is one release. `cargo xtask helm` runs it, on the machine of the pods.

mod chart;
mod notes;
mod permissions;
mod pod;
mod release;
mod volume;
