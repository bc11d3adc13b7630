//! `InMemoryMachinePool`: makes as many InMemoryMachines as its MachinePool wants, and lets those go that are too many
//! or no longer as they should be. What a machine does is the business of `crate::machine`; that it gets a Machine is
//! Cluster API's, which finds it by its labels.

mod act;
mod fetch;
mod members;
mod names;
mod plan;
mod report;
mod validate;

use std::sync::Arc;

use kube::ResourceExt as _;
use nephele_api::infrastructure::v1beta2::{InMemoryMachinePool, PoolMachine};
use nephele_cloud::ClusterId;
use nephele_kit::{Outcome, PatchError, ReconcileError, Retry};
use thiserror::Error;

use crate::context::Context;
use crate::offer;
use crate::outlook::Outlook;
use fetch::Source;
use plan::Plan;

pub(crate) use members::owner_pool;

/// Why a pool could not be reconciled.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// The machines of the pool could not be listed.
    #[error("failed to list the {kind}s of the pool")]
    List {
        /// Of which kind.
        kind: &'static str,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// A machine could not be made.
    #[error("failed to create InMemoryMachine {name}")]
    Create {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// An object of the name that a machine was to have is somebody else's.
    #[error("failed to create InMemoryMachine {name}: one that is not of this pool has the name")]
    Taken {
        /// The name.
        name: String,
    },
    /// A machine could not be read.
    #[error("failed to read {kind} {name}")]
    Read {
        /// Of which kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// A machine could not be deleted.
    #[error("failed to let a machine of the pool go")]
    Delete(#[source] PatchError),
    /// A write to the management API failed.
    #[error("failed to update the InMemoryMachinePool")]
    Patch(#[source] PatchError),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::List { source, .. } | Self::Create { source, .. } | Self::Read { source, .. } => {
                nephele_kit::kube_category(source)
            }
            Self::Taken { .. } => "name_taken",
            Self::Delete(error) | Self::Patch(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::List { source, .. } | Self::Create { source, .. } | Self::Read { source, .. } => {
                nephele_kit::kube_retry(source)
            }
            Self::Taken { .. } => Retry::BackOff,
            Self::Delete(error) | Self::Patch(error) => error.retry(),
        }
    }
}

/// Brings the machines of the pool to what the objects say, and says how they are.
pub(crate) async fn reconcile(
    object: Arc<InMemoryMachinePool>,
    context: Arc<Context>,
) -> Result<Outcome, Error> {
    let now = context.now();
    // 1. fetch: from the caches.
    let fetched = fetch::fetch(&object, &context, Source::Caches).await?;
    // 2. validate: pure.
    let (validated, members) = validate::validate(&object, fetched);
    // 3. plan: pure.
    let mut plan = plan::plan(&object, validated, members);
    // Machines come and go by what the API says, as the caches may not have what was made a moment ago.
    if plan.changes_machines() {
        let fetched = fetch::fetch(&object, &context, Source::Api).await?;
        let (validated, members) = validate::validate(&object, fetched);
        plan = plan::plan(&object, validated, members);
    }
    match plan {
        Plan::Leave(outcome) => Ok(outcome),
        Plan::Pause(message) => {
            report::write(&*object, &context, report::paused(&*object, &message, now))
                .await
                .map_err(Error::Patch)?;
            Ok(Outcome::WaitingOn("unpaused"))
        }
        Plan::Unpause => {
            // The write brings the object back here, and then work begins.
            report::write(&*object, &context, report::unpaused(&*object, now)).await.map_err(Error::Patch)?;
            Ok(Outcome::Done)
        }
        Plan::Remove { victims, left } => {
            act::delete(&object, &context, victims).await?;
            if left == 0 {
                act::let_go(&object, &context).await?;
                return Ok(Outcome::Done);
            }
            report::write(&*object, &context, report::deleting(&object, left, now))
                .await
                .map_err(Error::Patch)?;
            Ok(Outcome::WaitingOn("deletion"))
        }
        Plan::Scale(scale) => {
            // 4. act: machines, then the spec.
            let applied = act::scale(&object, &context, &scale).await?;
            let object = applied.as_ref().unwrap_or(&*object);
            // 5. report: one status patch, or none.
            let status = report::scaled(object, &scale, &outlook(&scale.model, object, &context), now);
            report::write(object, &context, status).await.map_err(Error::Patch)?;
            // 6. when to look again.
            Ok(scale.outcome())
        }
    }
}

/// What machines of a pool have.
fn outlook(model: &validate::Model, object: &InMemoryMachinePool, context: &Context) -> Outlook {
    let id = ClusterId { namespace: object.namespace().unwrap_or_default(), name: model.cluster.clone() };
    let PoolMachine { instance_type, image, .. } = &model.machine;
    let model = offer::model(instance_type, image, &model.version);
    Outlook::new(context.describe(&id.namespace, context.offers.of(&id).as_deref(), &model))
}
