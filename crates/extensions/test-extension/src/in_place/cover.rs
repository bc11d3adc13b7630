//! Decides which changes can be made in place. Pure.

use nephele_runtime_sdk::{
    hooks::{
        CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSetRequest,
        CanUpdateMachineSetResponse, Patch, Settings,
    },
    wire::Object,
};
use serde_json::{Map, Value};

use super::{
    groups::{BOOTSTRAP_GROUP, INFRASTRUCTURE_GROUP},
    target::ETCD_IMAGE_TAG,
};
use crate::settings::{DISABLE_IN_PLACE_UPDATES, is_true};

const MACHINE_FIELDS: [&[&str]; 1] = [&["version"]];
const BOOTSTRAP_FIELDS: [&[&str]; 2] = [&["files"], &ETCD_IMAGE_TAG];
/// The fields of an infrastructure machine that can change in place. The provider writes `instance`: it may differ when
/// one object was read later than the other, which is not a requested change.
const INFRASTRUCTURE_FIELDS: [&[&str]; 3] = [&["image"], &["behaviour"], &["instance"]];

/// The path of the spec in an object.
const SPEC: [&str; 1] = ["spec"];
/// The path of the spec in a template.
const TEMPLATE_SPEC: [&str; 3] = ["spec", "template", "spec"];

/// Returns patches for those changes of a Machine that can be made in place. A machine that is not simulated gets no
/// patches.
#[must_use]
pub fn can_update_machine(request: &CanUpdateMachineRequest) -> CanUpdateMachineResponse {
    let current = &request.current;
    let desired = &request.desired;
    if is_off(&request.settings) || !is_simulated(&current.infrastructure_machine, "InMemoryMachine") {
        return CanUpdateMachineResponse::default();
    }
    CanUpdateMachineResponse {
        machine_patch: patch(&current.machine, &desired.machine, &SPEC, &MACHINE_FIELDS),
        infrastructure_machine_patch: patch(
            &current.infrastructure_machine,
            &desired.infrastructure_machine,
            &SPEC,
            &INFRASTRUCTURE_FIELDS,
        ),
        bootstrap_config_patch: bootstrap_patch(
            &current.bootstrap_config,
            &desired.bootstrap_config,
            "KubeadmConfig",
            &SPEC,
        ),
        ..CanUpdateMachineResponse::default()
    }
}

/// Returns patches for those changes of a `MachineSet` that can be made in place, as [`can_update_machine`] does.
#[must_use]
pub fn can_update_machine_set(request: &CanUpdateMachineSetRequest) -> CanUpdateMachineSetResponse {
    let current = &request.current;
    let desired = &request.desired;
    let simulated = is_simulated(
        &current.infrastructure_machine_template,
        "InMemoryMachineTemplate",
    );
    if is_off(&request.settings) || !simulated {
        return CanUpdateMachineSetResponse::default();
    }
    CanUpdateMachineSetResponse {
        machine_set_patch: patch(
            &current.machine_set,
            &desired.machine_set,
            &TEMPLATE_SPEC,
            &MACHINE_FIELDS,
        ),
        infrastructure_machine_template_patch: patch(
            &current.infrastructure_machine_template,
            &desired.infrastructure_machine_template,
            &TEMPLATE_SPEC,
            &INFRASTRUCTURE_FIELDS,
        ),
        bootstrap_config_template_patch: bootstrap_patch(
            &current.bootstrap_config_template,
            &desired.bootstrap_config_template,
            "KubeadmConfigTemplate",
            &TEMPLATE_SPEC,
        ),
        ..CanUpdateMachineSetResponse::default()
    }
}

fn is_off(settings: &Settings) -> bool {
    is_true(settings, DISABLE_IN_PLACE_UPDATES)
}

fn is_simulated(infrastructure: &Object, kind: &str) -> bool {
    infrastructure.group() == INFRASTRUCTURE_GROUP && infrastructure.kind() == kind
}

fn bootstrap_patch(current: &Object, desired: &Object, kind: &str, spec: &[&str]) -> Patch {
    if current.group() != BOOTSTRAP_GROUP || current.kind() != kind {
        return Patch::default();
    }
    patch(current, desired, spec, &BOOTSTRAP_FIELDS)
}

/// The patch that sets these fields to their values in the desired object, and no other fields.
fn patch(current: &Object, desired: &Object, spec: &[&str], fields: &[&[&str]]) -> Patch {
    let (Some(before), Some(desired)) = (current.fields(), desired.fields()) else {
        return Patch::default();
    };
    let mut after = before.clone();
    for field in fields {
        let path: Vec<&str> = spec.iter().chain(*field).copied().collect();
        carry(&mut after, desired, &path);
    }
    Patch::between(&Value::Object(before.clone()), &Value::Object(after))
}

/// Sets a field of `current` to its value in `desired`, which may be absent or null. Objects on the path are added
/// and removed with it: Cluster API compares the result, and an empty object differs from an absent one.
fn carry(current: &mut Map<String, Value>, desired: &Map<String, Value>, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        match desired.get(*first) {
            Some(value) => current.insert((*first).to_owned(), value.clone()),
            None => current.remove(*first),
        };
        return;
    }
    let wanted = desired.get(*first);
    // A value that is not an object has no such field, so it does not change.
    let is_way = |value: &Value| value.is_object() || value.is_null();
    if !current.get(*first).is_none_or(is_way) || !wanted.is_none_or(is_way) {
        return;
    }
    let nothing = Map::new();
    let there = wanted.and_then(Value::as_object).unwrap_or(&nothing);
    let mut inner = current
        .get(*first)
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    carry(&mut inner, there, rest);
    match wanted {
        _ if !inner.is_empty() => current.insert((*first).to_owned(), Value::Object(inner)),
        // The object on the path had no other field.
        Some(value) if there.is_empty() => current.insert((*first).to_owned(), value.clone()),
        // The desired object has other fields, which this patch must not add.
        Some(_) if current.get(*first).is_some_and(Value::is_object) => {
            current.insert((*first).to_owned(), Value::Object(inner))
        }
        Some(_) => None,
        None => current.remove(*first),
    };
}

#[cfg(test)]
mod tests;
