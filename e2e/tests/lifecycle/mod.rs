//! The lifecycle of clusters with unmodified Cluster API. The tests run in parallel, each in its own namespace. At the
//! end of a test, its namespace is removed after a check that no object of a cluster is left.

mod authorities;
mod available;
pub(crate) mod chapters;
pub(crate) mod cluster_api;
mod deletion;
mod drain;
pub(crate) mod faults;
mod kubectl;
mod machine_pool;
mod metadata;
mod network;
mod pages;
mod pause;
pub(crate) mod remediation;
mod scale;
pub(crate) mod scenarios;
mod seeds;
mod standin;
mod templates;
mod upgrade;
mod versions;
pub(crate) mod zones;
