//! `InMemoryCluster`: its load balancer, its certificates, its failure domains.

mod act;
mod credentials;
mod fetch;
mod plan;
mod report;
mod validate;

use std::sync::Arc;

use nephele_api::infrastructure::v1beta2::InMemoryCluster;
use nephele_cloud::{ClusterError, ErrorClass};
use nephele_kit::{Outcome, PatchError, ReconcileError, Retry};
use thiserror::Error;

use crate::context::Context;
use plan::Plan;

/// Why a cluster could not be reconciled.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// A write to the management API failed.
    #[error("failed to update the InMemoryCluster")]
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

/// Brings the simulated cluster to what the object says, and says how it is.
pub(crate) async fn reconcile(object: Arc<InMemoryCluster>, context: Arc<Context>) -> Result<Outcome, Error> {
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
        Plan::Remove(id) => {
            act::remove(&object, &context, id.as_ref()).await.map_err(Error::Patch)?;
            Ok(Outcome::Done)
        }
        Plan::Provide(provision) => {
            // Writes.
            let applied = act::provide(&object, &context, provision).await.map_err(Error::Patch)?;
            // One status patch, or none.
            report::provided(&object, &context, &applied, now).await.map_err(Error::Patch)?;
            Ok(applied.outcome())
        }
    }
}

/// When to look again after the cloud refused.
pub(crate) fn retry_after(error: &ClusterError) -> Outcome {
    match error.class() {
        ErrorClass::RetryAfter(after) => Outcome::After(after),
        ErrorClass::WaitForChange | ErrorClass::GiveUp => Outcome::WaitingOn("change"),
    }
}
