//! `InMemoryMachine`: waits, boots, joins its cluster, is deleted.

mod act;
mod acted;
mod bootstrap;
mod error;
mod fetch;
mod hook;
mod plan;
mod recorded;
mod report;
mod software;
mod validate;

use std::sync::Arc;

use acted::Acted;
pub(crate) use error::Error;
use fetch::Owner;
pub(crate) use hook::waiting;
use jiff::Timestamp;
use kube::ResourceExt as _;
use nephele_api::infrastructure::v1beta2::{InMemoryMachine, InMemoryMachineStatus};
use nephele_controller::Outcome;
use plan::{Answered, Decision, Plan};
pub(crate) use recorded::{cloud, has_begun, zone};
use validate::Wanted;
pub(crate) use validate::{allocation, hardware, in_cloud};

use crate::{context::Context, finalizer::Finalizer, restore_addresses};

/// Brings the simulated machine in line with the InMemoryMachine, and reports its status.
pub(crate) async fn reconcile(object: Arc<InMemoryMachine>, context: Arc<Context>) -> Result<Outcome, Error> {
    let now = context.now();
    // 0. A machine that began elsewhere keeps its room, whatever is decided.
    restore_addresses::machine(&context, &object);
    // 1. fetch: from the caches and the cloud; addresses from the API.
    let owner = fetch::owner(&object, &context).await?;
    follow(&object, &context, &owner);
    let fetched = fetch::fetch(&object, &context, owner).await?;
    // 2. validate: pure.
    let validated = validate::validate(&object, fetched);
    // 3. plan: pure. If extensions have to be asked, their answer decides.
    let plan = plan::first(&object, validated);
    let object = match plan.finalizer() {
        Finalizer::Added => act::hold(object, &context).await?,
        Finalizer::Kept | Finalizer::AddedWithSpec | Finalizer::Released => object,
    };
    let (decision, failed) = match plan {
        Plan::Decided(decision) => (decision, None),
        Plan::Ask(wanted) => ask(&object, &context, *wanted).await,
    };
    // 4. act: the cloud, then the spec.
    let (object, acted) = act::act(object, &context, decision, now).await?;
    // 5. report: one status patch, or none.
    if let Some(status) = status(&object, &acted, now) {
        report::write(&*object, &context, status)
            .await
            .map_err(Error::Patch)?;
    }
    // 6. when to reconcile again.
    let outcome = acted.outcome()?;
    failed.map_or(Ok(outcome), Err)
}

/// From here on, changes of its cluster trigger a reconcile of the machine. So this comes before anything of the cluster is
/// read.
fn follow(object: &InMemoryMachine, context: &Context, owner: &Owner) {
    if let Some(id) = &owner.cluster {
        context.machine_index.note(id, &object.name_any());
    }
}

/// Calls the extensions, and decides by their answer. A call that fails is an error, once it is reported.
async fn ask(object: &InMemoryMachine, context: &Context, wanted: Wanted) -> (Decision, Option<Error>) {
    match hook::before_create(object, context, &wanted.spec).await {
        Ok(answer) => (plan::answered(wanted, Answered::Said(answer)), None),
        Err(error) => {
            let answer = Answered::Failed(nephele_controller::chain(&error));
            (plan::answered(wanted, answer), Some(Error::Hook(error)))
        }
    }
}

/// The status that follows from what was done; none if there is nothing to report. Pure.
fn status(object: &InMemoryMachine, acted: &Acted, now: Timestamp) -> Option<InMemoryMachineStatus> {
    match acted {
        Acted::Left(_) => None,
        Acted::Rested { message, .. } => Some(report::resting(object, message, now)),
        Acted::Unpaused => Some(report::unpaused(object, now)),
        Acted::Waited { waiting, role } => Some(report::waiting(object, waiting, *role, now)),
        Acted::Provided(applied) => report::provided(object, applied, now),
        Acted::Terminated { role, .. } => Some(report::terminated(object, *role, now)),
        Acted::Deleting { message, .. } => Some(report::deleting(object, message, now)),
    }
}
