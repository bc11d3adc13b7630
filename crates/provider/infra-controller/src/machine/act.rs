//! Creates or deletes a machine. Everything here is idempotent.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{Api, ResourceExt as _};
use nephele_api::{
    finalizers,
    infrastructure::v1beta2::{
        ClaimedAddress, InMemoryMachine, MachineAddress,
        creation_record::{CreationRecord, MachineHardware, SeedKey},
        deletion,
        termination::Termination,
        update::Update,
    },
};
use nephele_cloud::{Allocation, Deletion, Hardware, MachineError, MachineObservation, MachineSpec};
use nephele_controller::{Outcome, Precondition, patch};
use nephele_model::{MachineId, Role, Stage};
use tracing::{info, warn};

use super::{
    Error,
    acted::{Acted, Applied},
    bootstrap, hook,
    plan::{Decision, Waiting},
    recorded::has_begun,
    software,
};
use crate::{
    claims::{self, Claim, Made},
    context::Context,
    events,
    finalizer::Removal,
    machine_hooks::Answer,
    messages::retry,
};

fn api(object: &InMemoryMachine, context: &Context) -> Api<InMemoryMachine> {
    Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default())
}

/// Adds the finalizer, so that the object is not removed before its machine. Returns the object as it is then.
pub(super) async fn hold(
    object: Arc<InMemoryMachine>,
    context: &Context,
) -> Result<Arc<InMemoryMachine>, Error> {
    let held = patch::add_finalizer(&api(&object, context), &object, finalizers::MACHINE).await;
    Ok(held.map_err(Error::Patch)?.map_or(object, Arc::new))
}

/// Does what was decided. Returns the object as it was written last, and what was done.
pub(super) async fn act(
    object: Arc<InMemoryMachine>,
    context: &Context,
    decision: Decision,
    now: Timestamp,
) -> Result<(Arc<InMemoryMachine>, Acted), Error> {
    // Boxed, as futures of rare decisions should not make all of them larger.
    let acted = match decision {
        Decision::Leave(outcome) => Acted::Left(outcome),
        Decision::Unpause => Acted::Unpaused,
        Decision::Pause { message, kept } => {
            let outcome = kept.map(|spec| keep(&object, context, *spec));
            Acted::Rested {
                message,
                outcome: outcome.unwrap_or(Outcome::WaitingOn("unpaused")),
            }
        }
        Decision::Wait {
            waiting,
            role,
            cluster,
            missing,
        } => {
            let waiting = wait(&object, context, waiting, &cluster, &missing).await?;
            Acted::Waited { waiting, role }
        }
        Decision::Remove(id) => {
            let removal = Box::pin(remove(&object, context, id.as_ref())).await?;
            Box::pin(removed(&object, context, id.as_ref(), removal)).await?
        }
        Decision::ResumeRemoval(spec) => {
            let id = spec.id.clone();
            let removal = Box::pin(resume_removal(&object, context, *spec)).await?;
            Box::pin(removed(&object, context, Some(&id), removal)).await?
        }
        Decision::Terminate { spec, noted } => {
            let role = spec.role;
            let (written, deletion) = Box::pin(terminate(&object, context, *spec, noted, now)).await?;
            return Ok((
                written.map_or(object, Arc::new),
                Acted::Terminated { role, deletion },
            ));
        }
        Decision::Provide { spec, claimed } => {
            let mut applied = provide(&object, context, *spec, claimed).await?;
            let written = applied.object.take();
            return Ok((
                written.map_or(object, Arc::new),
                Acted::Provided(Box::new(applied)),
            ));
        }
    };
    Ok((object, acted))
}

/// Claims addresses during a wait, so that the machine can boot as soon as the wait is over. Returns what it waits for.
async fn wait(
    object: &InMemoryMachine,
    context: &Context,
    waiting: Waiting,
    cluster: &str,
    missing: &[Claim],
) -> Result<Waiting, Error> {
    claims::own_again(object, cluster, context)
        .await
        .map_err(Error::Claims)?;
    let made = claims::make(object, cluster, missing, context)
        .await
        .map_err(Error::Claims)?;
    Ok(if made == Made::NotInstalled {
        Waiting::Ipam
    } else {
        waiting
    })
}

