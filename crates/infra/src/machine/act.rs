//! Brings a machine about, or lets it go. Everything here may be repeated.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{Api, ResourceExt as _};
use nephele_api::finalizers;
use nephele_api::infrastructure::v1beta2::origin::{DrawKey, MachineHardware, Origin};
use nephele_api::infrastructure::v1beta2::termination::Termination;
use nephele_api::infrastructure::v1beta2::update::Update;
use nephele_api::infrastructure::v1beta2::{ClaimedAddress, InMemoryMachine, MachineAddress};
use nephele_cloud::{
    Allocation, Deletion, Hardware, MachineError, MachineId, MachineObservation, MachineSpec, Role, Stage,
    StageObservation,
};
use nephele_kit::{Outcome, Precondition, patch};
use tracing::{info, warn};

use super::{Error, software};
use crate::claims;
use crate::context::Context;
use crate::refusal::retry;

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
            Err(error) => retry(error.class()),
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
    /// There is nothing left but the object.
    Done,
    /// The cloud takes its time, and tells when it is through.
    InProgress,
    /// The cloud refuses or delays it.
    Refused(MachineError),
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

/// Brings a machine back that had begun before a restart, and writes nothing to its object. One that runs is left as it
/// is.
pub(super) fn keep(context: &Context, spec: MachineSpec) -> Outcome {
    let (id, role) = (spec.id.clone(), spec.role);
    let is_there = context.cloud.observe_machine(&id).is_some();
    let made = if is_there { Ok(()) } else { context.cloud.ensure_machine(spec) };
    match made.and_then(|()| register(context, &id, role)) {
        Ok(()) => Outcome::WaitingOn("unpaused"),
        Err(error) => {
            let chain = nephele_kit::chain(&error);
            warn!(machine = %id, error = chain, "Failed to bring back the machine of a paused object");
            retry(error.class())
        }
    }
}

/// Has the cluster's load balancer lead to a machine of the control plane, once that has an API server.
fn register(context: &Context, id: &MachineId, role: Role) -> Result<(), MachineError> {
    match role {
        Role::ControlPlane => context.cloud.register_backend(id),
        Role::Worker => Ok(()),
    }
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

    let (id, role) = (spec.id.clone(), spec.role);
    let made = context.cloud.ensure_machine(spec).and_then(|()| register(context, &id, role));
    let observed = made.and_then(|()| context.cloud.describe_machine(&id));
    let mut named = None;
    if let Ok(Some(observed)) = &observed
        && let Some((wanted, precondition)) = recorded(object, observed)
    {
        // Before the status says that the machine is provisioned: Cluster API reads both at that moment.
        let patched = patch::object(&api(object, context), object, &wanted, precondition).await;
        named = patched.map_err(Error::Patch)?;
    }
    Ok(Applied { object: named.or(held), observed, claimed })
}

/// The object with what has to outlive its status: how the machine came to be and what it runs, its provider id once it
/// has booted, and that an update is over. None where the object says all that. Pure.
fn recorded(
    object: &InMemoryMachine,
    observed: &MachineObservation,
) -> Option<(InMemoryMachine, Precondition)> {
    let known = object.origin();
    let named = !object.spec.provider_id.is_empty() || observed.reached(Stage::Vm).is_none();
    let booted = observed.stages.keys().all(|stage| observed.reached(*stage).is_some());
    let origin = origin(known.clone(), observed);
    let ended = ended(object, observed);
    // Conditions say which parts are up meanwhile.
    let noted = known.is_some_and(|known| known == origin || !booted);
    if named && noted && ended.is_none() && !object.keeps_annotations() {
        return None;
    }
    let mut wanted = object.clone();
    if !named {
        wanted.spec.provider_id.clone_from(&observed.provider_id);
    }
    let record = wanted.instance_mut();
    record.origin = Some(origin);
    match ended {
        // Another update may have been asked for since, and would be taken for one that is over.
        Some(ended) => {
            record.update = Some(ended);
            Some((wanted, Precondition::ResourceVersion))
        }
        None => Some((wanted, Precondition::None)),
    }
}

/// The update that the object asks for, once it is over and the object does not say so. Pure.
fn ended(object: &InMemoryMachine, observed: &MachineObservation) -> Option<Update> {
    let asked = object.update().filter(|update| update.ended.is_none())?;
    let seen = observed.update.filter(|seen| seen.asked_at == asked.asked_at.0)?;
    Some(Update { ended: Some(MicroTime(seen.ended?)), ..asked })
}

