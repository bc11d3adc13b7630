//! Creates or deletes a machine. Everything here is idempotent.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{Api, ResourceExt as _};
use nephele_api::finalizers;
use nephele_api::infrastructure::v1beta2::deletion;
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

use super::validate::has_begun;
use super::{Error, bootstrap, software};
use crate::catalogs;
use crate::claims;
use crate::context::Context;
use crate::finalizer::Removal;
use crate::notable;
use crate::refusal::retry;

/// The result of [`provide`].
#[derive(Debug)]
pub(super) struct Applied {
    /// The object as it was written; none when nothing was written.
    pub(super) object: Option<InMemoryMachine>,
    /// The state of the machine; none when it was deleted meanwhile.
    pub(super) observed: Result<Option<MachineObservation>, MachineError>,
    /// The addresses that it got from pools.
    pub(super) claimed: Vec<ClaimedAddress>,
}

impl Applied {
    pub(super) fn outcome(&self) -> Outcome {
        match &self.observed {
            Err(error) => retry(error.class()),
            // The cloud reports when the next stage is reached.
            Ok(Some(observed)) => {
                let done =
                    observed.stages.values().all(|stage| matches!(stage, StageObservation::Reached { .. }));
                if done { Outcome::Done } else { Outcome::WaitingOn("start-up") }
            }
            // Its cluster was deleted between the two calls.
            Ok(None) => Outcome::After(Duration::from_secs(1)),
        }
    }
}

fn api(object: &InMemoryMachine, context: &Context) -> Api<InMemoryMachine> {
    Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default())
}

/// Adds the finalizer, so that the object is not removed before its machine. Returns the object as it was written, if it
/// was.
pub(super) async fn hold(
    object: &InMemoryMachine,
    context: &Context,
) -> Result<Option<InMemoryMachine>, Error> {
    patch::add_finalizer(&api(object, context), object, finalizers::MACHINE).await.map_err(Error::Patch)
}

/// Restores a machine whose creation began before a restart, without writing to its object. A machine that runs is left
/// alone.
pub(super) fn keep(object: &InMemoryMachine, context: &Context, spec: MachineSpec) -> Outcome {
    let (id, role) = (spec.id.clone(), spec.role);
    let is_there = context.cloud.observe_machine(&id).is_some();
    let goes = object.metadata.deletion_timestamp.is_some() || object.termination().is_some();
    let made = match () {
        () if is_there => Ok(()),
        () if goes => restore_deleting(object, context, spec),
        () => context.cloud.ensure_machine(spec).and_then(|()| register(context, &id, role)),
    };
    match made {
        Ok(()) => Outcome::WaitingOn("unpaused"),
        Err(error) => {
            let chain = nephele_kit::chain(&error);
            warn!(machine = %id, error = chain, "Failed to bring back the machine of a paused object");
            retry(error.class())
        }
    }
}

/// Registers a control plane machine as backend of the cluster's load balancer. It gets requests once its API server is
/// up.
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
    let (id, role) = (spec.id.clone(), spec.role);
    // A machine may be of another cloud than its cluster, when the cluster has moved.
    catalogs::tell(context, &id.cluster.namespace, &spec.catalog);
    let made = context.cloud.ensure_machine(spec).and_then(|()| register(context, &id, role));
    let observed = made.and_then(|()| context.cloud.describe_machine(&id));
    let mut named = None;
    if let Ok(Some(observed)) = &observed
        && let Some((wanted, precondition)) = recorded(object, observed)
    {
        // Before the status says that the machine is provisioned: then Cluster API reads spec and status.
        let patched = patch::object(&api(object, context), object, &wanted, precondition).await;
        named = patched.map_err(Error::Patch)?;
        // The first read may show it long after its creation, or the next manager's may.
        if object.origin().is_none() {
            info!(machine = %id, zone = observed.zone, "Created an instance");
            notable::instance_created(object, observed.zone.as_deref(), &context.events);
        }
    }
    Ok(Applied { object: named, observed, claimed })
}