/// How far a deletion is. Lets the object go when nothing is left.
async fn removed(
    object: &InMemoryMachine,
    context: &Context,
    id: Option<&MachineId>,
    removal: Removal<MachineError>,
) -> Result<Acted, Error> {
    let (message, outcome) = match removal {
        Removal::InProgress => {
            let message = "Waiting for the deletion of the simulated machine".to_owned();
            (message, Ok(Outcome::WaitingOn("deletion")))
        }
        Removal::Refused(error) => (nephele_controller::chain(&error), Ok(retry(error.class()))),
        Removal::Releasing(left) => (
            claims::release_message(&left),
            Ok(Outcome::After(claims::RELEASE)),
        ),
        Removal::Done => match hook::after_delete(object, context, id).await {
            Ok(Answer::Continue) => {
                let_go(object, context).await?;
                return Ok(Acted::Left(Outcome::Done));
            }
            Ok(Answer::Wait { after, message }) => {
                note_end(object, context).await?;
                (message, Ok(Outcome::After(after)))
            }
            Err(error) => (nephele_controller::chain(&error), Err(Error::Hook(error))),
        },
    };
    Ok(Acted::Deleting { message, outcome })
}

/// Restores a machine whose creation began before a restart, without writing to its object. A machine that runs is left
/// alone.
fn keep(object: &InMemoryMachine, context: &Context, spec: MachineSpec) -> Outcome {
    let id = spec.id.clone();
    let role = spec.role;
    let is_there = context.cloud.observe_machine(&id).is_some();
    let goes = object.metadata.deletion_timestamp.is_some() || object.termination().is_some();
    let made = match () {
        () if is_there => Ok(()),
        () if goes => restore_deleting(object, context, spec),
        () => context
            .cloud
            .ensure_machine(spec)
            .and_then(|()| register(context, &id, role)),
    };
    match made {
        Ok(()) => Outcome::WaitingOn("unpaused"),
        Err(error) => {
            let chain = nephele_controller::chain(&error);
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

/// Creates or updates a machine, and records it in its object.
async fn provide(
    object: &InMemoryMachine,
    context: &Context,
    mut spec: MachineSpec,
    claimed: Vec<ClaimedAddress>,
) -> Result<Applied, Error> {
    if let Some(kubeadm) = Box::pin(bootstrap::read(object, &spec, context)).await? {
        spec.kubeadm = Some(kubeadm);
    }
    claims::own_again(object, &spec.id.cluster.name, context)
        .await
        .map_err(Error::Claims)?;
    let id = spec.id.clone();
    let role = spec.role;
    let made = context.cloud.ensure_machine(spec);
    // The answer to its creation says what was made, whatever becomes of the calls after it.
    let created = made.is_ok() && object.origin().is_none();
    let created = if created {
        context.cloud.observe_machine(&id)
    } else {
        None
    };
    let observed = made.and_then(|()| register(context, &id, role));
    let observed = observed.and_then(|()| context.cloud.describe_machine(&id));
    let wanted = match &observed {
        Ok(Some(observed)) => recorded(object, observed),
        Ok(None) | Err(_) => created.as_ref().map(|created| with_origin(object, created)),
    };
    let mut written = None;
    if let Some((wanted, precondition)) = wanted {
        // Before the status says that the machine is provisioned: then Cluster API reads spec and status.
        let patched = patch::object(&api(object, context), object, &wanted, precondition).await;
        written = patched.map_err(Error::Patch)?;
        if let Some(created) = created {
            info!(machine = %id, zone = created.zone, "Created an instance");
            events::instance_created(object, created.zone.as_deref(), &context.events);
        }
    }
    Ok(Applied {
        object: written,
        observed,
        claimed,
    })
}

/// The object of a machine that was made, while reads of the machine are refused: the next manager has to know that it
/// exists. Pure.
fn with_origin(object: &InMemoryMachine, created: &MachineObservation) -> (InMemoryMachine, Precondition) {
    let mut wanted = object.clone();
    wanted.instance_mut().origin = Some(origin(None, created));
    (wanted, Precondition::ResourceVersion)
}

/// The object with the data that has to outlive its status: the origin and the software of the machine, its provider ID
/// once it has booted, and the end of an update. None when the object already has all of that. Pure.
fn recorded(
    object: &InMemoryMachine,
    observed: &MachineObservation,
) -> Option<(InMemoryMachine, Precondition)> {
    let known = object.origin();
    let named = !object.spec.provider_id.is_empty() || observed.reached(Stage::Vm).is_none();
    let booted = observed
        .stages
        .keys()
        .all(|stage| observed.reached(*stage).is_some());
    let origin = origin(known.clone(), observed);
    let ended = ended(object, observed);
    // Until the machine has booted completely, the conditions show which parts are up.
    let noted = known.as_ref().is_some_and(|known| *known == origin || !booted);
    if named && noted && ended.is_none() {
        return None;
    }
    let mut wanted = object.clone();
    if !named {
        wanted.spec.provider_id.clone_from(&observed.provider_id);
    }
    let is_first = known.is_none();
    // Another update may have been requested since, and this write would mark it as ended. A manager that leads no more
    // may have sent the first origin long ago, and it would replace parts of the origin that the next one has written.
    let precondition = if ended.is_some() || is_first {
        Precondition::ResourceVersion
    } else {
        Precondition::None
    };
    let record = wanted.instance_mut();
    record.origin = Some(origin);
    record.update = ended.or(record.update.take());
    Some((wanted, precondition))
}

/// The update that the object requests, once it has ended and the object does not say so yet. Pure.
fn ended(object: &InMemoryMachine, observed: &MachineObservation) -> Option<Update> {
    let asked = object.update().filter(|update| update.ended.is_none())?;
    let seen = observed.update.filter(|seen| seen.asked_at == asked.asked_at.0)?;
    Some(Update {
        ended: Some(MicroTime(seen.ended?)),
        ..asked
    })
}

/// The origin of a machine. It keeps the times that were written first: a status has them only in whole seconds, and
/// the cloud gets those after a restart. It does not keep those of a manager that began the machine at another time and
/// leads no more. Pure.
fn origin(known: Option<CreationRecord>, observed: &MachineObservation) -> CreationRecord {
    let reached = observed.stages.keys().filter_map(|stage| {
        observed
            .reached(*stage)
            .map(|at| (stage.as_str().to_owned(), MicroTime(at)))
    });
    let reached: BTreeMap<_, _> = reached.collect();
    let address = |address: &nephele_cloud::MachineAddress| MachineAddress {
        kind: address.kind.clone(),
        address: address.address.clone(),
    };
    let Allocation {
        addresses,
        pod_cidrs,
        owner_set,
        ordinal,
    } = &observed.allocation;
    let known = known.filter(|known| known.start_time.0.as_second() == observed.started_at.as_second());
    let (start_time, known_reached) = known.map(|known| (known.start_time, known.reached)).unzip();
    CreationRecord {
        start_time: start_time.unwrap_or(MicroTime(observed.started_at)),
        addresses: addresses.iter().map(address).collect(),
        pod_cidrs: pod_cidrs.clone(),
        failure_domain: observed.zone.clone().unwrap_or_default(),
        region: observed.region.clone().unwrap_or_default(),
        cloud: observed.cloud_spec.clone(),
        hardware: hardware(observed),
        software: Some(software::to_api(&observed.software)),
        kubeadm: observed.kubeadm.as_deref().cloned().map(bootstrap::to_api),
        seed_key: ordinal.map(|ordinal| SeedKey {
            owner_set: owner_set.clone(),
            ordinal: i64::from(ordinal),
        }),
        reached: known_reached
            .filter(|known| known.keys().eq(reached.keys()))
            .unwrap_or(reached),
    }
}

/// The hardware of a machine; none for the default hardware.
fn hardware(observed: &MachineObservation) -> Option<MachineHardware> {
    let Hardware {
        architecture,
        operating_system,
        capacity,
    } = observed.hardware.clone();
    let hardware = MachineHardware {
        architecture,
        operating_system,
        capacity,
    };
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

async fn remove(
    object: &InMemoryMachine,
    context: &Context,
    id: Option<&MachineId>,
) -> Result<Removal<MachineError>, Error> {
    let had_one = id.is_some_and(|id| context.cloud.observe_machine(id).is_some());
    let (was_registered, answer) = id.map(|id| delete(context, id)).unzip();
    match (&answer, id) {
        (Some(Ok(Deletion::Gone)), Some(id)) if had_one => {
            info!(machine = %id, "Deleted an instance");
            events::instance_deleted(object, &context.events);
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
    let left = claims::release(object, cluster, context)
        .await
        .map_err(Error::Claims)?;
    if !left.is_empty() {
        note_end(object, context).await?;
    }
    Ok(removal.with_claims(left))
}

/// Restores a machine from before a restart that is to be deleted, and deletes it. Returns how far that is.
async fn resume_removal(
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
    let since = object.deletion().map(|deletion| deletion.time.0);
    context.cloud.restore_deleting(spec, since)
}

/// Records that the deletion has begun, before the status says so: after a restart the deletion ends when it would have.
async fn note_deletion(object: &InMemoryMachine, context: &Context, since: Timestamp) -> Result<(), Error> {
    if object.deletion().is_some() {
        return Ok(());
    }
    let mut wanted = object.clone();
    wanted.instance_mut().deletion = Some(deletion::Deletion {
        time: MicroTime(since),
        ended: None,
    });
    note(object, context, wanted).await
}

/// Records that the instance is gone: after a restart its deletion is not asked for again.
async fn note_end(object: &InMemoryMachine, context: &Context) -> Result<(), Error> {
    if object.has_ended() || !has_begun(object) {
        return Ok(());
    }
    let mut wanted = object.clone();
    let now = MicroTime(context.now());
    let begun = object
        .deletion()
        .map_or_else(|| now.clone(), |deletion| deletion.time);
    wanted.instance_mut().deletion = Some(deletion::Deletion {
        time: begun,
        ended: Some(now),
    });
    note(object, context, wanted).await
}

/// Records that the machine gets no requests any more although the cloud does not delete it yet.
async fn note_deregistration(object: &InMemoryMachine, context: &Context) -> Result<(), Error> {
    let mut wanted = object.clone();
    wanted
        .instance_mut()
        .deregistered
        .get_or_insert(MicroTime(context.now()));
    note(object, context, wanted).await
}

async fn note(object: &InMemoryMachine, context: &Context, wanted: InMemoryMachine) -> Result<(), Error> {
    let patched = patch::object(&api(object, context), object, &wanted, Precondition::None).await;
    patched.map_err(Error::Patch).map(drop)
}

/// Removes the finalizer when nothing else is left.
async fn let_go(object: &InMemoryMachine, context: &Context) -> Result<(), Error> {
    let removed = patch::remove_finalizer(&api(object, context), object, finalizers::MACHINE).await;
    removed.map_err(Error::Patch)?;
    context
        .machine_index
        .forget(&object.namespace().unwrap_or_default(), &object.name_any());
    Ok(())
}

/// Terminates the instance of a machine, as a cloud does when an instance fails. The termination is written to the
/// object before the cloud is called, so that no restart and no other management cluster brings the instance back.
/// Returns the object as it was written, if it was, and the state of the deletion.
async fn terminate(
    object: &InMemoryMachine,
    context: &Context,
    spec: MachineSpec,
    noted: bool,
    now: Timestamp,
) -> Result<(Option<InMemoryMachine>, Result<Deletion, MachineError>), Error> {
    let id = spec.id.clone();
    let mut written = None;
    if !noted {
        let mut wanted = object.clone();
        wanted
            .instance_mut()
            .termination
            .get_or_insert(Termination { time: MicroTime(now) });
        let patched = patch::object(&api(object, context), object, &wanted, Precondition::None).await;
        written = patched.map_err(Error::Patch)?;
        info!(machine = %id, "An instance was terminated");
    }
    if object.has_ended() {
        return Ok((written, Ok(Deletion::Gone)));
    }
    let is_there = context.cloud.observe_machine(&id).is_some();
    let restored = if is_there {
        Ok(())
    } else {
        restore_deleting(object, context, spec)
    };
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
