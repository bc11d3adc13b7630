//! Requests, made from the provider's objects. Pure.

use kube::Resource;
use nephele_api::infrastructure::v1beta2::MachineAddress;
use nephele_infra_controller::MachineInQuestion;
use nephele_runtime_sdk::wire::Object;
use serde::Serialize;

use crate::hooks::{AfterMachineDeleteRequest, BeforeMachineCreateRequest, Instance, InstanceAddress};

pub(crate) fn before_create(machine: &MachineInQuestion<'_>) -> BeforeMachineCreateRequest {
    BeforeMachineCreateRequest {
        cluster: object(machine.cluster),
        machine: object(machine.machine),
        infrastructure_machine: object(Some(machine.object)),
        instance: instance(&machine.instance),
        ..BeforeMachineCreateRequest::default()
    }
}

pub(crate) fn after_delete(machine: &MachineInQuestion<'_>) -> AfterMachineDeleteRequest {
    AfterMachineDeleteRequest {
        cluster: object(machine.cluster),
        machine: object(machine.machine),
        infrastructure_machine: object(Some(machine.object)),
        instance: instance(&machine.instance),
        ..AfterMachineDeleteRequest::default()
    }
}

/// An object with its version and kind; absent for `None`.
fn object<K: Resource<DynamicType = ()> + Serialize>(object: Option<&K>) -> Object {
    let written = serde_json::to_value(object).expect("objects are JSON with texts as keys");
    Object::try_from(written).expect("an object is an object, and none is none")
}

fn instance(instance: &nephele_infra_controller::Instance) -> Instance {
    let nephele_infra_controller::Instance {
        provider_id,
        control_plane,
        version,
        failure_domain,
        region,
        instance_type,
        image,
        addresses,
    } = instance.clone();
    let address = |MachineAddress { kind, address }: MachineAddress| InstanceAddress { kind, address };
    Instance {
        provider_id,
        control_plane,
        version,
        failure_domain,
        region,
        instance_type,
        image,
        addresses: addresses.into_iter().map(address).collect(),
    }
}
