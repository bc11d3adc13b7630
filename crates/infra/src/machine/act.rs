//! Brings a machine about, or lets it go. Everything here may be repeated.

use std::time::Duration;

use kube::{Api, ResourceExt as _};
use nephele_api::finalizers;
use nephele_api::infrastructure::v1beta2::InMemoryMachine;
use nephele_cloud::{
    Deletion, ErrorClass, MachineError, MachineId, MachineObservation, MachineSpec, Stage, StageObservation,
};
use nephele_kit::{Outcome, PatchError, Precondition, patch};

use crate::context::Context;

/// What came of it.
pub(super) struct Applied {
    pub(super) observed: Result<Option<MachineObservation>, MachineError>,
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
            // Deleted between asking and looking.
            Ok(None) => Outcome::After(Duration::from_secs(1)),
        }
    }
}

fn api(object: &InMemoryMachine, context: &Context) -> Api<InMemoryMachine> {
    Api::namespaced(context.client.clone(), &object.namespace().unwrap_or_default())
}

pub(super) async fn provide(
    object: &InMemoryMachine,
    context: &Context,
    spec: MachineSpec,
) -> Result<Applied, PatchError> {
    let api = api(object, context);
    // Before anything comes to be that would have to be cleaned up.
    let held = patch::add_finalizer(&api, object, finalizers::MACHINE).await?;
    let object = held.as_ref().unwrap_or(object);

    let id = spec.id.clone();
    let observed = context.cloud.ensure_machine(spec).map(|()| context.cloud.observe_machine(&id));
    if let Ok(Some(observed)) = &observed
        && matches!(observed.stages.get(&Stage::Vm), Some(StageObservation::Reached { .. }))
    {
        // Before the status says that the machine is provisioned: Cluster API reads both at that moment.
        let mut named = object.clone();
        named.spec.provider_id.clone_from(&observed.provider_id);
        patch::object(&api, object, &named, Precondition::None).await?;
    }
    Ok(Applied { observed })
}

pub(super) async fn remove(
    object: &InMemoryMachine,
    context: &Context,
    id: Option<&MachineId>,
) -> Result<Outcome, PatchError> {
    if let Some(id) = id
        && context.cloud.delete_machine(id) == Deletion::InProgress
    {
        return Ok(Outcome::WaitingOn("deletion"));
    }
    patch::remove_finalizer(&api(object, context), object, finalizers::MACHINE).await?;
    Ok(Outcome::Done)
}
