//! Kinds of the control plane itself: its components, the certificates that it signs, its fairness, its runtimes.

use serde_json::Value;

use super::{
    age,
    column::{Column, Row},
    format::{condition, count, text, text_or},
};

pub(super) const API_SERVICE: &[Column] = &[
    Column::NAME,
    Column::text("Service", |row| match row.spec("service") {
        Value::Null => "Local".into(),
        service => format!("{}/{}", text(&service["namespace"]), text(&service["name"])).into(),
    }),
    Column::text("Available", |row| {
        let Some(available) = condition(row.object, "Available") else {
            return "Unknown".into();
        };
        match (text(&available["status"]), text(&available["reason"])) {
            (status, reason) if status == "True" || reason.is_empty() => status.into(),
            (status, reason) => format!("{status} ({reason})").into(),
        }
    }),
    Column::AGE,
];

pub(super) const CERTIFICATE_SIGNING_REQUEST: &[Column] = &[
    Column::NAME,
    Column::AGE,
    Column::text("SignerName", |row| text_or(row.spec("signerName"), "<none>")),
    Column::text("Requestor", |row| text_or(row.spec("username"), "")),
    Column::text("RequestedDuration", |row| {
        match row.spec("expirationSeconds").as_i64() {
            None => "<none>".into(),
            Some(seconds) => age::human(seconds).into(),
        }
    }),
    Column::text("Condition", |row| {
        let decided = match (condition(row.object, "Denied"), condition(row.object, "Approved")) {
            (Some(_), _) => "Denied",
            (None, Some(_)) => "Approved",
            (None, None) => "Pending",
        };
        let failed = condition(row.object, "Failed").map_or("", |_| ",Failed");
        let issued = if text(row.status("certificate")).is_empty() {
            ""
        } else {
            ",Issued"
        };
        format!("{decided}{failed}{issued}").into()
    }),
];

/// No server of Nephele has an object of this kind.
pub(super) const COMPONENT_STATUS: &[Column] = &[
    Column::NAME,
    Column::text("Status", |_| "Unknown".into()),
    Column::text("Message", |_| "".into()),
    Column::text("Error", |_| "".into()),
];

pub(super) const RUNTIME_CLASS: &[Column] = &[
    Column::NAME,
    Column::text("Handler", |row| text_or(&row.object["handler"], "")),
    Column::AGE,
];

pub(super) const FLOW_SCHEMA: &[Column] = &[
    Column::NAME,
    Column::text("PriorityLevel", |row| {
        text_or(&row.spec("priorityLevelConfiguration")["name"], "")
    }),
    Column::text("MatchingPrecedence", |row| {
        count(row.spec("matchingPrecedence")).into()
    }),
    Column::text("DistinguisherMethod", |row| {
        text_or(&row.spec("distinguisherMethod")["type"], "<none>")
    }),
    Column::AGE,
    Column::text("MissingPL", |row| {
        condition(row.object, "Dangling")
            .map_or_else(|| "?".into(), |dangling| text_or(&dangling["status"], ""))
    }),
];

pub(super) const PRIORITY_LEVEL_CONFIGURATION: &[Column] = &[
    Column::NAME,
    Column::text("Type", |row| text_or(row.spec("type"), "")),
    Column::text("NominalConcurrencyShares", |row| {
        number(&row.spec("limited")["nominalConcurrencyShares"])
    }),
    Column::text("Queues", |row| queuing(row, "queues")),
    Column::text("HandSize", |row| queuing(row, "handSize")),
    Column::text("QueueLengthLimit", |row| queuing(row, "queueLengthLimit")),
    Column::AGE,
];

fn queuing(row: Row<'_>, field: &str) -> Value {
    number(&row.spec("limited")["limitResponse"]["queuing"][field])
}

fn number(value: &Value) -> Value {
    if value.is_number() {
        value.clone()
    } else {
        "<none>".into()
    }
}
