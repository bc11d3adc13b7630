//! Why the cloud refuses.

use std::time::Duration;

use nephele_engine::{ErrorClass, Rejected};
use nephele_pki::IssueError;
use thiserror::Error;

use crate::identity::{ClusterId, MachineId};

/// Why the cloud cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The metrics are registered already.
    #[error("failed to register the cloud's metrics")]
    Metrics(#[source] prometheus::Error),
}

/// Why a cluster cannot be as asked.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// The port it was published under is another's.
    #[error("failed to listen on port {port}")]
    PortInUse {
        /// The port.
        port: u16,
        /// What the operating system says; none when another cluster has it.
        #[source]
        source: Option<std::io::Error>,
    },
    /// No port of the range is free.
    #[error("failed to find a free port from {first} to {last}")]
    PortsExhausted {
        /// Start of the range.
        first: u16,
        /// End of the range.
        last: u16,
    },
    /// The cluster is not there.
    #[error("failed to find cluster {0}")]
    Unknown(ClusterId),
    /// A certificate could not be issued.
    #[error("failed to issue the cluster's certificates")]
    Issue(#[source] IssueError),
}

impl ClusterError {
    /// What to do about it.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            // A cluster that is being deleted lets go of its port within milliseconds.
            Self::PortInUse { source: None, .. } | Self::Unknown(_) => {
                ErrorClass::RetryAfter(Duration::from_secs(1))
            }
            Self::PortInUse { source: Some(_), .. } | Self::PortsExhausted { .. } => {
                ErrorClass::RetryAfter(Duration::from_secs(5))
            }
            Self::Issue(_) => ErrorClass::WaitForChange,
        }
    }

    /// A word from a fixed set.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::PortInUse { .. } => "PortInUse",
            Self::PortsExhausted { .. } => "PortsExhausted",
            Self::Unknown(_) => "UnknownCluster",
            Self::Issue(_) => "CertificateIssueFailed",
        }
    }
}

/// Why a machine cannot be as asked.
#[derive(Debug, Error)]
pub enum MachineError {
    /// Its cluster is not there (yet).
    #[error("failed to find cluster {0}")]
    UnknownCluster(ClusterId),
    /// The name of a control-plane machine cannot be a server's: clients of its etcd member ask TLS for `etcd-<name>`,
    /// of which no label may have more than 63 characters.
    #[error("failed to name an etcd member etcd-{name}: not a DNS name with labels of at most 63 characters", name = .0.name)]
    Name(MachineId),
    /// The cloud refuses.
    #[error("failed to create the machine")]
    Rejected(#[source] Rejected),
}

impl MachineError {
    /// What to do about it.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::UnknownCluster(_) => ErrorClass::RetryAfter(Duration::from_secs(1)),
            Self::Name(_) => ErrorClass::GiveUp,
            Self::Rejected(rejected) => rejected.class(),
        }
    }

    /// A word from a fixed set.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::UnknownCluster(_) => "UnknownCluster",
            Self::Name(_) => "InvalidName",
            Self::Rejected(rejected) => rejected.category(),
        }
    }
}
