//! Users' tasks with clusterctl. Each test has its own management clusters: a real API server with unmodified Cluster
//! API, started for the test and stopped after it.

mod identity;
mod kept;
mod moves;
mod one_namespace;
mod provider;
