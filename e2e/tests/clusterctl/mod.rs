//! What users do with clusterctl, on management clusters that belong to the tests: each is a real API server with
//! unmodified Cluster API, started for its test and stopped after it.

mod identity;
mod kept;
mod moves;
mod one_namespace;
mod provider;
