//! Clusters.

use jiff::Timestamp;
use nephele_api::{
    core::{Cluster, Machine},
    labels,
};
use nephele_fake_capi::{AVAILABLE, RUNNING};
use serde_json::Value;

use crate::inspect::{
    found::{Found, Surroundings, parsed},
    listing::{Listing, columns, message, row, status},
    text::{age, or_dash},
};

pub(super) fn listing(found: &Found, around: &Surroundings, now: Timestamp) -> Listing {
    let narrow = [
        "NAME",
        "PHASE",
        "AVAILABLE",
        "ENDPOINT",
        "MACHINES",
        "FAULTS",
        "VERSION",
        "AGE",
    ];
    let columns = columns(&narrow, &["INFRASTRUCTURE", "MESSAGE"]);
    let affected = around.affected();
    let rows = found.objects.iter().filter_map(|object| {
        let cluster: Cluster = serde_json::from_value(object.clone()).ok()?;
        let machines: Vec<Machine> = parsed(&machines_of(object, around));
        let up = machines
            .iter()
            .filter(|machine| machine.status.as_ref().is_some_and(|s| s.phase == RUNNING))
            .count();
        let status_of = cluster.status.clone().unwrap_or_default();
        let endpoint = cluster
            .spec
            .control_plane_endpoint
            .as_ref()
            .filter(|endpoint| endpoint.port != 0);
        let infrastructure = cluster.spec.infrastructure_ref.clone().unwrap_or_default();
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let faults = affected.cluster(cluster.metadata.namespace.as_deref(), &name);
        let cells = vec![
            name,
            or_dash(&status_of.phase),
            status(&status_of.conditions, AVAILABLE),
            endpoint.map_or_else(|| "-".to_owned(), ToString::to_string),
            format!("{up}/{}", machines.len()),
            or_dash(&faults),
            or_dash(&version(object, &machines)),
            age(cluster.metadata.creation_timestamp.as_ref(), now),
            or_dash(&infrastructure.kind),
            message(&status_of.conditions, AVAILABLE),
        ];
        Some(row(&cluster.metadata, cells))
    });
    Listing {
        columns,
        rows: rows.collect(),
    }
}

/// The Machines of a cluster.
pub(in crate::inspect) fn machines_of(cluster: &Value, around: &Surroundings) -> Vec<Value> {
    let of_cluster = |machine: &&Value| {
        machine["spec"]["clusterName"] == cluster["metadata"]["name"]
            && machine["metadata"]["namespace"] == cluster["metadata"]["namespace"]
    };
    around.machines.iter().filter(of_cluster).cloned().collect()
}

/// The version that was asked for, or else those of the control plane machines. While it is upgraded there are two.
fn version(cluster: &Value, machines: &[Machine]) -> String {
    if let Some(version) = cluster["spec"]["topology"]["version"].as_str() {
        return version.to_owned();
    }
    let of_control_plane = machines
        .iter()
        .filter(|machine| labels::is_control_plane(&machine.metadata));
    let mut versions: Vec<_> = of_control_plane
        .map(|machine| machine.spec.version.as_str())
        .collect();
    versions.sort_unstable();
    versions.dedup();
    versions.join(",")
}
