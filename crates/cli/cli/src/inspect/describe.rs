//! Everything about one object, in sections. Pure.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Event,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use nephele_api::cloud::v1alpha1::RefusedNamespace;
use serde_json::Value;

use super::{
    found::{Found, Surroundings},
    listing::Listing,
    resource::Resource,
    rows,
    text::{age, line, or_dash},
};
use crate::columns::columns;

/// How many events are shown.
const EVENTS_MAX: usize = 10;

/// An object whose conditions and events are shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Related<'a>(&'a Value);

impl Related<'_> {
    pub(super) fn uid(&self) -> &str {
        self.0["metadata"]["uid"].as_str().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> Option<&str> {
        self.0["metadata"]["namespace"].as_str()
    }

    fn title(&self) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!("{} {}", text(&self.0["kind"]), text(&self.0["metadata"]["name"]))
    }
}

/// The object, and the simulated one behind it.
pub(super) fn related<'a>(found: &'a Found, around: &'a Surroundings) -> Vec<Related<'a>> {
    let behind = around.simulated_clusters.iter().chain(&around.simulated_machines);
    let mut related = Vec::new();
    for object in &found.objects {
        let reference = &object["spec"]["infrastructureRef"];
        let is_behind = |other: &&Value| {
            other["kind"] == reference["kind"]
                && other["metadata"]["name"] == reference["name"]
                && other["metadata"]["namespace"] == object["metadata"]["namespace"]
        };
        related.push(Related(object));
        related.extend(behind.clone().find(is_behind).map(Related));
    }
    related
}

pub(super) fn text(
    found: &Found,
    around: &Surroundings,
    related: &[Related<'_>],
    events: &[Event],
    now: Timestamp,
) -> String {
    let mut sections = vec![summary(&rows::listing(found, around, now))];
    for object in related {
        let conditions = conditions(object.0, now);
        sections.push(section(&format!("Conditions of {}", object.title()), &conditions));
    }
    for object in &found.objects {
        match found.resource {
            Resource::Clusters => {
                let machines = rows::machines(&rows::machines_of(object, around), around, now);
                sections.push(section("Machines", &table(&machines)));
            }
            Resource::Pools => sections.push(section("Waiting claims", &claims(object, around, now))),
            Resource::ClusterFaults => sections.push(section("Refused by namespaces", &refusals(object))),
            Resource::Scenarios => sections.push(section("Steps", &table(&rows::steps(object, now)))),
            Resource::Machines | Resource::Claims | Resource::Clouds | Resource::Faults => {}
        }
    }
    sections.push(section("Events", &recent(events, now)));
    sections.join("\n")
}

/// All columns of the wide table, one a line.
fn summary(listing: &Listing) -> String {
    let rows = listing.rows.iter().flat_map(|row| {
        let namespace = ("NAMESPACE", row.namespace.as_str());
        let cells = listing
            .columns
            .iter()
            .map(|column| column.name)
            .zip(row.cells.iter().map(String::as_str));
        let known = std::iter::once(namespace)
            .chain(cells)
            .filter(|(_, cell)| !matches!(*cell, "" | "-"));
        known.map(|(name, cell)| vec![format!("{}:", capitalised(name)), cell.to_owned()])
    });
    columns(&rows.collect::<Vec<_>>())
}

fn capitalised(name: &str) -> String {
    match name {
        "VM" => "VM".to_owned(),
        "APISERVER" => "API server".to_owned(),
        "PROVIDER ID" => "Provider ID".to_owned(),
        _ => name
            .chars()
            .take(1)
            .chain(name.chars().skip(1).map(|c| c.to_ascii_lowercase()))
            .collect(),
    }
}

/// A title, and rows that are indented. Without rows, there is none.
fn section(title: &str, rows: &[Vec<String>]) -> String {
    if rows.len() <= 1 {
        return format!("{title}: none\n");
    }
    let lines = columns(rows);
    let lines: String = lines.lines().map(|line| format!("  {line}\n")).collect();
    format!("{title}:\n{lines}")
}

fn table(listing: &Listing) -> Vec<Vec<String>> {
    let narrow: Vec<_> = listing
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| !column.wide)
        .collect();
    let headers = narrow.iter().map(|(_, column)| column.name.to_owned()).collect();
    let rows = listing.rows.iter().map(|row| {
        narrow
            .iter()
            .map(|(number, _)| row.cells[*number].clone())
            .collect()
    });
    std::iter::once(headers).chain(rows).collect()
}

