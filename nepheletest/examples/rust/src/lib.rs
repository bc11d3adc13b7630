//! An add-on provider for Cluster API, reduced to what a test of one needs: it publishes the addresses of a cluster's
//! machines in that cluster.

mod controller;
mod kinds;
mod records;

pub use controller::{Error, run};
pub use kinds::{Cluster, Machine};

/// Asks for the add-on when its value on a Cluster is "true".
pub const ENABLED_LABEL: &str = "addons.example.com/dns";
/// On a Cluster: the number of records in it.
pub const RECORDS_ANNOTATION: &str = "addons.example.com/dns-records";
/// The namespace of the ConfigMap with the records in a workload cluster.
pub const RECORDS_NAMESPACE: &str = "kube-system";
/// The name of that ConfigMap.
pub const RECORDS_NAME: &str = "dns-records";
