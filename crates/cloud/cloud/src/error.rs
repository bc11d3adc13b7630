//! Errors of the cloud.

use std::time::Duration;

use jiff::Timestamp;
use nephele_apiserver::RestoreError;
use nephele_model::{CloudError, ClusterId, ErrorClass, MachineId};
use nephele_pki::IssueError;
use nephele_state::{OpenError, ReadError};
use thiserror::Error;

/// Why the cloud cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The metrics are already registered.
    #[error("failed to register the cloud's metrics")]
    Metrics(#[source] prometheus::Error),
    /// The state directory cannot be used.
    #[error("failed to use the state directory")]
    State(#[source] OpenError),
}

/// Why the cloud did not carry out a call.
#[derive(Debug, Error)]
pub enum CallError {
    /// The cloud refuses.
    #[error("the cloud refused {verb}")]
    Refused {
        /// The name of the call, such as `CreateInstance`.
        verb: &'static str,
        #[source]
        source: CloudError,
    },
    /// The cloud did nothing yet.
    #[error("the cloud delays {verb} until {until}")]
    Delayed {
        /// The name of the call.
        verb: &'static str,
        until: Timestamp,
        /// The time from the request until then.
        after: Duration,
    },
}

impl CallError {
    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Refused { source, .. } => source.class(),
            Self::Delayed { after, .. } => ErrorClass::RetryAfter(*after),
        }
    }

    /// A word from a fixed set.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Refused { source, .. } => source.category(),
            Self::Delayed { .. } => "RequestDelayed",
        }
    }
}

/// Why a cluster cannot be created or changed.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// The cloud did not carry out the call.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The cluster's published port is in use.
    #[error("failed to listen on port {port}")]
    PortInUse {
        port: u16,
        /// The error of the operating system. None if a cluster that is being deleted has not released the port yet.
        #[source]
        source: Option<std::io::Error>,
    },
    /// The cluster's published port belongs to a cluster that was published under it before.
    #[error("failed to listen on port {port}: it belongs to {}", named(owner.as_ref()))]
    PortReserved {
        port: u16,
        /// The cluster that has the port; none when it is in another namespace.
        owner: Option<ClusterId>,
    },
    /// The cluster's published port belongs to a leaked load balancer.
    #[error("failed to listen on port {port}: it belongs to the leaked load balancer of {}", named(cluster.as_ref()))]
    PortLeaked {
        port: u16,
        /// The cluster that the load balancer was for; none when it is in another namespace.
        cluster: Option<ClusterId>,
    },
    /// The cluster's published port is neither in the range nor one of those from which clusters move.
    #[error(
        "failed to listen on port {port}: this manager does not serve it (--workload-ports, --moved-ports)"
    )]
    PortOutside { port: u16 },
    /// A listener could not be opened, whatever the port.
    #[error("failed to listen on port {port}")]
    Listen {
        /// The port that was tried.
        port: u16,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The namespace has as many clusters as it may have.
    #[error(
        "failed to find a port: the namespace has {most} clusters, the most that it may have \
             (--max-clusters-per-namespace)"
    )]
    ClustersMax {
        /// The most clusters of a namespace.
        most: usize,
    },
    /// The ports of clusters from before a restart are not known yet, so no new port can be chosen.
    #[error("failed to choose a port before the ports of all clusters are known")]
    PortsUnknown,
    /// No port of the range is free.
    #[error("failed to find a free port from {first} to {last}")]
    PortsExhausted { first: u16, last: u16 },
    /// The cluster does not exist.
    #[error("failed to find cluster {0}")]
    Unknown(ClusterId),
    /// A certificate could not be issued.
    #[error("failed to issue the cluster's certificates")]
    Issue(#[source] IssueError),
    /// The kept objects cannot be read.
    #[error("failed to read the cluster's objects from the state file")]
    State(#[source] ReadError),
    /// The kept objects are damaged.
    #[error("failed to restore the cluster's objects: the state file is damaged or from another program")]
    Restore(#[source] RestoreError),
    /// A kept record is not an object.
    #[error("failed to read a record of the cluster's objects: {:?}", String::from_utf8_lossy(.0))]
    Record(Vec<u8>),
}

impl ClusterError {
    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Call(error) => error.class(),
            // A cluster that is being deleted releases its port within milliseconds.
            Self::PortInUse { source: None, .. } | Self::PortsUnknown | Self::Unknown(_) => {
                ErrorClass::RetryAfter(Duration::from_secs(1))
            }
            Self::PortInUse { source: Some(_), .. }
            | Self::PortReserved { .. }
            | Self::PortLeaked { .. }
            | Self::Listen { .. }
            | Self::PortsExhausted { .. }
            | Self::ClustersMax { .. }
            | Self::State(_) => ErrorClass::RetryAfter(Duration::from_secs(5)),
            Self::PortOutside { .. } | Self::Issue(_) | Self::Restore(_) | Self::Record(_) => {
                ErrorClass::WaitForChange
            }
        }
    }

    /// A word from a fixed set.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Call(error) => error.category(),
            Self::PortInUse { .. } | Self::PortReserved { .. } | Self::PortLeaked { .. } => "PortInUse",
            Self::Listen { .. } => "ListenFailed",
            Self::PortsUnknown => "PortsUnknown",
            Self::PortsExhausted { .. } => "PortsExhausted",
            Self::PortOutside { .. } => "PortOutside",
            Self::ClustersMax { .. } => "ClustersMax",
            Self::Unknown(_) => "UnknownCluster",
            Self::Issue(_) => "CertificateIssueFailed",
            Self::State(_) | Self::Restore(_) | Self::Record(_) => "StateUnreadable",
        }
    }
}

