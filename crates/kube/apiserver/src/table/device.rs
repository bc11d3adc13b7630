//! Devices of Nodes and claims for them.

use serde_json::Value;

use super::{
    column::{Column, Row},
    format::{items, text_or},
};

pub(super) const RESOURCE_CLAIM: &[Column] = &[Column::NAME, Column::text("State", state), Column::AGE];

pub(super) const RESOURCE_SLICE: &[Column] = &[
    Column::NAME,
    Column::text("Node", |row| text_or(row.spec("nodeName"), "")),
    Column::text("Driver", |row| text_or(row.spec("driver"), "")),
    Column::text("Pool", |row| text_or(&row.spec("pool")["name"], "")),
    Column::AGE,
];

fn state(row: Row<'_>) -> Value {
    let is_deleted = row.metadata("deletionTimestamp").is_string();
    let allocated = match row.status("allocation") {
        Value::Null if is_deleted => None,
        Value::Null => Some("pending"),
        _ if items(row.status("reservedFor")).is_empty() => Some("allocated"),
        _ => Some("allocated,reserved"),
    };
    let states: Vec<_> = is_deleted
        .then_some("deleted")
        .into_iter()
        .chain(allocated)
        .collect();
    states.join(",").into()
}
