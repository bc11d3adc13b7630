//! The objects of workload clusters, which the manager has.

use std::{collections::BTreeSet, error::Error, future::Future};

use bytes::Bytes;

/// The manager's `/checkpoint`, however it is reached.
pub trait Workloads {
    /// The error of a request.
    type Error: Into<Box<dyn Error + Send + Sync>>;

    /// The objects of the clusters of a namespace: a line of JSON for each cluster.
    fn read(&self, namespace: &str) -> impl Future<Output = Result<Vec<u8>, Self::Error>> + Send;

    /// The names of the clusters of a namespace that run.
    fn names(&self, namespace: &str) -> impl Future<Output = Result<BTreeSet<String>, Self::Error>> + Send;

    /// Keeps objects for clusters that will be created. False while one of them still exists.
    fn put_back(&self, lines: Bytes) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Forgets the objects of [`Workloads::put_back`], once all clusters are created.
    fn forget(&self) -> impl Future<Output = Result<(), Self::Error>> + Send;
}
