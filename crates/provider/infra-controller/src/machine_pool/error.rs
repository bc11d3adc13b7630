//! Why a pool could not be reconciled.

use nephele_controller::{PatchError, ReconcileError, Retry};
use thiserror::Error;

/// Why a pool could not be reconciled.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// The machines of the pool could not be listed.
    #[error("failed to list the {kind}s of the pool")]
    List {
        kind: &'static str,
        #[source]
        source: kube::Error,
    },
    /// A machine could not be created.
    #[error("failed to create InMemoryMachine {name}")]
    Create {
        name: String,
        #[source]
        source: kube::Error,
    },
    /// An InMemoryMachine with the name of a new machine exists and does not belong to this pool.
    #[error("failed to create InMemoryMachine {name}: it exists and does not belong to this pool")]
    Taken { name: String },
    /// A machine could not be read.
    #[error("failed to read {kind} {name}")]
    Read {
        kind: &'static str,
        name: String,
        #[source]
        source: kube::Error,
    },
    /// A machine could not be deleted.
    #[error("failed to delete a machine of the pool")]
    Delete(#[source] PatchError),
    /// A write to the management API failed.
    #[error("failed to update the InMemoryMachinePool")]
    Patch(#[source] PatchError),
    /// A machine that lost its pool could not be given back to it.
    #[error("failed to make the pool the owner of a machine again")]
    Own(#[source] PatchError),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::List { source, .. } | Self::Create { source, .. } | Self::Read { source, .. } => {
                nephele_controller::kube_category(source)
            }
            Self::Taken { .. } => "name_taken",
            Self::Delete(error) | Self::Patch(error) | Self::Own(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::List { source, .. } | Self::Create { source, .. } | Self::Read { source, .. } => {
                nephele_controller::kube_retry(source)
            }
            Self::Taken { .. } => Retry::BackOff,
            Self::Delete(error) | Self::Patch(error) | Self::Own(error) => error.retry(),
        }
    }
}
