//! Brings a machine about, or lets it go. Everything here may be repeated.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{Api, ResourceExt as _};
use nephele_api::finalizers;
use nephele_api::infrastructure::v1beta2::origin::{MadeOf, ORIGIN_ANNOTATION, Origin};
use nephele_api::infrastructure::v1beta2::update::{UPDATE_ANNOTATION, Update};
use nephele_api::infrastructure::v1beta2::{ClaimedAddress, InMemoryMachine, MachineAddress};
use nephele_cloud::{
    Deletion, ErrorClass, Hardware, MachineError, MachineId, MachineObservation, MachineSpec, Stage,
    StageObservation,
};
use nephele_kit::{Outcome, Precondition, patch};

use super::{Error, hook, software};
use crate::claims;
use crate::context::Context;
use crate::hooks::{Answer, HookError};

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
#[derive(Debug)]
pub(super) enum Removal {
    /// There is nothing left.
    Done,
    /// The cloud takes its time, and tells when it is through.
    InProgress,
    /// The machine is gone; claims of these names are not yet.
    Releasing(Vec<String>),
    /// Nothing is left, and somebody has its object stay.
    HeldUp { after: Duration, message: String },
    /// Nothing is left, and somebody who has a say in it could not be asked or failed.
    FailedHook(HookError),
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
        && let Some(wanted) = settled(object, observed)
    {
        // Before the status says that the machine is provisioned: Cluster API reads both at that moment.
        let patched = patch::object(&api(object, context), object, &wanted, Precondition::None).await;
        named = patched.map_err(Error::Patch)?;
    }
    Ok(Applied { object: named.or(held), observed, claimed })
}

/// The object with what outlives its status, once its machine has booted: the provider id, how the machine came to be and
/// what it runs, and that an update is over. None where the object has all that. Pure.
fn settled(object: &InMemoryMachine, observed: &MachineObservation) -> Option<InMemoryMachine> {
    observed.reached(Stage::Vm)?;
    let named = !object.spec.provider_id.is_empty();
    let origin = origin(&object.name_any(), observed);
    // Times are those of the first writing: a status has them in whole seconds, and so they come back after a restart.
    let known = object.origin().filter(|known| known.reached.keys().eq(origin.reached.keys()));
    let noted = known.as_ref().is_some_and(|known| software::is_noted(known, &observed.software));
    let ended = ended(object, observed);
    let booted = observed.stages.keys().all(|stage| observed.reached(*stage).is_some());
    if named && ended.is_none() && (noted || !booted) {
        return None;
    }
    let mut wanted = object.clone();
    // What it was given once stays, whatever that is.
    if !named {
        wanted.spec.provider_id.clone_from(&observed.provider_id);
    }
    // What was noted with the same stages is as it was, but for what runs.
    let origin = match known {
        Some(known) => Origin { software: origin.software, ..known },
        None => origin,
    };
    let annotations = wanted.annotations_mut();
    annotations.insert(ORIGIN_ANNOTATION.to_owned(), origin.text());
    // Together with what runs from then on.
    annotations.extend(ended.map(|update| (UPDATE_ANNOTATION.to_owned(), update.text())));
    Some(wanted)
}

/// The update that the object asks for, once it is over and the object does not say so. Pure.
fn ended(object: &InMemoryMachine, observed: &MachineObservation) -> Option<Update> {
    let asked = object.update().filter(|update| update.ended.is_none())?;
    let seen = observed.update.filter(|seen| seen.asked_at == asked.asked_at.0)?;
    Some(Update { ended: Some(MicroTime(seen.ended?)), ..asked })
}

fn origin(machine: &str, observed: &MachineObservation) -> Origin {
    let reached = observed
        .stages
        .keys()
        .filter_map(|stage| observed.reached(*stage).map(|at| (stage.as_str().to_owned(), MicroTime(at))));
    let address = |address: &nephele_cloud::MachineAddress| MachineAddress {
        kind: address.kind.clone(),
        address: address.address.clone(),
    };
    Origin {
        machine: machine.to_owned(),
        start_time: MicroTime(observed.started_at),
        addresses: observed.addresses.iter().map(address).collect(),
        failure_domain: observed.zone.clone().unwrap_or_default(),
        made_of: made_of(observed),
        software: Some(software::to_api(&observed.software)),
        reached: reached.collect(),
    }
}

/// What a machine is made of, unless it is as any other.
fn made_of(observed: &MachineObservation) -> Option<MadeOf> {
    let Hardware { architecture, operating_system, capacity } = observed.hardware.clone();
    let made_of = MadeOf {
        region: observed.region.clone().unwrap_or_default(),
        architecture,
        operating_system,
        capacity,
    };
    (observed.region.is_some() || observed.hardware != Hardware::default()).then_some(made_of)
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
    let cluster = id.map(|id| id.cluster.name.as_str());
    let left = claims::release(object, cluster, context).await.map_err(Error::Claims)?;
    if !left.is_empty() {
        return Ok(Removal::Releasing(left));
    }
    match hook::after_delete(object, context, id).await {
        Ok(Answer::GoOn) => {}
        Ok(Answer::Wait { after, message }) => return Ok(Removal::HeldUp { after, message }),
        Err(error) => return Ok(Removal::FailedHook(error)),
    }
    let removed = patch::remove_finalizer(&api(object, context), object, finalizers::MACHINE).await;
    removed.map_err(Error::Patch)?;
    context.members.forget(&object.namespace().unwrap_or_default(), &object.name_any());
    Ok(Removal::Done)
}
