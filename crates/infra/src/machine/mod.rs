//! `InMemoryMachine`: waits, boots, joins its cluster, is deleted.

mod act;
mod bootstrap;
mod fetch;
mod hook;
mod plan;
mod report;
mod software;
mod validate;

use std::sync::Arc;

use kube::ResourceExt as _;
use nephele_api::infrastructure::v1beta2::InMemoryMachine;
use nephele_cloud::{Deletion, MachineError, MachineId};
use nephele_kit::{Outcome, PatchError, ReconcileError, Retry};
use thiserror::Error;

use crate::claims::{self, Made};
use crate::context::Context;
use crate::finalizer::{Finalizer, Removal};
use crate::hooks::{Answer, HookError};
use crate::refusal::retry;
use crate::reserve;
use fetch::Owner;
pub(crate) use hook::waiting;
use plan::{Answered, Plan, Waiting};
use validate::Validated;
pub(crate) use validate::{allocation, cloud, hardware, has_begun, market, zone};

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
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The cause.
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

/// Brings the simulated machine in line with the InMemoryMachine, and reports its status.
pub(crate) async fn reconcile(object: Arc<InMemoryMachine>, context: Arc<Context>) -> Result<Outcome, Error> {
    let now = context.now();
    // 0. A machine that began elsewhere keeps its room, whatever is decided.
    reserve::machine(&context, &object);
    // 1. fetch: from the caches and the cloud; addresses from the API.
    let owner = fetch::owner(&object, &context).await?;
    follow(&object, &context, &owner);
    let fetched = fetch::fetch(&object, &context, owner).await?;
    // 2. validate: pure.
    let validated = validate::validate(&object, fetched);
    // 3. plan: pure. When the plan needs the answer of extensions, they are called, and then the plan is made again.
    let (mut object, mut failed) = (object, None);
    let plan = plan::plan(&object, validated, None);
    if plan.finalizer() == Finalizer::Added
        && let Some(held) = act::hold(&object, &context).await?
    {
        object = Arc::new(held);
    }
    let plan = match plan {
        Plan::Ask(wanted) => {
            let answer = match hook::before_create(&object, &context, &wanted.spec).await {
                Ok(answer) => Answered::Said(answer),
                Err(error) => {
                    let message = nephele_kit::chain(&error);
                    failed = Some(Error::Hook(error));
                    Answered::Failed(message)
                }
            };
            plan::plan(&object, Validated::Wanted(wanted), Some(&answer))
        }
        plan => plan,
    };
    match plan {
        Plan::Leave(outcome) => Ok(outcome),
        Plan::Pause { message, kept } => {
            report::write(&*object, &context, report::resting(&*object, &message, now))
                .await
                .map_err(Error::Patch)?;
            Ok(kept.map_or(Outcome::WaitingOn("unpaused"), |spec| act::keep(&object, &context, *spec)))
        }
        Plan::Unpause => {
            // This write triggers the next reconcile, which does the work.
            report::write(&*object, &context, report::unpaused(&*object, now)).await.map_err(Error::Patch)?;
            Ok(Outcome::Done)
        }
        Plan::Wait { waiting, role, cluster, missing } => {
            // Add the claims during the wait, so that the machine can boot as soon as the wait is over.
            claims::own_again(&*object, &cluster, &context).await.map_err(Error::Claims)?;
            let made = claims::make(&*object, &cluster, &missing, &context).await.map_err(Error::Claims)?;
            let waiting = if made == Made::NotInstalled { Waiting::Ipam } else { waiting };
            report::write(&*object, &context, report::waiting(&object, &waiting, role, now))
                .await
                .map_err(Error::Patch)?;
            failed.map_or_else(|| Ok(waiting.outcome()), Err)
        }
        Plan::Remove(id) => {
            // Boxed, as futures of rare plans should not make all of them larger.
            let removal = Box::pin(act::remove(&object, &context, id.as_ref())).await?;
            Box::pin(removed(&object, &context, id.as_ref(), removal)).await
        }
        Plan::ResumeRemoval(spec) => {
            let id = spec.id.clone();
            let removal = Box::pin(act::resume_removal(&object, &context, *spec)).await?;
            Box::pin(removed(&object, &context, Some(&id), removal)).await
        }
        Plan::Terminate { spec, noted } => {
            let role = spec.role;
            let terminated = Box::pin(act::terminate(&object, &context, *spec, noted, now));
            let (written, deletion) = terminated.await?;
            let object = written.as_ref().unwrap_or(&*object);
            report::write(object, &context, report::terminated(object, role, now))
                .await
                .map_err(Error::Patch)?;
            Ok(match deletion {
                Ok(Deletion::Gone) => Outcome::Done,
                Ok(Deletion::InProgress { .. }) => Outcome::WaitingOn("deletion"),
                Err(error) => retry(error.class()),
            })
        }
        // Does not happen: the extensions were called, and the plan was made again.
        Plan::Ask(_) => Ok(Outcome::WaitingOn("answer")),
        Plan::Provide { mut spec, claimed } => {
            if let Some(kubeadm) = Box::pin(bootstrap::read(&object, &spec, &context)).await? {
                spec.kubeadm = Some(kubeadm);
            }
            // 4. act: the cloud, then the spec.
            let cluster = &spec.id.cluster.name;
            claims::own_again(&*object, cluster, &context).await.map_err(Error::Claims)?;
            let applied = act::provide(&object, &context, *spec, claimed).await?;
            let object = applied.object.as_ref().unwrap_or(&*object);
            // 5. report: one status patch, or none.
            if let Some(status) = report::provided(object, &applied, now) {
                report::write(object, &context, status).await.map_err(Error::Patch)?;
            }
            // 6. when to reconcile again.
            Ok(applied.outcome())
        }
    }
}

/// From here on, changes of its cluster trigger a reconcile of the machine. So this comes before anything of the cluster is
/// read.
fn follow(object: &InMemoryMachine, context: &Context, owner: &Owner) {
    if let Some(id) = &owner.cluster {
        context.known_machines.note(id, &object.name_any());
    }
}

/// Reports how far a deletion is, and lets the object go when nothing is left.
async fn removed(
    object: &InMemoryMachine,
    context: &Context,
    id: Option<&MachineId>,
    removal: Removal<MachineError>,
) -> Result<Outcome, Error> {
    let (message, outcome) = match removal {
        Removal::InProgress => {
            let message = "Waiting for the deletion of the simulated machine".to_owned();
            (message, Ok(Outcome::WaitingOn("deletion")))
        }
        Removal::Refused(error) => (nephele_kit::chain(&error), Ok(retry(error.class()))),
        Removal::Releasing(left) => (claims::release_message(&left), Ok(Outcome::After(claims::RELEASE))),
        Removal::Done => match hook::after_delete(object, context, id).await {
            Ok(Answer::GoOn) => {
                act::let_go(object, context).await?;
                return Ok(Outcome::Done);
            }
            Ok(Answer::Wait { after, message }) => {
                act::note_end(object, context).await?;
                (message, Ok(Outcome::After(after)))
            }
            Err(error) => (nephele_kit::chain(&error), Err(Error::Hook(error))),
        },
    };
    report::write(object, context, report::deleting(object, &message, context.now()))
        .await
        .map_err(Error::Patch)?;
    outcome
}