/// The object with the data that has to outlive its status: the origin and the software of the machine, its provider ID
/// once it has booted, and the end of an update. None when the object already has all of that. Pure.
fn recorded(
    object: &InMemoryMachine,
    observed: &MachineObservation,
) -> Option<(InMemoryMachine, Precondition)> {
    let known = object.origin();
    let named = !object.spec.provider_id.is_empty() || observed.reached(Stage::Vm).is_none();
    let booted = observed.stages.keys().all(|stage| observed.reached(*stage).is_some());
    let origin = origin(known.clone(), observed);
    let ended = ended(object, observed);
    // Until the machine has booted completely, the conditions show which parts are up.
    let noted = known.as_ref().is_some_and(|known| *known == origin || !booted);
    if named && noted && ended.is_none() && !object.keeps_annotations() {
        return None;
    }
    let mut wanted = object.clone();
    if !named {
        wanted.spec.provider_id.clone_from(&observed.provider_id);
    }
    let is_first = known.is_none();
    // Another update may have been requested since, and this write would mark it as ended. A manager that leads no more
    // may have sent the first origin long ago, and it would replace parts of the origin that the next one has written.
    let precondition =
        if ended.is_some() || is_first { Precondition::ResourceVersion } else { Precondition::None };
    let record = wanted.instance_mut();
    record.origin = Some(origin);
    record.update = ended.or(record.update.take());
    Some((wanted, precondition))
}

/// The update that the object requests, once it has ended and the object does not say so yet. Pure.
fn ended(object: &InMemoryMachine, observed: &MachineObservation) -> Option<Update> {
    let asked = object.update().filter(|update| update.ended.is_none())?;
    let seen = observed.update.filter(|seen| seen.asked_at == asked.asked_at.0)?;
    Some(Update { ended: Some(MicroTime(seen.ended?)), ..asked })
}

/// The origin of a machine. It keeps the times that were written first: a status has them only in whole seconds, and
/// the cloud gets those after a restart. It does not keep those of a manager that began the machine at another time and
/// leads no more. Pure.
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
    let known = known.filter(|known| known.start_time.0.as_second() == observed.started_at.as_second());
    let (start_time, known_reached) = known.map(|known| (known.start_time, known.reached)).unzip();
    Origin {
        start_time: start_time.unwrap_or(MicroTime(observed.started_at)),
        addresses: addresses.iter().map(address).collect(),
        pod_cidrs: pod_cidrs.clone(),
        failure_domain: observed.zone.clone().unwrap_or_default(),
        region: observed.region.clone().unwrap_or_default(),
        cloud: observed.catalog.clone(),
        hardware: hardware(observed),
        software: Some(software::to_api(&observed.software)),
        kubeadm: observed.kubeadm.as_deref().cloned().map(bootstrap::to_api),
        draw_key: ordinal.map(|ordinal| DrawKey { set: set.clone(), ordinal: i64::from(ordinal) }),
        reached: known_reached.filter(|known| known.keys().eq(reached.keys())).unwrap_or(reached),
    }
}

/// The hardware of a machine; none for the default hardware.
fn hardware(observed: &MachineObservation) -> Option<MachineHardware> {
    let Hardware { architecture, operating_system, capacity } = observed.hardware.clone();
    let hardware = MachineHardware { architecture, operating_system, capacity };
    (observed.hardware != Hardware::default()).then_some(hardware)
}

/// Deletes a machine. It is deregistered from the load balancer first, so that no request reaches an API server that is
/// being deleted. Returns also whether it was registered until now.
fn delete(context: &Context, id: &MachineId) -> (bool, Result<Deletion, MachineError>) {
    match context.cloud.deregister_backend(id) {
        Ok(was_registered) => (was_registered, context.cloud.delete_machine(id)),
        Err(error) => (false, Err(error.into())),
    }
}

pub(super) async fn remove(
    object: &InMemoryMachine,
    context: &Context,
    id: Option<&MachineId>,
) -> Result<Removal<MachineError>, Error> {
    let had_one = id.is_some_and(|id| context.cloud.observe_machine(id).is_some());
    let (was_registered, answer) = id.map(|id| delete(context, id)).unzip();
    match (&answer, id) {
        (Some(Ok(Deletion::Gone)), Some(id)) if had_one => {
            info!(machine = %id, "Deleted an instance");
            notable::instance_deleted(object, &context.events);
        }
        (Some(Ok(Deletion::InProgress { since })), _) => note_deletion(object, context, *since).await?,
        (Some(Err(_)), _) if was_registered == Some(true) => note_deregistration(object, context).await?,
        _ => {}
    }
    let removal = Removal::answered(answer);
    if !removal.is_done() {
        return Ok(removal);
    }
    let cluster = id.map(|id| id.cluster.name.as_str());
    let left = claims::release(object, cluster, context).await.map_err(Error::Claims)?;
    if !left.is_empty() {
        note_end(object, context).await?;
    }
    Ok(removal.with_claims(left))
}

