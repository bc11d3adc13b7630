//! Why a checkpoint cannot be saved, read or restored.

use std::{error::Error, io, time::Duration};

use thiserror::Error;

/// An error of whatever reaches the manager.
pub(crate) type Cause = Box<dyn Error + Send + Sync>;

/// Why a checkpoint cannot be saved.
#[derive(Debug, Error)]
pub enum SaveError {
    /// A request to the management API failed.
    #[error("failed to {what}")]
    Request {
        /// What the request is for.
        what: String,
        #[source]
        source: kube::Error,
    },
    /// The manager did not answer.
    #[error("failed to read the objects of the workload clusters from the manager")]
    Manager(#[source] Cause),
    /// The manager's answer makes no sense.
    #[error("failed to understand the manager's answer")]
    Answer(#[source] serde_json::Error),
}

/// Why a file is not a checkpoint.
#[derive(Debug, Error)]
pub enum FileError {
    /// It cannot be read or written.
    #[error("failed to read or write the file")]
    Io(#[from] io::Error),
    /// It does not begin as a checkpoint does.
    #[error("it is not a checkpoint: its first line is not {{\"checkpoint\":1,…}}")]
    NotACheckpoint,
    /// Another release wrote it.
    #[error("it is a checkpoint of format {0}; this release reads format 1")]
    Format(u64),
    /// A line is damaged.
    #[error("failed to understand line {number}")]
    Line {
        number: usize,
        #[source]
        source: serde_json::Error,
    },
    /// The last line says how many objects and clusters there are; the file has other numbers.
    #[error("the file is not complete")]
    Incomplete,
}

/// Why a checkpoint cannot be restored.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The namespaces have objects that the restoration would delete.
    #[error("the namespaces of the checkpoint have {objects} objects, among them {}", listed(.clusters))]
    Occupied {
        objects: usize,
        /// The names of the Clusters.
        clusters: Vec<String>,
    },
    /// The management cluster lacks a kind.
    #[error("the management cluster has no {kind} of {api_version}")]
    Kind { api_version: String, kind: String },
    /// The management API would refuse an object: it was asked before anything was removed.
    #[error("the management API would not create the {object}; nothing was removed")]
    Refused {
        /// Its kind, namespace and name.
        object: String,
        #[source]
        source: kube::Error,
    },
    /// A ClusterClass would be removed that another Cluster uses.
    #[error(
        "the Cluster {cluster} uses the ClusterClass {class}, and is not in a namespace of the checkpoint; nothing was removed"
    )]
    InUse {
        /// Namespace and name of the ClusterClass.
        class: String,
        /// Namespace and name of the Cluster.
        cluster: String,
    },
    /// Something failed after the namespaces were emptied.
    #[error(
        "the restoration stopped with {created} of {objects} objects created, which wait; the checkpoint is whole, and can be \
         restored again"
    )]
    Stopped {
        /// The objects that were created.
        created: usize,
        /// The objects of the checkpoint.
        objects: usize,
        #[source]
        source: Box<RestoreError>,
    },
    /// A request to the management API failed.
    #[error("failed to {what}")]
    Request {
        /// What the request is for.
        what: String,
        #[source]
        source: kube::Error,
    },
    /// The manager did not answer.
    #[error("failed to give the objects of the workload clusters to the manager")]
    Manager(#[source] Cause),
    /// Objects did not go.
    #[error("{left} objects are still there after {waited:?}, such as {example}")]
    Remains {
        left: usize,
        example: String,
        waited: Duration,
        /// Why the last attempt to remove one failed.
        #[source]
        source: Option<kube::Error>,
    },
    /// The manager did not let go of its clusters.
    #[error("the manager still runs workload clusters whose objects are gone after {0:?}")]
    StillRunning(Duration),
    /// The manager did not create a workload cluster again.
    #[error("the manager does not run the workload cluster {cluster} after {waited:?}: {why}")]
    DoesNotRun {
        cluster: String,
        waited: Duration,
        /// What the InMemoryCluster says of itself.
        why: String,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "no Cluster".to_owned()
    } else {
        format!("the Clusters {}", names.join(", "))
    }
}
