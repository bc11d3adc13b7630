//! Kinds that run pods.

use serde_json::Value;

use super::{
    age,
    column::{Column, Row},
    format::{count, integer_or_text, is_true, items, joined, labels, length, selector, text, text_or},
};

pub(super) const DEPLOYMENT: &[Column] = &[
    Column::NAME,
    Column::text("Ready", ready_replicas),
    Column::text("Up-to-date", |row| count(row.status("updatedReplicas")).into()),
    Column::text("Available", |row| count(row.status("availableReplicas")).into()),
    Column::AGE,
    CONTAINERS,
    IMAGES,
    Column::text("Selector", |row| selector(row.spec("selector"), "")).wide(),
];

pub(super) const DAEMON_SET: &[Column] = &[
    Column::NAME,
    Column::integer("Desired", |row| {
        count(row.status("desiredNumberScheduled")).into()
    }),
    Column::integer("Current", |row| {
        count(row.status("currentNumberScheduled")).into()
    }),
    Column::integer("Ready", |row| count(row.status("numberReady")).into()),
    Column::integer("Up-to-date", |row| {
        count(row.status("updatedNumberScheduled")).into()
    }),
    Column::integer("Available", |row| count(row.status("numberAvailable")).into()),
    Column::text("Node Selector", |row| {
        labels(&row.spec("template")["spec"]["nodeSelector"])
    }),
    Column::AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const REPLICA_SET: &[Column] = &selected_by(SELECTOR);

/// Its selector is only labels.
pub(super) const REPLICATION_CONTROLLER: &[Column] =
    &selected_by(Column::text("Selector", |row| labels(row.spec("selector"))).wide());

/// The columns of a kind that keeps a number of pods, with the one that shows which.
const fn selected_by(selector: Column) -> [Column; 8] {
    [
        Column::NAME,
        Column::integer("Desired", |row| replicas(row).into()),
        Column::integer("Current", |row| count(row.status("replicas")).into()),
        Column::integer("Ready", |row| count(row.status("readyReplicas")).into()),
        Column::AGE,
        CONTAINERS,
        IMAGES,
        selector,
    ]
}

pub(super) const POD_TEMPLATE: &[Column] = &[
    Column::NAME,
    Column::text("Containers", |row| of_containers(&row.object["template"], "name")),
    Column::text("Images", |row| of_containers(&row.object["template"], "image")),
    Column::text("Pod Labels", |row| {
        labels(&row.object["template"]["metadata"]["labels"])
    }),
];

pub(super) const CONTROLLER_REVISION: &[Column] = &[
    Column::NAME,
    Column::text("Controller", |row| {
        let owners = items(row.metadata("ownerReferences"));
        let Some(owner) = owners.iter().find(|owner| owner["controller"] == true) else {
            return "<none>".into();
        };
        let group = text(&owner["apiVersion"])
            .rsplit_once('/')
            .map_or("", |(group, _)| group);
        let dot = if group.is_empty() { "" } else { "." };
        format!(
            "{}{dot}{group}/{}",
            text(&owner["kind"]).to_lowercase(),
            text(&owner["name"])
        )
        .into()
    }),
    Column::text("Revision", |row| count(&row.object["revision"]).into()),
    Column::AGE,
];

pub(super) const STATEFUL_SET: &[Column] = &[
    Column::NAME,
    Column::text("Ready", ready_replicas),
    Column::AGE,
    CONTAINERS,
    IMAGES,
];

pub(super) const JOB: &[Column] = &[
    Column::NAME,
    Column::text("Status", job_status),
    Column::text("Completions", completions),
    Column::text("Duration", duration),
    Column::AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) const CRON_JOB: &[Column] = &[
    Column::NAME,
    Column::text("Schedule", |row| text_or(row.spec("schedule"), "")),
    Column::text("Timezone", |row| text_or(row.spec("timeZone"), "<none>")),
    Column::truth("Suspend", |row| match row.spec("suspend") {
        Value::Bool(true) => "True".into(),
        _ => "False".into(),
    }),
    Column::integer("Active", |row| length(row.status("active")).into()),
    Column::text("Last Schedule", |row| match row.status("lastScheduleTime") {
        Value::Null => "<none>".into(),
        at => row.age_of(at),
    }),
    Column::AGE,
    Column::text("Containers", |row| {
        of_containers(&row.spec("jobTemplate")["spec"]["template"], "name")
    })
    .wide(),
    Column::text("Images", |row| {
        of_containers(&row.spec("jobTemplate")["spec"]["template"], "image")
    })
    .wide(),
    Column::text("Selector", |row| {
        selector(&row.spec("jobTemplate")["spec"]["selector"], "<none>")
    })
    .wide(),
];

pub(super) const POD_DISRUPTION_BUDGET: &[Column] = &[
    Column::NAME,
    Column::text("Min Available", |row| {
        integer_or_text(row.spec("minAvailable"), "N/A")
    }),
    Column::text("Max Unavailable", |row| {
        integer_or_text(row.spec("maxUnavailable"), "N/A")
    }),
    Column::integer("Allowed Disruptions", |row| {
        count(row.status("disruptionsAllowed")).into()
    }),
    Column::AGE,
];

const CONTAINERS: Column =
    Column::text("Containers", |row| of_containers(row.spec("template"), "name")).wide();
const IMAGES: Column = Column::text("Images", |row| of_containers(row.spec("template"), "image")).wide();
const SELECTOR: Column = Column::text("Selector", |row| selector(row.spec("selector"), "<none>")).wide();

fn of_containers(template: &Value, field: &str) -> Value {
    joined(
        items(&template["spec"]["containers"])
            .iter()
            .map(|container| text(&container[field])),
        "",
    )
}

/// The desired number of replicas; one if it is missing.
fn replicas(row: Row<'_>) -> i64 {
    row.spec("replicas").as_i64().unwrap_or(1)
}

fn ready_replicas(row: Row<'_>) -> Value {
    format!("{}/{}", count(row.status("readyReplicas")), replicas(row)).into()
}

fn job_status(row: Row<'_>) -> Value {
    let holds = |condition: &&str| is_true(row.object, condition);
    if let Some(ended) = ["Complete", "Failed"].into_iter().find(holds) {
        return ended.into();
    }
    if row.metadata("deletionTimestamp").is_string() {
        return "Terminating".into();
    }
    ["Suspended", "FailureTarget", "SuccessCriteriaMet"]
        .into_iter()
        .find(holds)
        .unwrap_or("Running")
        .into()
}

fn completions(row: Row<'_>) -> Value {
    let succeeded = count(row.status("succeeded"));
    match (row.spec("completions").as_i64(), count(row.spec("parallelism"))) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
    .into()
}

fn duration(row: Row<'_>) -> Value {
    let instant = |field: &str| row.status(field).as_str().and_then(|at| at.parse().ok());
    instant("startTime")
        .map_or(String::new(), |start| {
            age::between(start, instant("completionTime").unwrap_or(row.now))
        })
        .into()
}
