//! `InMemoryMachinePool`: creates as many InMemoryMachines as its MachinePool wants, and deletes surplus and outdated
//! ones. `crate::machine` reconciles the InMemoryMachines; Cluster API finds them by their labels and creates a Machine
//! for each.

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
use nephele_kit::{Outcome, PatchError, ReconcileError, Retry};
use thiserror::Error;

use crate::context::Context;
use crate::finalizer::Finalizer;
use crate::offer;
use crate::outlook::Outlook;
use fetch::Source;
use nephele_model::ClusterId;
use plan::Plan;

pub(crate) use members::pool_of;

/// Why a pool could not be reconciled.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// The machines of the pool could not be listed.
    #[error("failed to list the {kind}s of the pool")]
    List {
        /// The kind.
        kind: &'static str,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// A machine could not be created.
    #[error("failed to create InMemoryMachine {name}")]
    Create {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// An InMemoryMachine with the name of a new machine exists and does not belong to this pool.
    #[error("failed to create InMemoryMachine {name}: it exists and does not belong to this pool")]
    Taken {
        /// The name.
        name: String,
    },
    /// A machine could not be read.
    #[error("failed to read {kind} {name}")]
    Read {
        /// The kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// A machine could not be deleted.
    #[error("failed to delete a machine of the pool")]
    Delete(#[source] PatchError),
    /// A write to the management API failed.
    #[error("failed to update the InMemoryMachinePool")]
    Patch(#[source] PatchError),
    /// A machine that lost its pool could not be given back to it.
    #[error("failed to make the pool the owner of a machine again")]
    Own(#[source] PatchError),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::List { source, .. } | Self::Create { source, .. } | Self::Read { source, .. } => {
                nephele_kit::kube_category(source)
            }
            Self::Taken { .. } => "name_taken",
            Self::Delete(error) | Self::Patch(error) | Self::Own(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::List { source, .. } | Self::Create { source, .. } | Self::Read { source, .. } => {
                nephele_kit::kube_retry(source)
            }
            Self::Taken { .. } => Retry::BackOff,
            Self::Delete(error) | Self::Patch(error) | Self::Own(error) => error.retry(),
        }
    }
}

/// Brings the machines of the pool in line with the InMemoryMachinePool and its MachinePool, and reports their status.
pub(crate) async fn reconcile(
    object: Arc<InMemoryMachinePool>,
    context: Arc<Context>,
) -> Result<Outcome, Error> {
    let now = context.now();
    // 1. fetch: from the caches.
    let mut fetched = fetch::fetch(&object, &context, Source::Caches).await?;
    let lost = std::mem::take(&mut fetched.lost);
    // 2. validate: pure.
    let (validated, members) = validate::validate(&object, fetched);
    // 3. plan: pure.
    let mut plan = plan::plan(&object, validated, members);
    // Machines are created and deleted only after a read from the API, because the caches may not have a machine that
    // was created a moment ago.
    if plan.changes_machines() {
        let fetched = fetch::fetch(&object, &context, Source::Api).await?;
        let (validated, members) = validate::validate(&object, fetched);
        plan = plan::plan(&object, validated, members);
    }
    let object = match plan.finalizer() {
        Finalizer::Added => act::hold(object, &context).await?,
        Finalizer::Kept | Finalizer::AddedWithSpec | Finalizer::Released => object,
    };
    match plan {
        Plan::Leave(outcome) => Ok(outcome),
        Plan::Pause(message) => {
            report::write(&*object, &context, report::resting(&*object, &message, now))
                .await
                .map_err(Error::Patch)?;
            Ok(Outcome::WaitingOn("unpaused"))
        }
        Plan::Unpause => {
            // This write triggers the next reconcile, which does the work.
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
            act::own_again(&object, &context, lost).await?;
            let applied = act::scale(&object, &context, &scale).await?;
            let object = applied.as_ref().unwrap_or(&*object);
            // 5. report: one status patch, or none.
            let status = report::scaled(object, &scale, &outlook(&scale.model, object, &context), now);
            report::write(object, &context, status).await.map_err(Error::Patch)?;
            // 6. when to reconcile again.
            Ok(scale.outcome())
        }
    }
}

/// The hardware of the pool's machines.
fn outlook(model: &validate::Model, object: &InMemoryMachinePool, context: &Context) -> Outlook {
    let id = ClusterId { namespace: object.namespace().unwrap_or_default(), name: model.cluster.clone() };
    let PoolMachine { instance_type, image, .. } = &model.machine;
    let model = offer::model(instance_type, image, &model.version);
    Outlook::new(context.describe(&id.namespace, context.offers.of(&id).as_deref(), &model))
}
