//! Calls extensions before a machine is created and after it is deleted. It only reads the answer: the plan decides
//! what follows from it.

use futures::{Stream, StreamExt as _, stream};
use kube::{
    ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use nephele_api::{
    conditions::{self, reasons, types},
    infrastructure::v1beta2::{InMemoryMachine, MachineAddress},
    labels,
};
use nephele_cloud::MachineSpec;
use nephele_controller::owner_machine;
use nephele_model::{MachineId, Role};

use crate::{
    context::Context,
    machine_hooks::{Answer, HookError, Instance, MachineInQuestion},
};

/// Asks whether a machine may be created.
pub(super) async fn before_create(
    object: &InMemoryMachine,
    context: &Context,
    spec: &MachineSpec,
) -> Result<Answer, HookError> {
    asked(
        object,
        context,
        Some(&spec.id),
        to_be(object, spec),
        Occasion::BeforeCreate,
    )
    .await
}

/// Asks whether the object of a machine may go, after everything else of the machine is gone.
pub(super) async fn after_delete(
    object: &InMemoryMachine,
    context: &Context,
    id: Option<&MachineId>,
) -> Result<Answer, HookError> {
    asked(object, context, id, was(object, id), Occasion::AfterDelete).await
}

#[derive(Clone, Copy)]
enum Occasion {
    BeforeCreate,
    AfterDelete,
}

async fn asked(
    object: &InMemoryMachine,
    context: &Context,
    id: Option<&MachineId>,
    instance: Instance,
    occasion: Occasion,
) -> Result<Answer, HookError> {
    let namespace = object.namespace().unwrap_or_default();
    let owner = owner_machine(&object.metadata);
    let machine = owner.and_then(|owner| context.machines.get(&namespace, &owner.name));
    let cluster = id.and_then(|id| context.cluster(&id.cluster));
    let question = MachineInQuestion {
        object,
        machine: machine.as_deref(),
        cluster: cluster.as_deref(),
        instance,
    };
    match occasion {
        Occasion::BeforeCreate => context.hooks.before_create(question).await,
        Occasion::AfterDelete => context.hooks.after_delete(question).await,
    }
}

/// The machine as it will be created. Pure.
fn to_be(object: &InMemoryMachine, spec: &MachineSpec) -> Instance {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let address = |address: &nephele_cloud::MachineAddress| MachineAddress {
        kind: address.kind.clone(),
        address: address.address.clone(),
    };
    Instance {
        provider_id: provider_id(object, &spec.id),
        control_plane: spec.role == Role::ControlPlane,
        version: spec.version.clone(),
        failure_domain: text(&spec.zone),
        region: text(&spec.region),
        instance_type: text(&spec.instance_type),
        image: text(&spec.image),
        addresses: spec.allocation.addresses.iter().map(address).collect(),
    }
}

/// The machine as it was, read from its object, the only part that is left. Pure.
fn was(object: &InMemoryMachine, id: Option<&MachineId>) -> Instance {
    let status = object.status.clone().unwrap_or_default();
    let origin = object.origin();
    let began = status.start_time.is_some() || origin.is_some();
    let provider_id = match id.filter(|_| began) {
        Some(id) => provider_id(object, id),
        None => object.spec.provider_id.clone(),
    };
    let (placed, addresses, region) = match origin {
        Some(origin) => (origin.failure_domain, origin.addresses, origin.region),
        None => Default::default(),
    };
    let or = |first: String, second: String| if first.is_empty() { second } else { first };
    Instance {
        provider_id,
        control_plane: labels::is_control_plane(&object.metadata),
        version: String::new(),
        failure_domain: or(status.failure_domain, placed),
        region,
        instance_type: object.spec.instance_type.clone(),
        image: object.spec.image.clone(),
        addresses: if status.addresses.is_empty() {
            addresses
        } else {
            status.addresses
        },
    }
}

/// A provider ID never changes once it is in the object.
fn provider_id(object: &InMemoryMachine, id: &MachineId) -> String {
    let given = &object.spec.provider_id;
    if given.is_empty() {
        id.provider_id()
    } else {
        given.clone()
    }
}

/// The machines that wait for an answer, each time the registered extensions change.
pub(crate) fn waiting(
    changes: impl Stream<Item = ()> + Send + 'static,
    store: Store<InMemoryMachine>,
) -> impl Stream<Item = ObjectRef<InMemoryMachine>> + Send + 'static {
    changes.flat_map(move |()| {
        let objects = store.state();
        let waiting = objects.iter().filter(|object| may_wait(object));
        stream::iter(
            waiting
                .map(|object| ObjectRef::from_obj(&**object))
                .collect::<Vec<_>>(),
        )
    })
}

/// Whether a machine may be waiting for an answer. Pure.
fn may_wait(object: &InMemoryMachine) -> bool {
    let said = object
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let reason = conditions::find(said, types::VM_PROVISIONED).map(|condition| condition.reason.as_str());
    let asked =
        reason.is_some_and(|reason| [reasons::WAITING_FOR_HOOK, reasons::HOOK_FAILED].contains(&reason));
    asked || object.metadata.deletion_timestamp.is_some()
}

#[cfg(test)]
mod tests;
