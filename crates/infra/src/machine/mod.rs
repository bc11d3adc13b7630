//! `InMemoryMachine`: waits its turn, boots, joins, goes.

mod act;
mod fetch;
mod plan;
mod report;
mod validate;

use std::sync::Arc;

use nephele_api::infrastructure::v1beta2::InMemoryMachine;
use nephele_kit::{Outcome, PatchError, ReconcileError, Retry};
use thiserror::Error;

use crate::context::Context;
use plan::Plan;

/// Why a machine could not be reconciled.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// A write to the management API failed.
    #[error("failed to update the InMemoryMachine")]
    Patch(#[source] PatchError),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        let Self::Patch(error) = self;
        error.category()
    }

    fn retry(&self) -> Retry {
        let Self::Patch(error) = self;
        error.retry()
    }
}

/// Brings the simulated machine to what the object says, and says how it is.
pub(crate) async fn reconcile(object: Arc<InMemoryMachine>, context: Arc<Context>) -> Result<Outcome, Error> {
    let now = context.now();
    // From the caches and the cloud.
    let fetched = fetch::fetch(&object, &context);
    // Pure.
    let validated = validate::validate(&object, fetched);
    // Pure.
    let plan = plan::plan(&object, validated);
    match plan {
        Plan::Leave(outcome) => Ok(outcome),
        Plan::Pause(message) => {
            report::paused(&object, &context, &message, now).await.map_err(Error::Patch)?;
            Ok(Outcome::WaitingOn("unpaused"))
        }
        Plan::Wait(waiting) => {
            report::waiting(&object, &context, &waiting, now).await.map_err(Error::Patch)?;
            Ok(Outcome::WaitingOn(waiting.reason()))
        }
        Plan::Remove(id) => act::remove(&object, &context, id.as_ref()).await.map_err(Error::Patch),
        Plan::Provide(spec) => {
            // Writes.
            let applied = act::provide(&object, &context, spec).await.map_err(Error::Patch)?;
            // One status patch, or none.
            report::provided(&object, &context, &applied, now).await.map_err(Error::Patch)?;
            Ok(applied.outcome())
        }
    }
}
