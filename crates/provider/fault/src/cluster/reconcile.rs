//! One look at a ClusterFault: plan, act, report.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt as _};
use nephele_api::cloud::v1alpha1::{ClusterFault, ClusterFaultStatus, Fault, FaultSpec};
use nephele_controller::{
    Cache, Clock, Outcome, PatchError, Precondition, ReconcileError, Retry, StatusThrottle, patch, paused,
    unreadable,
};
use thiserror::Error;

use super::{
    act::{Ending, act},
    plan::{Place, fault_name, plan},
    refusals::Refusals,
    report::{paused_status, status},
    selection::{is_going, namespaces_of},
};

/// What the reconciler needs.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) namespaces: Cache<Namespace>,
    pub(super) faults: Cache<Fault>,
    /// Whether this provider carries out Faults of a spec.
    pub(super) carries_out: fn(&FaultSpec) -> bool,
    /// A look reads all namespaces, and the Faults of a ClusterFault may change thousands of times in a second. So there is
    /// one look in a second at most. It takes a few milliseconds for some thousand namespaces.
    pub(super) status_throttle: StatusThrottle<String>,
    pub(super) refusals: Refusals,
}

/// Why a ClusterFault could not be reconciled.
#[derive(Debug, Error)]
pub(super) enum Error {
    /// A write to one of its Faults failed.
    #[error("failed to change a Fault of the ClusterFault")]
    Fault(#[source] PatchError),
    /// Its status could not be written.
    #[error("failed to update the ClusterFault")]
    Status(#[source] PatchError),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Fault(source) | Self::Status(source) => source.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Fault(source) | Self::Status(source) => source.retry(),
        }
    }
}

/// Makes the Faults of a ClusterFault as they should be, and reports them. When it is deleted, its Faults are deleted as
/// everything that has no owner any more.
pub(super) async fn reconcile(object: Arc<ClusterFault>, context: Arc<Context>) -> Result<Outcome, Error> {
    if !(context.carries_out)(&object.spec.fault) || object.metadata.deletion_timestamp.is_some() {
        return Ok(Outcome::Done);
    }
    let name = object.name_any();
    let now = (context.clock)();
    if let Some(message) = paused(&*object, None) {
        // Its Faults stay as they are.
        if let Some(status) = paused_status(&object, message, now) {
            write(&object, status, &context).await?;
        }
        return Ok(Outcome::WaitingOn("unpaused"));
    }
    if let Some(wait) = context.status_throttle.wait(&name, now) {
        return Ok(Outcome::After(wait));
    }
    context.status_throttle.note(name.clone(), now);
    let mistake = unreadable(&object.metadata);
    let selector = namespaces_of(&object.spec);
    let mut namespaces = context.namespaces.store().state();
    namespaces.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    let fault = fault_name(&name);
    let generation = object.metadata.generation;
    let refusals = context.refusals.of(&name, generation, now);
    let places = namespaces.iter().map(|namespace| {
        let mut place = place(namespace, &context.faults, &fault);
        place.refusal = refusals.get(place.namespace).map(String::as_str);
        place
    });
    let mut plan = plan(&object, Some(&selector).filter(|_| mistake.is_none()), places);
    let endings = act(&context.client, &object, std::mem::take(&mut plan.acts)).await;
    let mut refused = Vec::new();
    let mut failed = None;
    for ending in endings {
        match ending {
            Ending::Done => {}
            Ending::Refused(namespace) => refused.push(namespace),
            Ending::Failed(error) => failed = failed.or(Some(error)),
        }
    }
    context.refusals.note(&name, generation, &refused, now);
    let outcome = context
        .refusals
        .count_for(&name, now)
        .map_or(Outcome::Done, Outcome::After);
    let status = status(&object, &plan, mistake, refused, now);
    if !write(&object, status, &context).await? {
        return Ok(Outcome::Done);
    }
    failed.map_or(Ok(outcome), |error| Err(Error::Fault(error)))
}

/// Writes the status of a ClusterFault. False if it is gone.
async fn write(object: &ClusterFault, status: ClusterFaultStatus, context: &Context) -> Result<bool, Error> {
    let mut reported = object.clone();
    reported.status = Some(status);
    let api = Api::<ClusterFault>::all(context.client.clone());
    match patch::status(&api, object, &reported, Precondition::None).await {
        // Its end is on its way.
        Err(error) if error.is_not_found() => Ok(false),
        result => result.map(|_| true).map_err(Error::Status),
    }
}

fn place<'a>(namespace: &'a Namespace, faults: &Cache<Fault>, fault: &str) -> Place<'a> {
    let name = namespace.metadata.name.as_deref().unwrap_or_default();
    Place {
        namespace: name,
        labels: namespace.labels(),
        is_going: is_going(namespace),
        fault: faults.get(name, fault),
        refusal: None,
    }
}
