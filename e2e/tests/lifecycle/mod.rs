//! The lifecycle of clusters, with unmodified Cluster API. The tests run in parallel, each in its own namespace,
//! which is removed at the end after a check that nothing is left of the clusters in it.

mod authorities;
mod available;
mod class;
mod drain;
mod kubectl;
mod machine_pool;
mod metadata;
mod pause;
mod remediation;
mod scale;
mod seeds;
mod templates;
mod upgrade;
mod versions;
mod zones;
