//! Why a cluster could not be reconciled.

use nephele_controller::{PatchError, ReconcileError, Retry};
use thiserror::Error;

use crate::claims;

/// Why a cluster could not be reconciled.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// A Secret could not be read.
    #[error("failed to read Secret {name}")]
    Secret {
        name: String,
        #[source]
        source: kube::Error,
    },
    /// A write to the management API failed.
    #[error("failed to update the InMemoryCluster")]
    Patch(#[source] PatchError),
    /// The load balancer's address could not be claimed or released.
    #[error("failed to claim or release the load balancer's address")]
    Claims(#[source] claims::Error),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Secret { source, .. } => nephele_controller::kube_category(source),
            Self::Patch(error) => error.category(),
            Self::Claims(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Secret { source, .. } => nephele_controller::kube_retry(source),
            Self::Patch(error) => error.retry(),
            Self::Claims(error) => error.retry(),
        }
    }
}
