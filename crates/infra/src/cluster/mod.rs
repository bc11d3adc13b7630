//! `InMemoryCluster`: its load balancer, its certificates, its failure domains.

mod act;
mod backends;
mod credentials;
mod fetch;
mod plan;
mod report;
mod validate;

use std::sync::Arc;

use nephele_api::conditions::reasons;
use nephele_api::infrastructure::v1beta2::InMemoryCluster;
use nephele_cloud::CallError;
use nephele_kit::{Outcome, PatchError, ReconcileError, Retry};
use thiserror::Error;

use crate::catalogs;
use crate::claims::{self, Made};
use crate::context::{Context, cluster_of};
use crate::finalizer::{Finalizer, Removal};
use crate::offer::cloud_name;
use crate::refusal::retry;
use crate::reserve;
use plan::Plan;

pub(crate) use act::abandon;

/// Why a cluster could not be reconciled.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// A Secret could not be read.
    #[error("failed to read Secret {name}")]
    Secret {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// A write to the management API failed.
    #[error("failed to update the InMemoryCluster")]
    Patch(#[source] PatchError),
    /// The load balancer's address could not be claimed or released.
    #[error("failed to claim or release the load balancer's address")]
    Claims(#[source] claims::Error),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Secret { source, .. } => nephele_kit::kube_category(source),
            Self::Patch(error) => error.category(),
            Self::Claims(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Secret { source, .. } => nephele_kit::kube_retry(source),
            Self::Patch(error) => error.retry(),
            Self::Claims(error) => error.retry(),
        }
    }
}

/// Brings the simulated cluster in line with the InMemoryCluster, and reports its status.
pub(crate) async fn reconcile(object: Arc<InMemoryCluster>, context: Arc<Context>) -> Result<Outcome, Error> {
    let now = context.now();
    // 0. The published port stays reserved, whatever is decided.
    reserve::endpoint(&context, &object);
    // 1. fetch: from the caches and the cloud, seldom from the API.
    let fetched = fetch::fetch(&object, &context).await?;
    // 2. validate: pure.
    let validated = validate::validate(&object, fetched);
    // 3. plan: pure.
    let plan = plan::plan(&object, validated);
    // 4. act: the cloud, then the spec. The cloud gets the catalog before the cluster's machines see their SimulatedCloud.
    tell_cloud(&object, &context);
    let mut object = object;
    if plan.finalizer() == Finalizer::Added
        && let Some(held) = act::hold(&object, &context).await?
    {
        object = Arc::new(held);
    }
    match plan {
        Plan::Leave(outcome) => Ok(outcome),
        Plan::Pause { message, kept } => {
            report::write(&*object, &context, report::resting(&*object, &message, now))
                .await
                .map_err(Error::Patch)?;
            Ok(kept.map_or(Outcome::WaitingOn("unpaused"), |wanted| act::keep(&object, &context, &wanted)))
        }
        Plan::Unpause => {
            // This write triggers the next reconcile, which does the work.
            report::write(&*object, &context, report::unpaused(&*object, now)).await.map_err(Error::Patch)?;
            Ok(Outcome::Done)
        }
        Plan::Remove(id) => {
            let removal = act::remove(&object, &context, id.as_ref()).await?;
            removed(&object, &context, removal).await
        }
        Plan::ResumeRemoval(wanted) => {
            let removal = act::resume_removal(&object, &context, &wanted).await?;
            removed(&object, &context, removal).await
        }
        Plan::Wait { unmet, wanted } => {
            let cluster = &wanted.spec.id.name;
            claims::own_again(&*object, cluster, &context).await.map_err(Error::Claims)?;
            let made = claims::make(&*object, cluster, wanted.claim.as_slice(), &context).await;
            let (status, outcome) = match made.map_err(Error::Claims)? {
                Made::All => {
                    (report::waiting(&object, unmet.reason(), unmet.message(), now), unmet.outcome())
                }
                Made::NotInstalled => {
                    let (reason, message) = (reasons::IPAM_NOT_INSTALLED, claims::NOT_INSTALLED_MESSAGE);
                    (
                        report::waiting(&object, reason, message.to_owned(), now),
                        Outcome::After(claims::NOT_INSTALLED),
                    )
                }
            };
            report::write(&*object, &context, status).await.map_err(Error::Patch)?;
            Ok(outcome)
        }
        Plan::WaitForCloud(name) => {
            report::write(&*object, &context, report::without_cloud(&object, &name, now))
                .await
                .map_err(Error::Patch)?;
            Ok(Outcome::WaitingOn(reasons::CLOUD_NOT_FOUND))
        }
        Plan::Support(wanted) => Ok(act::support(&object, &context, &wanted)),
        Plan::Abandon(id) => {
            act::abandon(&context, &id);
            Ok(Outcome::Done)
        }
        Plan::Provide(wanted) => {
            claims::own_again(&*object, &wanted.spec.id.name, &context).await.map_err(Error::Claims)?;
            let applied = act::provide(&object, &context, &wanted).await?;
            let object = applied.object.as_ref().unwrap_or(&*object);
            // 5. report: one status patch, or none.
            let (id, status) = (&wanted.spec.id, report::provided(object, &applied, now));
            if backends::are_all_that_differs(object.status.as_ref(), &status)
                && let Some(wait) = context.backends_written.wait(id, now)
            {
                return Ok(applied.outcome_within(wait));
            }
            let known = object.status.as_ref().and_then(|known| known.load_balancer.as_ref());
            if known != status.load_balancer.as_ref() {
                context.backends_written.note(id.clone(), now);
            }
            report::write(object, &context, status).await.map_err(Error::Patch)?;
            // 6. when to reconcile again.
            Ok(applied.outcome())
        }
    }
}

/// Sends the catalog of the cluster's SimulatedCloud to the cloud.
fn tell_cloud(object: &InMemoryCluster, context: &Context) {
    if let Some(id) = cluster_of(&object.metadata) {
        catalogs::tell(context, &id.namespace, cloud_name(object));
    }
}

/// Reports how far a deletion is. The list of backends goes: a load balancer that is being deleted has none in service.
async fn removed(
    object: &InMemoryCluster,
    context: &Context,
    removal: Removal<CallError>,
) -> Result<Outcome, Error> {
    let (message, outcome) = match removal {
        Removal::Done => {
            act::let_go(object, context).await?;
            return Ok(Outcome::Done);
        }
        Removal::InProgress => {
            let message = "Waiting for the deletion of the load balancer".to_owned();
            (message, Outcome::WaitingOn("deletion"))
        }
        Removal::Refused(error) => (nephele_kit::chain(&error), retry(error.class())),
        Removal::Releasing(left) => (claims::release_message(&left), Outcome::After(claims::RELEASE)),
    };
    let mut status = report::deleting(object, &message, context.now());
    status.load_balancer = None;
    report::write(object, context, status).await.map_err(Error::Patch)?;
    Ok(outcome)
}
