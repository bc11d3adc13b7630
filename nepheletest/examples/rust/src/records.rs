//! The records of a cluster.

use std::collections::BTreeMap;

use kube::ResourceExt;

use crate::Machine;

/// The internal addresses of the machines that are ready, by name.
pub(crate) fn of(machines: &[Machine]) -> BTreeMap<String, String> {
    let ready = machines.iter().filter(|machine| is_ready(machine));
    ready
        .filter_map(|machine| Some((machine.name_any(), internal_address(machine)?)))
        .collect()
}

fn is_ready(machine: &Machine) -> bool {
    let mut conditions = machine.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.kind == "Ready" && condition.status == "True")
}

fn internal_address(machine: &Machine) -> Option<String> {
    let addresses = &machine.status.as_ref()?.addresses;
    let internal = addresses.iter().find(|address| address.kind == "InternalIP")?;
    Some(internal.address.clone())
}
