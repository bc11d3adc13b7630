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
use act::Removal;
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
    // 1. fetch: from the caches and the cloud.
    let fetched = fetch::fetch(&object, &context);
    // 2. validate: pure.
    let validated = validate::validate(&object, fetched);
    // 3. plan: pure.
    match plan::plan(&object, validated) {
        Plan::Leave(outcome) => Ok(outcome),
        Plan::Pause(message) => {
            report::write(&object, &context, report::paused(&object, &message, now)).await?;
            Ok(Outcome::WaitingOn("unpaused"))
        }
        Plan::Unpause => {
            // The write brings the object back here, and then work begins.
            report::write(&object, &context, report::unpaused(&object, now)).await?;
            Ok(Outcome::Done)
        }
        Plan::Wait { waiting, role } => {
            // While there is time, so that nothing is left to do but boot when the wait is over.
            let held = act::hold(&object, &context).await?;
            let object = held.as_ref().unwrap_or(&*object);
            report::write(object, &context, report::waiting(object, &waiting, role, now)).await?;
            Ok(Outcome::WaitingOn(waiting.reason()))
        }
        Plan::Remove(id) => match act::remove(&object, &context, id.as_ref()).await? {
            Removal::Done => Ok(Outcome::Done),
            Removal::InProgress => {
                report::write(&object, &context, report::deleting(&object, now)).await?;
                Ok(Outcome::WaitingOn("deletion"))
            }
        },
        Plan::Provide(spec) => {
            // 4. act: the cloud, then the spec.
            let applied = act::provide(&object, &context, *spec).await?;
            let object = applied.object.as_ref().unwrap_or(&*object);
            // 5. report: one status patch, or none.
            if let Some(status) = report::provided(object, &applied, now) {
                report::write(object, &context, status).await?;
            }
            // 6. when to look again.
            Ok(applied.outcome())
        }
    }
}
