//! Kinds of the cluster itself: configuration, identity, leases, events.

use serde_json::Value;

use super::{
    column::{Column, Row},
    format::{count, items, length, text, text_or},
};

pub(super) const NAME_AND_AGE: &[Column] = &[Column::NAME, Column::AGE];

pub(super) const NAME_AND_CREATED_AT: &[Column] = &[
    Column::NAME,
    Column {
        kind: "date",
        ..Column::text("Created At", |row| row.metadata("creationTimestamp").clone())
    },
];

pub(super) const NAMESPACE: &[Column] = &[
    Column::NAME,
    Column::text("Status", |row| text_or(row.status("phase"), "")),
    Column::AGE,
];

pub(super) const CONFIG_MAP: &[Column] = &[
    Column::NAME,
    Column::text("Data", |row| {
        (length(&row.object["data"]) + length(&row.object["binaryData"])).into()
    }),
    Column::AGE,
];

pub(super) const SECRET: &[Column] = &[
    Column::NAME,
    Column::text("Type", |row| text_or(&row.object["type"], "Opaque")),
    Column::text("Data", |row| length(&row.object["data"]).into()),
    Column::AGE,
];

pub(super) const LEASE: &[Column] = &[
    Column::NAME,
    Column::text("Holder", |row| text_or(row.spec("holderIdentity"), "")),
    Column::AGE,
];

pub(super) const PRIORITY_CLASS: &[Column] = &[
    Column::NAME,
    Column::integer("Value", |row| count(&row.object["value"]).into()),
    Column::truth("Global-Default", |row| {
        (row.object["globalDefault"] == true).into()
    }),
    Column::AGE,
    Column::text("PreemptionPolicy", |row| {
        text_or(&row.object["preemptionPolicy"], "")
    }),
];

pub(super) const WEBHOOKS: &[Column] = &[
    Column::NAME,
    Column::integer("Webhooks", |row| length(&row.object["webhooks"]).into()),
    Column::AGE,
];

pub(super) const ROLE_BINDING: &[Column] = &[
    Column::NAME,
    Column::text("Role", |row| {
        let role = &row.object["roleRef"];
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into()
    }),
    Column::AGE,
    Column::text("Users", |row| subjects(row, "User")).wide(),
    Column::text("Groups", |row| subjects(row, "Group")).wide(),
    Column::text("ServiceAccounts", |row| subjects(row, "ServiceAccount")).wide(),
];

pub(super) const RESOURCE_QUOTA: &[Column] = &[
    Column::NAME,
    Column::text("Request", |row| quota(row, false)),
    Column::text("Limit", |row| quota(row, true)),
    Column::AGE,
];

pub(super) const EVENT: &[Column] = &[
    Column::text("Last Seen", |row| {
        match (event(row, "series"), event(row, "lastTimestamp")) {
            (Value::Null, Value::Null) => first_seen(row),
            (Value::Null, last) => row.age_of(last),
            (series, _) => row.age_of(&series["lastObservedTime"]),
        }
    }),
    Column::text("Type", |row| text_or(event(row, "type"), "")),
    Column::text("Reason", |row| text_or(event(row, "reason"), "")),
    Column::text("Object", |row| {
        let about = event(row, "involvedObject");
        let kind = text(&about["kind"]).to_lowercase();
        match text(&about["name"]) {
            "" => kind.into(),
            name => format!("{kind}/{name}").into(),
        }
    }),
    Column::text("Subobject", |row| {
        text_or(&event(row, "involvedObject")["fieldPath"], "")
    })
    .wide(),
    Column::text("Source", |row| {
        let source = event(row, "source");
        let first = |own: &Value, other: &str| text(&text_or(own, text(event(row, other)))).to_owned();
        let component = first(&source["component"], "reportingComponent");
        match first(&source["host"], "reportingInstance").as_str() {
            "" => component.into(),
            instance => format!("{component}, {instance}").into(),
        }
    })
    .wide(),
    Column::text("Message", |row| text(event(row, "message")).trim().into()),
    Column::text("First Seen", first_seen).wide(),
    Column::text("Count", |row| {
        let count = |value: &Value| value.as_i64().filter(|count| *count != 0);
        let seen = count(&event(row, "series")["count"]).or_else(|| count(event(row, "count")));
        seen.unwrap_or(1).into()
    })
    .wide(),
    Column::NAME.wide(),
];

/// A field of an event by its name in the core group. Some fields have another name in `events.k8s.io`.
fn event<'a>(row: Row<'a>, field: &str) -> &'a Value {
    let other = match field {
        "involvedObject" => "regarding",
        "message" => "note",
        "reportingComponent" => "reportingController",
        "source" => "deprecatedSource",
        "firstTimestamp" => "deprecatedFirstTimestamp",
        "lastTimestamp" => "deprecatedLastTimestamp",
        "count" => "deprecatedCount",
        same => same,
    };
    row.object.get(field).unwrap_or(&row.object[other])
}

fn first_seen(row: Row<'_>) -> Value {
    match event(row, "firstTimestamp") {
        Value::Null => row.age_of(event(row, "eventTime")),
        first => row.age_of(first),
    }
}

fn subjects(row: Row<'_>, kind: &str) -> Value {
    let subjects = items(&row.object["subjects"])
        .iter()
        .filter(|subject| subject["kind"] == kind);
    let name = |subject: &Value| match (kind, text(&subject["name"])) {
        ("ServiceAccount", name) => format!("{}/{name}", text(&subject["namespace"])),
        (_, name) => name.to_owned(),
    };
    subjects.map(name).collect::<Vec<_>>().join(", ").into()
}

fn quota(row: Row<'_>, limits: bool) -> Value {
    let hard = row.status("hard").as_object().into_iter().flatten();
    let used = row.status("used");
    let quotas: Vec<_> = hard
        .filter(|(resource, _)| resource.starts_with("limits.") == limits)
        .map(|(resource, hard)| {
            format!(
                "{resource}: {}/{}",
                text(&text_or(&used[resource], "0")),
                text(hard)
            )
        })
        .collect();
    quotas.join(", ").into()
}