/// Restores a machine from before a restart that is to be deleted, and deletes it. Returns how far that is.
pub(super) async fn resume_removal(
    object: &InMemoryMachine,
    context: &Context,
    spec: MachineSpec,
) -> Result<Removal<MachineError>, Error> {
    let id = spec.id.clone();
    match restore_deleting(object, context, spec) {
        Ok(()) => remove(object, context, Some(&id)).await,
        Err(error) => Ok(Removal::Refused(error)),
    }
}

fn restore_deleting(
    object: &InMemoryMachine,
    context: &Context,
    spec: MachineSpec,
) -> Result<(), MachineError> {
    // The cloud has to know how long a deletion takes there.
    catalogs::tell(context, &spec.id.cluster.namespace, &spec.catalog);
    let since = object.deletion().map(|deletion| deletion.time.0);
    context.cloud.restore_deleting(spec, since)
}

/// Records that the deletion has begun, before the status says so: after a restart the deletion ends when it would have.
async fn note_deletion(object: &InMemoryMachine, context: &Context, since: Timestamp) -> Result<(), Error> {
    if object.deletion().is_some() {
        return Ok(());
    }
    let mut wanted = object.clone();
    wanted.instance_mut().deletion = Some(deletion::Deletion { time: MicroTime(since), ended: None });
    note(object, context, wanted).await
}

/// Records that the instance is gone: after a restart nobody asks for its deletion again.
pub(super) async fn note_end(object: &InMemoryMachine, context: &Context) -> Result<(), Error> {
    if object.has_ended() || !has_begun(object) {
        return Ok(());
    }
    let (mut wanted, now) = (object.clone(), MicroTime(context.now()));
    let begun = object.deletion().map_or_else(|| now.clone(), |deletion| deletion.time);
    wanted.instance_mut().deletion = Some(deletion::Deletion { time: begun, ended: Some(now) });
    note(object, context, wanted).await
}

/// Records that the machine gets no requests any more although the cloud does not delete it yet.
async fn note_deregistration(object: &InMemoryMachine, context: &Context) -> Result<(), Error> {
    let mut wanted = object.clone();
    wanted.instance_mut().deregistered.get_or_insert(MicroTime(context.now()));
    note(object, context, wanted).await
}

async fn note(object: &InMemoryMachine, context: &Context, wanted: InMemoryMachine) -> Result<(), Error> {
    let patched = patch::object(&api(object, context), object, &wanted, Precondition::None).await;
    patched.map_err(Error::Patch).map(drop)
}

/// Removes the finalizer when nothing else is left.
pub(super) async fn let_go(object: &InMemoryMachine, context: &Context) -> Result<(), Error> {
    let removed = patch::remove_finalizer(&api(object, context), object, finalizers::MACHINE).await;
    removed.map_err(Error::Patch)?;
    context.known_machines.forget(&object.namespace().unwrap_or_default(), &object.name_any());
    Ok(())
}

/// Terminates the instance of a machine, as a cloud does when an instance fails. The termination is written to the
/// object before the cloud is called, so that no restart and no other management cluster brings the instance back.
/// Returns the object as it was written, if it was, and the state of the deletion.
pub(super) async fn terminate(
    object: &InMemoryMachine,
    context: &Context,
    spec: MachineSpec,
    noted: bool,
    now: Timestamp,
) -> Result<(Option<InMemoryMachine>, Result<Deletion, MachineError>), Error> {
    let (id, mut written) = (spec.id.clone(), None);
    if !noted || object.keeps_annotations() {
        let mut wanted = object.clone();
        wanted.instance_mut().termination.get_or_insert(Termination { time: MicroTime(now) });
        let patched = patch::object(&api(object, context), object, &wanted, Precondition::None).await;
        written = patched.map_err(Error::Patch)?;
    }
    if !noted {
        info!(machine = %id, "An instance was terminated");
    }
    if object.has_ended() {
        return Ok((written, Ok(Deletion::Gone)));
    }
    let is_there = context.cloud.observe_machine(&id).is_some();
    let restored = if is_there { Ok(()) } else { restore_deleting(object, context, spec) };
    let deletion = restored.and_then(|()| context.cloud.delete_machine(&id));
    let object = written.as_ref().unwrap_or(object);
    match deletion {
        Ok(Deletion::InProgress { since }) => note_deletion(object, context, since).await?,
        Ok(Deletion::Gone) => note_end(object, context).await?,
        Err(_) => {}
    }
    Ok((written, deletion))
}

#[cfg(test)]
mod tests;
