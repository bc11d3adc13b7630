//! Why a machine could not be reconciled.

use nephele_controller::{PatchError, ReconcileError, Retry};
use thiserror::Error;

use crate::{claims, machine_hooks::HookError};

/// Why a machine could not be reconciled.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// A write to the management API failed.
    #[error("failed to update the InMemoryMachine")]
    Patch(#[source] PatchError),
    /// Addresses could not be claimed or released.
    #[error("failed to claim or release the machine's addresses")]
    Claims(#[source] claims::Error),
    /// An object could not be read.
    #[error("failed to read {kind} {name}")]
    Read {
        kind: &'static str,
        name: String,
        #[source]
        source: kube::Error,
    },
    /// An extension could not be called, or failed.
    #[error("failed to call the extensions for the machine")]
    Hook(#[source] HookError),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Patch(error) => error.category(),
            Self::Claims(error) => error.category(),
            Self::Read { source, .. } => nephele_controller::kube_category(source),
            Self::Hook(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Patch(error) => error.retry(),
            Self::Claims(error) => error.retry(),
            Self::Read { source, .. } => nephele_controller::kube_retry(source),
            Self::Hook(error) => error.retry(),
        }
    }
}
