//! `InMemoryMachinePool`: creates as many InMemoryMachines as its MachinePool wants, and deletes surplus and outdated
//! ones. `crate::machine` reconciles the InMemoryMachines; Cluster API finds them by their labels and creates a Machine
//! for each.

mod act;
mod acted;
mod error;
mod fetch;
mod members;
mod names;
mod plan;
mod report;
mod validate;

use std::sync::Arc;

use acted::Acted;
pub(crate) use error::Error;
use fetch::Source;
use jiff::Timestamp;
pub(crate) use members::pool_of;
use nephele_api::infrastructure::v1beta2::{InMemoryMachinePool, InMemoryMachinePoolStatus};
use nephele_controller::Outcome;
use plan::{Decision, Plan};

use crate::context::Context;

/// Brings the machines of the pool in line with the InMemoryMachinePool and its MachinePool, and reports their status.
pub(crate) async fn reconcile(
    object: Arc<InMemoryMachinePool>,
    context: Arc<Context>,
) -> Result<Outcome, Error> {
    let now = context.now();
    // 1. fetch: from the caches.
    let fetched = fetch::fetch(&object, &context, Source::Caches).await?;
    // 2. validate: pure.
    let (validated, members) = validate::validate(&object, fetched);
    // 3. plan: pure. If machines come or go, what the API has decides.
    let decision = match plan::first(&object, validated, members) {
        Plan::Decided(decision) => decision,
        Plan::Ask => ask(&object, &context).await?,
    };
    // 4. act: machines, then the spec.
    let (object, acted) = act::act(object, &context, decision).await?;
    // 5. report: one status patch, or none.
    if let Some(status) = status(&object, &acted, now) {
        report::write(&*object, &context, status)
            .await
            .map_err(Error::Patch)?;
    }
    // 6. when to reconcile again.
    Ok(acted.outcome())
}

/// Reads the machines from the API, and decides by them.
async fn ask(object: &InMemoryMachinePool, context: &Context) -> Result<Decision, Error> {
    let fetched = fetch::fetch(object, context, Source::Api).await?;
    let (validated, members) = validate::validate(object, fetched);
    Ok(plan::answered(object, validated, members))
}

/// The status that follows from what was done; none if there is nothing to report. Pure.
fn status(object: &InMemoryMachinePool, acted: &Acted, now: Timestamp) -> Option<InMemoryMachinePoolStatus> {
    match acted {
        Acted::Left(_) => None,
        Acted::Rested(message) => Some(report::resting(object, message, now)),
        Acted::Unpaused => Some(report::unpaused(object, now)),
        Acted::Scaled {
            scale,
            expected_capacity,
        } => Some(report::scaled(object, scale, expected_capacity, now)),
        Acted::Deleting { left } => Some(report::deleting(object, *left, now)),
    }
}
