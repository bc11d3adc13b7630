//! Why claims could not be created, read or released.

use nephele_controller::{PatchError, ReconcileError, Retry};
use thiserror::Error;

/// Why claims could not be created, read or released.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// A claim or an IPAddress could not be read.
    #[error("failed to read {kind} {name}")]
    Read {
        /// The kind of the object.
        kind: &'static str,
        name: String,
        #[source]
        source: kube::Error,
    },
    /// A claim could not be created.
    #[error("failed to create IPAddressClaim {name}")]
    Create {
        name: String,
        #[source]
        source: kube::Error,
    },
    /// The owner of a claim could not be restored.
    #[error("failed to restore the owner of an IPAddressClaim")]
    Own(#[source] PatchError),
    /// A claim could not be released.
    #[error("failed to delete an IPAddressClaim")]
    Delete(#[source] PatchError),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Read { source, .. } | Self::Create { source, .. } => {
                nephele_controller::kube_category(source)
            }
            Self::Own(error) | Self::Delete(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Read { source, .. } | Self::Create { source, .. } => nephele_controller::kube_retry(source),
            Self::Own(error) | Self::Delete(error) => error.retry(),
        }
    }
}
