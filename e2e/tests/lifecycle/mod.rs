//! What clusters do in their lives, with unmodified Cluster API. The tests run side by side, each in a namespace of
//! its own, which is removed at the end together with a check that nothing is left of the clusters in it.

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
