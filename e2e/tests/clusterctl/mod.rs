//! What users do with clusterctl, on management clusters of the tests' own: each is a real API server with unmodified
//! Cluster API, brought up for its test and taken down after it.

mod identity;
mod kept;
mod moves;
mod one_namespace;
mod provider;
