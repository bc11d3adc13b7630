//! Pods. The status of a pod is a summary of its containers' states.

use serde_json::Value;

use super::{
    column::{Column, Row},
    format::{count, is_true, items, text, text_or},
};

pub(super) const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Ready", |row| {
        let summary = summarize(row.object);
        format!("{}/{}", summary.ready, summary.containers).into()
    }),
    Column::text("Status", |row| summarize(row.object).reason.into()),
    Column::text("Restarts", restarts),
    Column::AGE,
    Column::text("IP", |row| {
        let first = items(row.status("podIPs"))
            .first()
            .map_or(row.status("podIP"), |first| &first["ip"]);
        text_or(first, "<none>")
    })
    .wide(),
    Column::text("Node", |row| text_or(row.spec("nodeName"), "<none>")).wide(),
    Column::text("Nominated Node", |row| {
        text_or(row.status("nominatedNodeName"), "<none>")
    })
    .wide(),
    Column::text("Readiness Gates", readiness_gates).wide(),
];

struct Summary<'a> {
    containers: usize,
    ready: usize,
    reason: String,
    restarts: i64,
    /// When a container last ended. RFC 3339 texts sort like the instants.
    restarted: Option<&'a str>,
}

impl<'a> Summary<'a> {
    fn count_restarts(&mut self, container: &'a Value) {
        self.restarts += count(&container["restartCount"]);
        self.restarted = self
            .restarted
            .max(container["lastState"]["terminated"]["finishedAt"].as_str());
    }
}

fn summarize(pod: &Value) -> Summary<'_> {
    let spec = &pod["spec"];
    let status = &pod["status"];
    let sidecars: Vec<_> = items(&spec["initContainers"])
        .iter()
        .filter(|container| container["restartPolicy"] == "Always")
        .map(|container| text(&container["name"]))
        .collect();
    let reason = [&status["reason"], &status["phase"]]
        .into_iter()
        .find(|reason| !text(reason).is_empty());
    let mut summary = Summary {
        containers: items(&spec["containers"]).len() + sidecars.len(),
        ready: 0,
        reason: reason.map(text).unwrap_or_default().to_owned(),
        restarts: 0,
        restarted: None,
    };
    let gated = items(&status["conditions"])
        .iter()
        .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated");
    if gated {
        "SchedulingGated".clone_into(&mut summary.reason);
    }
    let initializing = summarize_init(&mut summary, pod, &sidecars);
    if !initializing || is_true(pod, "Initialized") {
        // Only containers that keep running count from here on.
        (summary.restarts, summary.restarted) = (0, None);
        for container in items(&status["initContainerStatuses"]) {
            if sidecars.contains(&text(&container["name"])) {
                summary.count_restarts(container);
            }
        }
        summarize_containers(&mut summary, pod);
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        if status["reason"] == "NodeLost" {
            "Unknown".clone_into(&mut summary.reason);
        } else if !matches!(text(&status["phase"]), "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut summary.reason);
        }
    }
    summary
}

/// Whether an init container is still running or has failed. The reason says which.
fn summarize_init<'a>(summary: &mut Summary<'a>, pod: &'a Value, sidecars: &[&str]) -> bool {
    let total = items(&pod["spec"]["initContainers"]).len();
    for (index, container) in items(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
        summary.count_restarts(container);
        let terminated = &container["state"]["terminated"];
        if terminated.is_object() && count(&terminated["exitCode"]) == 0 {
            continue;
        }
        if sidecars.contains(&text(&container["name"])) && container["started"] == true {
            summary.ready += usize::from(container["ready"] == true);
            continue;
        }
        summary.reason = match text(&container["state"]["waiting"]["reason"]) {
            _ if terminated.is_object() => format!("Init:{}", end_of(terminated)),
            "" | "PodInitializing" => format!("Init:{index}/{total}"),
            waiting => format!("Init:{waiting}"),
        };
        return true;
    }
    false
}

fn summarize_containers<'a>(summary: &mut Summary<'a>, pod: &'a Value) {
    let mut running = false;
    let mut failure = None;
    for container in items(&pod["status"]["containerStatuses"]).iter().rev() {
        summary.count_restarts(container);
        let state = &container["state"];
        let waiting = text(&state["waiting"]["reason"]);
        let terminated = &state["terminated"];
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.reason);
        } else if terminated.is_object() {
            summary.reason = end_of(terminated);
            if count(&terminated["exitCode"]) != 0 {
                failure = Some(summary.reason.clone());
            }
        } else if container["ready"] == true && state["running"].is_object() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" {
        // A pod has not ended while one of its containers is running.
        match failure {
            _ if running && is_true(pod, "Ready") => "Running".clone_into(&mut summary.reason),
            Some(failure) => summary.reason = failure,
            None if running => "NotReady".clone_into(&mut summary.reason),
            None => {}
        }
    }
}

fn end_of(terminated: &Value) -> String {
    match (text(&terminated["reason"]), count(&terminated["signal"])) {
        ("", 0) => format!("ExitCode:{}", count(&terminated["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn restarts(row: Row<'_>) -> Value {
    let summary = summarize(row.object);
    match summary.restarted {
        Some(at) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, text(&row.age_of(&at.into()))).into()
        }
        _ => summary.restarts.to_string().into(),
    }
}

fn readiness_gates(row: Row<'_>) -> Value {
    let gates = items(row.spec("readinessGates"));
    if gates.is_empty() {
        return "<none>".into();
    }
    let open = gates
        .iter()
        .filter(|gate| is_true(row.object, text(&gate["conditionType"])))
        .count();
    format!("{open}/{}", gates.len()).into()
}
