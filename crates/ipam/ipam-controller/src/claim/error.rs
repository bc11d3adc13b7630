//! Why a reconcile failed.

use nephele_controller::{PatchError, ReconcileError, Retry};

/// Why a claim could not be reconciled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A write to the management API failed.
    #[error("failed to update the claim")]
    Claim(#[source] PatchError),
    /// The IPAddress could not be written.
    #[error("failed to write the IPAddress")]
    Address(#[source] PatchError),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Claim(error) | Self::Address(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Claim(error) | Self::Address(error) => error.retry(),
        }
    }
}