fn conditions(object: &Value, now: Timestamp) -> Vec<Vec<String>> {
    let conditions = object["status"]["conditions"].clone();
    let conditions: Vec<Condition> = serde_json::from_value(conditions).unwrap_or_default();
    let rows = conditions.iter().map(|condition| {
        let age = age(Some(&condition.last_transition_time), now);
        vec![
            condition.type_.clone(),
            condition.status.clone(),
            condition.reason.clone(),
            age,
            line(&condition.message),
        ]
    });
    std::iter::once(headers(["TYPE", "STATUS", "REASON", "AGE", "MESSAGE"]))
        .chain(rows)
        .collect()
}

fn claims(pool: &Value, around: &Surroundings, now: Timestamp) -> Vec<Vec<String>> {
    let rows = rows::waiting(pool, around).into_iter().map(|claim| {
        let conditions = claim
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let ready = nephele_api::conditions::find(conditions, nephele_api::conditions::types::READY);
        let metadata = &claim.metadata;
        vec![
            metadata.namespace.clone().unwrap_or_default(),
            metadata.name.clone().unwrap_or_default(),
            age(metadata.creation_timestamp.as_ref(), now),
            or_dash(ready.map_or("", |ready| &ready.reason)),
            line(ready.map_or("", |ready| &ready.message)),
        ]
    });
    std::iter::once(headers(["NAMESPACE", "NAME", "AGE", "REASON", "MESSAGE"]))
        .chain(rows)
        .collect()
}

/// The namespaces that cannot have the Fault, and why.
fn refusals(cluster_fault: &Value) -> Vec<Vec<String>> {
    let refused = cluster_fault["status"]["refused"].clone();
    let refused: Vec<RefusedNamespace> = serde_json::from_value(refused).unwrap_or_default();
    let rows = refused
        .into_iter()
        .map(|refused| vec![refused.namespace, line(&refused.message)]);
    std::iter::once(headers(["NAMESPACE", "MESSAGE"]))
        .chain(rows)
        .collect()
}

/// The last events, the newest at the end.
fn recent(events: &[Event], now: Timestamp) -> Vec<Vec<String>> {
    let mut events: Vec<_> = events.iter().map(|event| (last_seen(event), event)).collect();
    events.sort_by_key(|(seen, _)| seen.as_ref().map(|seen| seen.0));
    let first = events.len().saturating_sub(EVENTS_MAX);
    let rows = events[first..].iter().map(|(seen, event)| {
        let text = |text: &Option<String>| or_dash(text.as_deref().unwrap_or_default());
        let object = text(&event.involved_object.kind);
        vec![
            age(seen.as_ref(), now),
            text(&event.type_),
            text(&event.reason),
            object,
            line(&text(&event.message)),
        ]
    });
    std::iter::once(headers(["AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"]))
        .chain(rows)
        .collect()
}

/// Clients of the two event APIs write different fields.
fn last_seen(event: &Event) -> Option<Time> {
    let of_series = event
        .series
        .as_ref()
        .and_then(|series| series.last_observed_time.as_ref());
    let micro = of_series.or(event.event_time.as_ref()).map(|time| Time(time.0));
    let seen = event.last_timestamp.clone().or(micro);
    seen.or_else(|| event.metadata.creation_timestamp.clone())
}

fn headers<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}