/// A cluster in words for the users of one namespace.
fn named(cluster: Option<&ClusterId>) -> String {
    cluster.map_or_else(
        || "a cluster of another namespace".to_owned(),
        |id| format!("cluster {id}"),
    )
}

/// Why a machine cannot be created, changed or read.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The cluster does not exist (yet).
    #[error("failed to find cluster {0}")]
    UnknownCluster(ClusterId),
    /// The name of a control-plane machine does not fit into a server name, because it is no DNS name. Clients of its etcd
    /// member ask TLS for `etcd-<node>`.
    #[error("failed to name an etcd member etcd-{name}: not a DNS name", name = .0.name)]
    Name(MachineId),
    /// The cloud did not carry out the call.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl MachineError {
    /// What the caller should do.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::UnknownCluster(_) => ErrorClass::RetryAfter(Duration::from_secs(1)),
            Self::Name(_) => ErrorClass::GiveUp,
            Self::Call(error) => error.class(),
        }
    }

    /// A word from a fixed set.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::UnknownCluster(_) => "UnknownCluster",
            Self::Name(_) => "InvalidName",
            Self::Call(error) => error.category(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_of_the_cloud_says_what_to_do_and_has_a_reason_of_its_own() {
        let after = Duration::from_secs(7);
        let refused = |source| {
            MachineError::Call(CallError::Refused {
                verb: "DeleteInstance",
                source,
            })
        };
        let delayed = CallError::Delayed {
            verb: "DescribeInstance",
            until: Timestamp::UNIX_EPOCH,
            after,
        };
        let delayed = MachineError::Call(delayed);
        let seen = |error: MachineError| (error.class(), error.category(), error.to_string());
        assert_eq!(
            [
                seen(delayed),
                seen(refused(CloudError::UnknownZone("z".into()))),
                seen(refused(CloudError::InsufficientCapacity("a".into()))),
            ],
            [
                (
                    ErrorClass::RetryAfter(after),
                    "RequestDelayed",
                    "the cloud delays DescribeInstance until 1970-01-01T00:00:00Z".to_owned()
                ),
                (
                    ErrorClass::WaitForChange,
                    "UnknownZone",
                    "the cloud refused DeleteInstance".to_owned()
                ),
                (
                    ErrorClass::WaitForChange,
                    "InsufficientCapacity",
                    "the cloud refused DeleteInstance".to_owned()
                ),
            ]
        );
    }
}
