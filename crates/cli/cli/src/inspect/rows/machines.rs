//! Machines with the stages of the simulated machines behind them.

use jiff::Timestamp;
use nephele_api::{conditions::types, core::Machine, infrastructure::v1beta2::InMemoryMachine, labels};
use nephele_page::Stage;
use serde_json::Value;

use crate::inspect::{
    found::{Surroundings, parsed},
    listing::{Listing, columns, message, row},
    text::{age, or_dash},
};

/// The column of a stage, and the condition that tells its progress, in the order of a start.
const STAGES: [(&str, &str); 4] = [
    ("VM", types::VM_PROVISIONED),
    ("NODE", types::NODE_PROVISIONED),
    ("ETCD", types::ETCD_PROVISIONED),
    ("APISERVER", types::API_SERVER_PROVISIONED),
];

pub(super) fn listing(objects: &[Value], around: &Surroundings, now: Timestamp) -> Listing {
    let simulated: Vec<InMemoryMachine> = parsed(&around.simulated_machines);
    let [vm, node, etcd, api_server] = STAGES.map(|(name, _)| name);
    let narrow = [
        "NAME",
        "CLUSTER",
        "PHASE",
        vm,
        node,
        etcd,
        api_server,
        "FAULTS",
        "ADDRESSES",
        "ZONE",
        "TYPE",
        "AGE",
    ];
    let columns = columns(&narrow, &["VERSION", "NODE NAME", "PROVIDER ID", "MESSAGE"]);
    let affected = around.affected();
    let rows = parsed::<Machine>(objects).into_iter().map(|machine| {
        let behind = simulated.iter().find(|other| is_behind(&machine, other));
        let status = machine.status.clone().unwrap_or_default();
        let reported = behind
            .and_then(|behind| behind.status.clone())
            .unwrap_or_default();
        let addresses = reported
            .addresses
            .iter()
            .filter(|address| address.kind == "InternalIP");
        let addresses: Vec<_> = addresses.map(|address| address.address.as_str()).collect();
        let zone = [&reported.failure_domain, &machine.spec.failure_domain]
            .into_iter()
            .find(|zone| !zone.is_empty());
        let text = |text: Option<&String>| or_dash(text.map_or("", String::as_str));
        let mut cells = vec![
            machine.metadata.name.clone().unwrap_or_default(),
            or_dash(&machine.spec.cluster_name),
            or_dash(&status.phase),
        ];
        cells.extend(stages(&machine, behind));
        let simulated = behind.and_then(|behind| behind.metadata.name.as_deref());
        let faults = affected.machine(
            machine.metadata.namespace.as_deref(),
            &machine.spec.cluster_name,
            simulated.unwrap_or_default(),
        );
        cells.extend([
            or_dash(&faults),
            or_dash(&addresses.join(",")),
            text(zone),
            text(behind.map(|behind| &behind.spec.instance_type)),
            age(machine.metadata.creation_timestamp.as_ref(), now),
            or_dash(&machine.spec.version),
            text(status.node_ref.as_ref().map(|node| &node.name)),
            or_dash(&machine.spec.provider_id),
            message(&status.conditions, types::READY),
        ]);
        row(&machine.metadata, cells)
    });
    Listing {
        columns,
        rows: rows.collect(),
    }
}

/// Whether this is the infrastructure of the Machine.
fn is_behind(machine: &Machine, other: &InMemoryMachine) -> bool {
    let reference = machine.spec.infrastructure_ref.as_ref();
    let same_name = reference.is_some_and(|reference| {
        reference.kind == "InMemoryMachine" && other.metadata.name.as_deref() == Some(reference.name.as_str())
    });
    same_name && other.metadata.namespace == machine.metadata.namespace
}

/// Only control plane machines have the last two stages.
fn stages(machine: &Machine, behind: Option<&InMemoryMachine>) -> Vec<String> {
    let of_control_plane = labels::is_control_plane(&machine.metadata);
    let progress = |(number, (_, condition)): (usize, (&str, &str))| {
        let shown = behind.filter(|_| of_control_plane || number < 2);
        match shown.and_then(|behind| Stage::of(behind, condition)) {
            None => "-",
            Some(Stage::Up) => "Up",
            Some(Stage::Starting) => "Starting",
            Some(Stage::Failed | Stage::Terminated) => "Failed",
            Some(Stage::Waiting) => "Waiting",
        }
    };
    STAGES
        .into_iter()
        .enumerate()
        .map(progress)
        .map(str::to_owned)
        .collect()
}
