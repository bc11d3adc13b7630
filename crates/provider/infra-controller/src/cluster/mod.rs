//! `InMemoryCluster`: its load balancer, its certificates, its failure domains.

mod act;
mod acted;
mod backends;
mod credentials;
mod error;
mod fetch;
mod plan;
mod report;
mod validate;

use std::sync::Arc;

pub(crate) use act::abandon;
use acted::Acted;
pub(crate) use error::Error;
use jiff::Timestamp;
use nephele_api::{
    conditions::reasons,
    infrastructure::v1beta2::{InMemoryCluster, InMemoryClusterStatus},
};
use nephele_controller::Outcome;
pub(crate) use validate::spec;

use crate::{claims, context::Context, restore_addresses};

/// Brings the simulated cluster in line with the InMemoryCluster, and reports its status.
pub(crate) async fn reconcile(object: Arc<InMemoryCluster>, context: Arc<Context>) -> Result<Outcome, Error> {
    let now = context.now();
    // 0. The published port stays reserved, whatever is decided.
    restore_addresses::endpoint(&context, &object);
    // 1. fetch: from the caches and the cloud, seldom from the API.
    let fetched = fetch::fetch(&object, &context).await?;
    // 2. validate: pure.
    let validated = validate::validate(&object, fetched);
    // 3. plan: pure.
    let plan = plan::plan(&object, validated);
    // 4. act: the cloud, then the spec.
    let (object, acted) = act::act(object, &context, plan).await?;
    // 5. report: one status patch, or none; and when to reconcile again.
    report(&object, &context, &acted, now).await
}

/// Writes the status, unless nothing but the backends has changed and they were written a moment ago.
async fn report(
    object: &InMemoryCluster,
    context: &Context,
    acted: &Acted,
    now: Timestamp,
) -> Result<Outcome, Error> {
    let Some(status) = status(object, acted, now) else {
        return Ok(acted.outcome());
    };
    if let Acted::Provided { id, applied } = acted {
        if backends::are_all_that_differs(object.status.as_ref(), &status)
            && let Some(wait) = context.backends_written.wait(id, now)
        {
            return Ok(applied.outcome_within(wait));
        }
        let known = object
            .status
            .as_ref()
            .and_then(|known| known.load_balancer.as_ref());
        if known != status.load_balancer.as_ref() {
            context.backends_written.note(id.clone(), now);
        }
    }
    report::write(object, context, status)
        .await
        .map_err(Error::Patch)?;
    Ok(acted.outcome())
}

/// The status that follows from what was done; none if there is nothing to report. Pure.
fn status(object: &InMemoryCluster, acted: &Acted, now: Timestamp) -> Option<InMemoryClusterStatus> {
    Some(match acted {
        Acted::Left(_) => return None,
        Acted::Rested { message, .. } => report::resting(object, message, now),
        Acted::Unpaused => report::unpaused(object, now),
        Acted::Claimed(unmet) => report::waiting(object, unmet.reason(), unmet.message(), now),
        Acted::NotInstalled => {
            let message = claims::NOT_INSTALLED_MESSAGE.to_owned();
            report::waiting(object, reasons::IPAM_NOT_INSTALLED, message, now)
        }
        Acted::WithoutCloud(name) => report::without_cloud(object, name, now),
        Acted::Provided { applied, .. } => report::provided(object, applied, now),
        // A load balancer that is being deleted has no backends in service.
        Acted::Deleting { message, .. } => InMemoryClusterStatus {
            load_balancer: None,
            ..report::deleting(object, message, now)
        },
    })
}
