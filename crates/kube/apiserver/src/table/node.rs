//! Nodes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    column::{Column, Row},
    format::{condition, items, text, text_or},
};

pub(super) const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Status", status),
    Column::text("Roles", roles),
    Column::AGE,
    Column::text("Version", |row| text_or(info(row, "kubeletVersion"), "")),
    Column::text("Internal-IP", |row| address(row, "InternalIP")).wide(),
    Column::text("External-IP", |row| address(row, "ExternalIP")).wide(),
    Column::text("OS-Image", |row| text_or(info(row, "osImage"), "<unknown>")).wide(),
    Column::text("Kernel-Version", kernel).wide(),
    Column::text("Container-Runtime", |row| {
        text_or(info(row, "containerRuntimeVersion"), "<unknown>")
    })
    .wide(),
];

fn info<'a>(row: Row<'a>, field: &str) -> &'a Value {
    &row.status("nodeInfo")[field]
}

fn status(row: Row<'_>) -> Value {
    let status = match condition(row.object, "Ready") {
        Some(condition) if condition["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordoned = *row.spec("unschedulable") == Value::Bool(true);
    if cordoned {
        format!("{status},SchedulingDisabled").into()
    } else {
        status.into()
    }
}

fn roles(row: Row<'_>) -> Value {
    let labels = row.metadata("labels").as_object().into_iter().flatten();
    let roles: BTreeSet<_> = labels
        .filter_map(
            |(label, value)| match label.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => Some(role),
                None if label == "kubernetes.io/role" => value.as_str(),
                None => None,
            },
        )
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        "<none>".into()
    } else {
        roles.into_iter().collect::<Vec<_>>().join(",").into()
    }
}

fn address(row: Row<'_>, kind: &str) -> Value {
    let found = items(row.status("addresses"))
        .iter()
        .find(|address| address["type"] == kind);
    found.map_or("<none>".into(), |found| text_or(&found["address"], "<none>"))
}

fn kernel(row: Row<'_>) -> Value {
    let kernel = text_or(info(row, "kernelVersion"), "<unknown>");
    match text(info(row, "architecture")) {
        "" => kernel,
        architecture => format!("{} ({architecture})", text(&kernel)).into(),
    }
}