/// What is to be known of the beginning of a machine. Instants are those that were written first: a status has them in
/// whole seconds, and so they come back after a restart. Pure.
fn origin(known: Option<Origin>, observed: &MachineObservation) -> Origin {
    let reached = observed
        .stages
        .keys()
        .filter_map(|stage| observed.reached(*stage).map(|at| (stage.as_str().to_owned(), MicroTime(at))));
    let reached: BTreeMap<_, _> = reached.collect();
    let address = |address: &nephele_cloud::MachineAddress| MachineAddress {
        kind: address.kind.clone(),
        address: address.address.clone(),
    };
    let Allocation { addresses, pod_cidrs, set, ordinal } = &observed.allocation;
    let (start_time, known_reached) = known.map(|known| (known.start_time, known.reached)).unzip();
    Origin {
        start_time: start_time.unwrap_or(MicroTime(observed.started_at)),
        addresses: addresses.iter().map(address).collect(),
        pod_cidrs: pod_cidrs.clone(),
        failure_domain: observed.zone.clone().unwrap_or_default(),
        region: observed.region.clone().unwrap_or_default(),
        hardware: hardware(observed),
        software: Some(software::to_api(&observed.software)),
        draw_key: ordinal.map(|ordinal| DrawKey { set: set.clone(), ordinal: i64::from(ordinal) }),
        reached: known_reached.filter(|known| known.keys().eq(reached.keys())).unwrap_or(reached),
    }
}

/// What a machine is made of, unless that is the default.
fn hardware(observed: &MachineObservation) -> Option<MachineHardware> {
    let Hardware { architecture, operating_system, capacity } = observed.hardware.clone();
    let hardware = MachineHardware { architecture, operating_system, capacity };
    (observed.hardware != Hardware::default()).then_some(hardware)
}

/// Deletes a machine. The load balancer leads to it no more when that begins, so that no request meets a server that goes.
fn delete(context: &Context, id: &MachineId) -> Result<Deletion, MachineError> {
    context.cloud.deregister_backend(id)?;
    context.cloud.delete_machine(id)
}

pub(super) async fn remove(
    object: &InMemoryMachine,
    context: &Context,
    id: Option<&MachineId>,
) -> Result<Removal, Error> {
    match id.map(|id| delete(context, id)) {
        None | Some(Ok(Deletion::Gone)) => {}
        Some(Ok(Deletion::InProgress)) => return Ok(Removal::InProgress),
        Some(Err(error)) => return Ok(Removal::Refused(error)),
    }
    // Addresses are in use until their machine is gone.
    let cluster = id.map(|id| id.cluster.name.as_str());
    let left = claims::release(object, cluster, context).await.map_err(Error::Claims)?;
    if !left.is_empty() {
        return Ok(Removal::Releasing(left));
    }
    Ok(Removal::Done)
}

/// Nothing is left: lets the object go.
pub(super) async fn let_go(object: &InMemoryMachine, context: &Context) -> Result<(), Error> {
    let removed = patch::remove_finalizer(&api(object, context), object, finalizers::MACHINE).await;
    removed.map_err(Error::Patch)?;
    context.members.forget(&object.namespace().unwrap_or_default(), &object.name_any());
    Ok(())
}

/// Has the instance of a machine vanish behind the back of whoever wants it. That is written to the object before the cloud
/// is asked, so that no restart and no other management cluster brings the instance back. The object as it was written, if
/// it was, and how far the deletion is.
pub(super) async fn terminate(
    object: &InMemoryMachine,
    context: &Context,
    id: &MachineId,
    noted: bool,
    now: Timestamp,
) -> Result<(Option<InMemoryMachine>, Result<Deletion, MachineError>), Error> {
    let mut written = None;
    if !noted || object.keeps_annotations() {
        let mut wanted = object.clone();
        wanted.instance_mut().termination.get_or_insert(Termination { time: MicroTime(now) });
        let patched = patch::object(&api(object, context), object, &wanted, Precondition::None).await;
        written = patched.map_err(Error::Patch)?;
    }
    if !noted {
        info!(machine = %id, "An instance was terminated");
    }
    Ok((written, context.cloud.delete_machine(id)))
}

#[cfg(test)]
mod tests;
