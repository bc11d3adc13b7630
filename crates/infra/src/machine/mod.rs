//! `InMemoryMachine`: waits its turn, boots, joins, goes.

mod act;
mod fetch;
mod hook;
mod plan;
mod report;
mod software;
mod terminated;
mod validate;

use std::sync::Arc;

use nephele_api::infrastructure::v1beta2::InMemoryMachine;
use nephele_kit::{Outcome, PatchError, ReconcileError, Retry};
use thiserror::Error;

use crate::claims::{self, Made};
use crate::context::Context;
use crate::hooks::HookError;
use act::Removal;
use hook::Begin;
pub(crate) use hook::waiting;
use plan::{Plan, Waiting};
pub(crate) use validate::allocation;

/// Why a machine could not be reconciled.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// A write to the management API failed.
    #[error("failed to update the InMemoryMachine")]
    Patch(#[source] PatchError),
    /// Addresses could not be claimed or released.
    #[error("failed to deal with the machine's addresses")]
    Claims(#[source] claims::Error),
    /// An object could not be read.
    #[error("failed to read {kind} {name}")]
    Read {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// Somebody has a say in it, and could not be asked or failed.
    #[error("failed to ask who has a say in the machine")]
    Hook(#[source] HookError),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Patch(error) => error.category(),
            Self::Claims(error) => error.category(),
            Self::Read { source, .. } => nephele_kit::kube_category(source),
            Self::Hook(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Patch(error) => error.retry(),
            Self::Claims(error) => error.retry(),
            Self::Read { source, .. } => nephele_kit::kube_retry(source),
            Self::Hook(error) => error.retry(),
        }
    }
}

/// Brings the simulated machine to what the object says, and says how it is.
pub(crate) async fn reconcile(object: Arc<InMemoryMachine>, context: Arc<Context>) -> Result<Outcome, Error> {
    let now = context.now();
    // 1. fetch: from the caches and the cloud; addresses from the API.
    let fetched = fetch::fetch(&object, &context).await?;
    // 2. validate: pure.
    let validated = validate::validate(&object, fetched);
    if let Some(terminated) = terminated::terminated(&object, &validated) {
        return terminated::reconcile(&object, &context, terminated, now).await;
    }
    // 3. plan: pure.
    match plan::plan(&object, validated) {
        Plan::Leave(outcome) => Ok(outcome),
        Plan::Pause { message, kept } => {
            report::write(&*object, &context, report::paused(&*object, &message, now))
                .await
                .map_err(Error::Patch)?;
            Ok(kept.map_or(Outcome::WaitingOn("unpaused"), |spec| act::keep(&context, *spec)))
        }
        Plan::Unpause => {
            // The write brings the object back here, and then work begins.
            report::write(&*object, &context, report::unpaused(&*object, now)).await.map_err(Error::Patch)?;
            Ok(Outcome::Done)
        }
        Plan::Wait { waiting, role, cluster, missing } => {
            // While there is time, so that nothing is left to do but boot when the wait is over.
            let held = act::hold(&object, &context).await?;
            let object = held.as_ref().unwrap_or(&*object);
            claims::own_again(object, &cluster, &context).await.map_err(Error::Claims)?;
            let made = claims::make(object, &cluster, &missing, &context).await.map_err(Error::Claims)?;
            let waiting = if made == Made::NotInstalled { Waiting::Ipam } else { waiting };
            report::write(object, &context, report::waiting(object, &waiting, role, now))
                .await
                .map_err(Error::Patch)?;
            Ok(waiting.outcome())
        }
        Plan::Remove(id) => match act::remove(&object, &context, id.as_ref()).await? {
            Removal::Done => Ok(Outcome::Done),
            Removal::InProgress => {
                let message = "Waiting for the simulated machine to be gone";
                report::write(&*object, &context, report::deleting(&*object, message, now))
                    .await
                    .map_err(Error::Patch)?;
                Ok(Outcome::WaitingOn("deletion"))
            }
            Removal::Releasing(left) => {
                let message = claims::release_message(&left);
                report::write(&*object, &context, report::deleting(&*object, &message, now))
                    .await
                    .map_err(Error::Patch)?;
                Ok(Outcome::After(claims::RELEASE))
            }
            Removal::HeldUp { after, message } => {
                report::write(&*object, &context, report::deleting(&*object, &message, now))
                    .await
                    .map_err(Error::Patch)?;
                Ok(Outcome::After(after))
            }
            Removal::FailedHook(error) => {
                let message = nephele_kit::chain(&error);
                report::write(&*object, &context, report::deleting(&*object, &message, now))
                    .await
                    .map_err(Error::Patch)?;
                Err(Error::Hook(error))
            }
        },
        Plan::Provide { spec, claimed, begins } => {
            let begin = match begins {
                true => hook::before_create(&object, &context, &spec, now).await?,
                false => Begin::Now(None),
            };
            let held = match begin {
                Begin::Now(held) => held,
                Begin::Later(outcome) => return Ok(outcome),
            };
            let object = held.as_deref().unwrap_or(&*object);
            // 4. act: the cloud, then the spec.
            let cluster = &spec.id.cluster.name;
            claims::own_again(object, cluster, &context).await.map_err(Error::Claims)?;
            let applied = act::provide(object, &context, *spec, claimed).await?;
            let object = applied.object.as_ref().unwrap_or(object);
            // 5. report: one status patch, or none.
            if let Some(status) = report::provided(object, &applied, now) {
                report::write(object, &context, status).await.map_err(Error::Patch)?;
            }
            // 6. when to look again.
            Ok(applied.outcome())
        }
    }
}
