//! The common part of the reports of all kinds: adding conditions to a status, and the one patch that writes it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Resource, ResourceExt as _,
    core::{NamespaceResourceScope, object::HasStatus},
};
use nephele_api::{
    cloud::v1alpha1::SimulatedCloudStatus,
    conditions::{self, condition, reasons, types},
    infrastructure::v1beta2::{InMemoryClusterStatus, InMemoryMachinePoolStatus, InMemoryMachineStatus},
};
use nephele_controller::{Kind, Outcome, PatchError, Precondition, ReconcileError, Retry, patch, unreadable};
use serde::Serialize;
use thiserror::Error;

use crate::{
    context::Context,
    events::{self, Subject},
};

/// A status that lists conditions.
pub(crate) trait Conditions: Clone + Default {
    fn conditions(&self) -> &[Condition];
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;
}

macro_rules! lists_conditions {
    ($($status:ty),*) => {
        $(impl Conditions for $status {
            fn conditions(&self) -> &[Condition] {
                &self.conditions
            }

            fn conditions_mut(&mut self) -> &mut Vec<Condition> {
                &mut self.conditions
            }
        })*
    };
}

lists_conditions!(
    InMemoryClusterStatus,
    InMemoryMachineStatus,
    InMemoryMachinePoolStatus,
    SimulatedCloudStatus
);

/// Writes the status if it changed, and publishes the events that follow from it.
pub(crate) async fn write<K>(object: &K, context: &Context, status: K::Status) -> Result<(), PatchError>
where
    K: Kind
        + Subject
        + Resource<Scope = NamespaceResourceScope>
        + HasStatus<Status: Conditions + Serialize + PartialEq>,
{
    let api: Api<K> = Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    let mut reported = object.clone();
    *reported.status_mut() = Some(status);
    patch::status(&api, object, &reported, Precondition::None).await?;
    events::publish(object, listed(object), listed(&reported), &context.events);
    Ok(())
}

/// Why an object of which only the status is written could not be reconciled.
#[derive(Debug, Error)]
#[error("failed to update the {kind}")]
pub(crate) struct StatusError {
    kind: &'static str,
    source: PatchError,
}

impl ReconcileError for StatusError {
    fn category(&self) -> &'static str {
        self.source.category()
    }

    fn retry(&self) -> Retry {
        self.source.retry()
    }
}

/// Writes the status of `reported` if it differs from that of `object`. An object that was deleted meanwhile needs none.
///
/// The next manager reads these statuses, so a write is refused if another manager has written since.
pub(crate) async fn write_status<K>(
    object: &K,
    reported: &K,
    context: &Context,
    kind: &'static str,
) -> Result<Outcome, StatusError>
where
    K: Kind + Resource<Scope = NamespaceResourceScope> + HasStatus<Status: Serialize + PartialEq>,
{
    let api = Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    match patch::status(&api, object, reported, Precondition::ResourceVersion).await {
        Err(error) if error.is_not_found() => Ok(Outcome::Done),
        result => result
            .map(|_| Outcome::Done)
            .map_err(|source| StatusError { kind, source }),
    }
}

fn listed<K: HasStatus<Status: Conditions>>(object: &K) -> &[Condition] {
    object.status().map(Conditions::conditions).unwrap_or_default()
}

/// A status to which conditions are added.
pub(crate) struct Report<Status> {
    pub(crate) status: Status,
    generation: Option<i64>,
    now: Timestamp,
}

impl<Status: Conditions> Report<Status> {
    pub(crate) fn on<K: Resource + HasStatus<Status = Status>>(object: &K, now: Timestamp) -> Self {
        let status = object.status().cloned().unwrap_or_default();
        Self {
            status,
            generation: object.meta().generation,
            now,
        }
    }

    pub(crate) fn set(&mut self, condition: Condition) {
        self.set_since(condition, self.now);
    }

    pub(crate) fn set_since(&mut self, condition: Condition, since: Timestamp) {
        let condition = Condition {
            observed_generation: self.generation,
            ..condition
        };
        conditions::set(self.status.conditions_mut(), condition, since);
    }

    pub(crate) fn not_paused(mut self) -> Self {
        self.set(condition(
            types::PAUSED,
            conditions::FALSE,
            reasons::NOT_PAUSED,
            "",
        ));
        self
    }
}

/// The status of an object that rests, because it is paused or cannot be read: only one condition changes. Pure.
pub(crate) fn resting<K>(object: &K, message: &str, now: Timestamp) -> K::Status
where
    K: Resource + HasStatus<Status: Conditions>,
{
    let mut report = Report::on(object, now);
    if unreadable(object.meta()) == Some(message) {
        let mut report = report.not_paused();
        report.set(condition(
            types::READY,
            conditions::FALSE,
            reasons::INVALID_CONFIGURATION,
            message,
        ));
        return report.status;
    }
    report.set(condition(
        types::PAUSED,
        conditions::TRUE,
        reasons::PAUSED,
        message,
    ));
    report.status
}

/// The status of an object that is not paused any more. Pure.
pub(crate) fn unpaused<K>(object: &K, now: Timestamp) -> K::Status
where
    K: Resource + HasStatus<Status: Conditions>,
{
    Report::on(object, now).not_paused().status
}

/// The status of an object that is being deleted. Pure.
pub(crate) fn deleting<K>(object: &K, message: &str, now: Timestamp) -> K::Status
where
    K: Resource + HasStatus<Status: Conditions>,
{
    let mut report = Report::on(object, now);
    for (kind, status) in [
        (types::DELETING, conditions::TRUE),
        (types::READY, conditions::FALSE),
    ] {
        report.set(condition(kind, status, reasons::DELETING, message));
    }
    report.status
}
