//! Brings a machine about, or lets it go. Everything here may be repeated.

use std::time::Duration;

use kube::{Api, ResourceExt as _};
use nephele_api::finalizers;
use nephele_api::infrastructure::v1beta2::{ClaimedAddress, InMemoryMachine};
use nephele_cloud::{
    Deletion, ErrorClass, MachineError, MachineId, MachineObservation, MachineSpec, Stage, StageObservation,
};
use nephele_kit::{Outcome, Precondition, patch};

use super::Error;
use crate::claims;
use crate::context::Context;

/// What came of it.
#[derive(Debug)]
pub(super) struct Applied {
    /// The object as it was written, if it was.
    pub(super) object: Option<InMemoryMachine>,
    /// The machine as it is; none when it went meanwhile.
    pub(super) observed: Result<Option<MachineObservation>, MachineError>,
    /// What it got from pools.
    pub(super) claimed: Vec<ClaimedAddress>,
}

impl Applied {
    pub(super) fn outcome(&self) -> Outcome {
        match &self.observed {
            Err(error) => match error.class() {
                ErrorClass::RetryAfter(after) => Outcome::After(after),
                ErrorClass::WaitForChange | ErrorClass::GiveUp => Outcome::WaitingOn("change"),
            },
            // The cloud tells when the next stage is reached.
            Ok(Some(observed)) => {
                let done =
                    observed.stages.values().all(|stage| matches!(stage, StageObservation::Reached { .. }));
                if done { Outcome::Done } else { Outcome::WaitingOn("start-up") }
            }
            // Its cluster went between asking and looking.
            Ok(None) => Outcome::After(Duration::from_secs(1)),
        }
    }
}

/// What came of letting it go.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// There is nothing left.
    Done,
    /// The cloud takes its time, and tells when it is through.
    InProgress,
    /// The machine is gone; claims of these names are not yet.
    Releasing(Vec<String>),
}

fn api(object: &InMemoryMachine, context: &Context) -> Api<InMemoryMachine> {
    Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default())
}

/// Keeps the object from going before its machine.
pub(super) async fn hold(
    object: &InMemoryMachine,
    context: &Context,
) -> Result<Option<InMemoryMachine>, Error> {
    patch::add_finalizer(&api(object, context), object, finalizers::MACHINE).await.map_err(Error::Patch)
}

pub(super) async fn provide(
    object: &InMemoryMachine,
    context: &Context,
    spec: MachineSpec,
    claimed: Vec<ClaimedAddress>,
) -> Result<Applied, Error> {
    // Before anything comes to be that would have to be cleaned up.
    let held = hold(object, context).await?;
    let object = held.as_ref().unwrap_or(object);

    let id = spec.id.clone();
    let observed = context.cloud.ensure_machine(spec).map(|()| context.cloud.observe_machine(&id));
    let mut named = None;
    if let Ok(Some(observed)) = &observed
        && observed.reached(Stage::Vm).is_some()
        // What it was given once stays, whatever that is.
        && object.spec.provider_id.is_empty()
    {
        // Before the status says that the machine is provisioned: Cluster API reads both at that moment.
        let mut wanted = object.clone();
        wanted.spec.provider_id.clone_from(&observed.provider_id);
        let patched = patch::object(&api(object, context), object, &wanted, Precondition::None).await;
        named = patched.map_err(Error::Patch)?;
    }
    Ok(Applied { object: named.or(held), observed, claimed })
}

pub(super) async fn remove(
    object: &InMemoryMachine,
    context: &Context,
    id: Option<&MachineId>,
) -> Result<Removal, Error> {
    if let Some(id) = id
        && context.cloud.delete_machine(id) == Deletion::InProgress
    {
        return Ok(Removal::InProgress);
    }
    // Addresses are in use until their machine is gone.
    let claims = claims::names_of_machine(object);
    let left = claims::release(object, claims, context).await.map_err(Error::Claims)?;
    if !left.is_empty() {
        return Ok(Removal::Releasing(left));
    }
    let removed = patch::remove_finalizer(&api(object, context), object, finalizers::MACHINE).await;
    removed.map_err(Error::Patch)?;
    context.members.forget(&object.namespace().unwrap_or_default(), &object.name_any());
    Ok(Removal::Done)
}
