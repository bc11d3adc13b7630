//! The columns and cells of each kind.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Column;
use super::age::age;
use super::json_path;
use crate::registry::ResourceType;

/// Headings with type and priority, by kind. `Name` comes before them; `Age` is where it stands.
fn headings(kind: &ResourceType) -> &'static [(&'static str, &'static str, i64)] {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Node") => &[
            ("Status", "string", 0),
            ("Roles", "string", 0),
            ("Age", "string", 0),
            ("Version", "string", 0),
            ("Internal-IP", "string", 1),
            ("External-IP", "string", 1),
            ("OS-Image", "string", 1),
            ("Kernel-Version", "string", 1),
            ("Container-Runtime", "string", 1),
        ],
        ("", "Pod") => &[
            ("Ready", "string", 0),
            ("Status", "string", 0),
            ("Restarts", "string", 0),
            ("Age", "string", 0),
            ("IP", "string", 1),
            ("Node", "string", 1),
            ("Nominated Node", "string", 1),
            ("Readiness Gates", "string", 1),
        ],
        ("", "Namespace") => &[("Status", "string", 0), ("Age", "string", 0)],
        ("", "ConfigMap") => &[("Data", "integer", 0), ("Age", "string", 0)],
        ("", "Secret") => &[("Type", "string", 0), ("Data", "integer", 0), ("Age", "string", 0)],
        ("", "Service") => &[
            ("Type", "string", 0),
            ("Cluster-IP", "string", 0),
            ("External-IP", "string", 0),
            ("Port(s)", "string", 0),
            ("Age", "string", 0),
        ],
        ("apps", "Deployment") => &[
            ("Ready", "string", 0),
            ("Up-to-date", "integer", 0),
            ("Available", "integer", 0),
            ("Age", "string", 0),
            ("Containers", "string", 1),
            ("Images", "string", 1),
        ],
        ("apps", "DaemonSet") => &[
            ("Desired", "integer", 0),
            ("Current", "integer", 0),
            ("Ready", "integer", 0),
            ("Up-to-date", "integer", 0),
            ("Available", "integer", 0),
            ("Age", "string", 0),
            ("Containers", "string", 1),
            ("Images", "string", 1),
        ],
        ("apps", "ReplicaSet") => &[
            ("Desired", "integer", 0),
            ("Current", "integer", 0),
            ("Ready", "integer", 0),
            ("Age", "string", 0),
        ],
        ("apps", "StatefulSet") => &[("Ready", "string", 0), ("Age", "string", 0)],
        ("coordination.k8s.io", "Lease") => &[("Holder", "string", 0), ("Age", "string", 0)],
        ("policy", "PodDisruptionBudget") => {
            &[("Min Available", "string", 0), ("Max Unavailable", "string", 0), ("Age", "string", 0)]
        }
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => &[("Created At", "date", 0)],
        ("rbac.authorization.k8s.io", _) => &[("Role", "string", 0), ("Age", "string", 0)],
        ("apiextensions.k8s.io", _) => &[("Created At", "date", 0)],
        _ => &[("Age", "string", 0)],
    }
}

pub(super) fn columns(kind: &ResourceType) -> Vec<Column> {
    // Events are the one kind whose tables do not begin with the name.
    if kind.kind == "Event" && matches!(kind.group.as_str(), "" | "events.k8s.io") {
        return ["Last Seen", "Type", "Reason", "Object", "Message"]
            .iter()
            .map(|name| Column::new(name, "string", 0))
            .collect();
    }
    let mut columns = vec![Column::new("Name", "string", 0)];
    if kind.columns.is_empty() {
        columns
            .extend(headings(kind).iter().map(|(name, kind, priority)| Column::new(name, kind, *priority)));
    } else {
        columns.extend(kind.columns.iter().map(|column| {
            // Dates are rendered here, as ages.
            let shown = if column.kind == "date" { "string" } else { &column.kind };
            Column::new(&column.name, shown, column.priority)
        }));
    }
    columns
}

pub(super) fn cells(kind: &ResourceType, object: &Value, now: Timestamp) -> Vec<Value> {
    let metadata = &object["metadata"];
    let created = metadata["creationTimestamp"].as_str();
    if kind.kind == "Event" && matches!(kind.group.as_str(), "" | "events.k8s.io") {
        return event(object, now);
    }
    let mut cells = vec![metadata["name"].clone()];
    if !kind.columns.is_empty() {
        cells.extend(kind.columns.iter().map(|column| {
            let value = json_path::find(object, &column.json_path);
            match (column.kind.as_str(), value) {
                ("date", value) => age(value.and_then(Value::as_str), now).into(),
                (_, None) => Value::Null,
                ("string", Some(value @ (Value::Object(_) | Value::Array(_)))) => value.to_string().into(),
                ("string", Some(value)) if !value.is_string() => value.to_string().into(),
                (_, Some(value)) => value.clone(),
            }
        }));
        return cells;
    }
    for (name, _, _) in headings(kind) {
        cells.push(match *name {
            "Age" => age(created, now).into(),
            "Created At" => json!(created),
            name => cell(kind, object, name),
        });
    }
    cells
}

fn cell(kind: &ResourceType, object: &Value, name: &str) -> Value {
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |value: &Value| Value::from(value.as_i64().unwrap_or(0));
    let text = |value: &Value, fallback: &str| {
        Value::from(value.as_str().filter(|text| !text.is_empty()).unwrap_or(fallback))
    };
    let entries = |value: &Value| value.as_object().map_or(0, serde_json::Map::len);
    match (kind.kind.as_str(), name) {
        ("Node", _) => node(object, name),
        ("Pod", _) => pod(object, name),
        ("Namespace", "Status") => text(&status["phase"], ""),
        ("ConfigMap", "Data") => (entries(&object["data"]) + entries(&object["binaryData"])).into(),
        ("Secret", "Data") => entries(&object["data"]).into(),
        ("Secret", "Type") => text(&object["type"], ""),
        ("Service", "Type") => text(&spec["type"], "ClusterIP"),
        ("Service", "Cluster-IP") => text(&spec["clusterIP"], "<none>"),
        ("Service", "External-IP") => "<none>".into(),
        ("Service", "Port(s)") => {
            let ports = spec["ports"].as_array().cloned().unwrap_or_default();
            let port =
                |port: &Value| format!("{}/{}", port["port"], port["protocol"].as_str().unwrap_or("TCP"));
            let ports: Vec<_> = ports.iter().map(port).collect();
            if ports.is_empty() { "<none>".into() } else { ports.join(",").into() }
        }
        ("Deployment" | "StatefulSet", "Ready") => {
            let ready = status["readyReplicas"].as_i64().unwrap_or(0);
            format!("{ready}/{}", spec["replicas"].as_i64().unwrap_or(1)).into()
        }
        ("Deployment", "Up-to-date") => count(&status["updatedReplicas"]),
        ("Deployment", "Available") => count(&status["availableReplicas"]),
        ("DaemonSet", "Desired") => count(&status["desiredNumberScheduled"]),
        ("DaemonSet", "Current") => count(&status["currentNumberScheduled"]),
        ("DaemonSet", "Ready") => count(&status["numberReady"]),
        ("DaemonSet", "Up-to-date") => count(&status["updatedNumberScheduled"]),
        ("DaemonSet", "Available") => count(&status["numberAvailable"]),
        ("ReplicaSet", "Desired") => count(&spec["replicas"]),
        ("ReplicaSet", "Current") => count(&status["replicas"]),
        ("ReplicaSet", "Ready") => count(&status["readyReplicas"]),
        (_, "Containers" | "Images") => {
            let field = if name == "Images" { "image" } else { "name" };
            let containers = spec["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
            let values: Vec<_> = containers.iter().filter_map(|c| c[field].as_str()).collect();
            values.join(",").into()
        }
        ("Lease", "Holder") => text(&spec["holderIdentity"], ""),
        ("PodDisruptionBudget", "Min Available") => or_not_applicable(&spec["minAvailable"]),
        ("PodDisruptionBudget", "Max Unavailable") => or_not_applicable(&spec["maxUnavailable"]),
        (_, "Role") => {
            let role = &object["roleRef"];
            format!("{}/{}", role["kind"].as_str().unwrap_or(""), role["name"].as_str().unwrap_or("")).into()
        }
        _ => Value::Null,
    }
}

fn or_not_applicable(value: &Value) -> Value {
    match value {
        Value::Null => "N/A".into(),
        Value::String(text) => text.clone().into(),
        other => other.to_string().into(),
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

fn node(object: &Value, name: &str) -> Value {
    let (spec, info) = (&object["spec"], &object["status"]["nodeInfo"]);
    let address = |kind: &str| {
        let addresses = object["status"]["addresses"].as_array();
        let found = addresses.and_then(|list| list.iter().find(|address| address["type"] == kind));
        Value::from(found.and_then(|address| address["address"].as_str()).unwrap_or("<none>"))
    };
    let text =
        |value: &Value| Value::from(value.as_str().filter(|text| !text.is_empty()).unwrap_or("<unknown>"));
    match name {
        "Status" => {
            let ready = condition(object, "Ready").and_then(|condition| condition["status"].as_str());
            let mut status = match ready {
                Some("True") => "Ready",
                Some(_) => "NotReady",
                None => "Unknown",
            }
            .to_owned();
            if spec["unschedulable"] == true {
                status.push_str(",SchedulingDisabled");
            }
            status.into()
        }
        "Roles" => {
            let labels = object["metadata"]["labels"].as_object().cloned().unwrap_or_default();
            let roles: Vec<_> =
                labels.keys().filter_map(|label| label.strip_prefix("node-role.kubernetes.io/")).collect();
            if roles.is_empty() { "<none>".into() } else { roles.join(",").into() }
        }
        "Version" => Value::from(info["kubeletVersion"].as_str().unwrap_or_default()),
        "Internal-IP" => address("InternalIP"),
        "External-IP" => address("ExternalIP"),
        "OS-Image" => text(&info["osImage"]),
        "Kernel-Version" => text(&info["kernelVersion"]),
        "Container-Runtime" => text(&info["containerRuntimeVersion"]),
        _ => Value::Null,
    }
}

fn pod(object: &Value, name: &str) -> Value {
    let (spec, status) = (&object["spec"], &object["status"]);
    let statuses = status["containerStatuses"].as_array().cloned().unwrap_or_default();
    let text =
        |value: &Value| Value::from(value.as_str().filter(|text| !text.is_empty()).unwrap_or("<none>"));
    match name {
        "Ready" => {
            let ready = statuses.iter().filter(|container| container["ready"] == true).count();
            format!("{ready}/{}", spec["containers"].as_array().map_or(0, Vec::len)).into()
        }
        "Status" => {
            if object["metadata"].get("deletionTimestamp").is_some() {
                return "Terminating".into();
            }
            let waiting = statuses.iter().find_map(|c| c["state"]["waiting"]["reason"].as_str());
            let reason = waiting.or_else(|| status["reason"].as_str()).or_else(|| status["phase"].as_str());
            Value::from(reason.unwrap_or("Unknown"))
        }
        "Restarts" => {
            let counts = statuses.iter().filter_map(|c| c["restartCount"].as_i64());
            let restarts = counts.fold(0i64, i64::saturating_add);
            restarts.to_string().into()
        }
        "IP" => text(&status["podIP"]),
        "Node" => text(&spec["nodeName"]),
        _ => "<none>".into(),
    }
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let about = if object["regarding"].is_object() { &object["regarding"] } else { &object["involvedObject"] };
    let last = object["lastTimestamp"].as_str().or_else(|| object["eventTime"].as_str());
    let message = object["message"].as_str().or_else(|| object["note"].as_str()).unwrap_or_default();
    let kind = about["kind"].as_str().unwrap_or_default().to_lowercase();
    vec![
        age(last, now).into(),
        object["type"].clone(),
        object["reason"].clone(),
        format!("{kind}/{}", about["name"].as_str().unwrap_or_default()).into(),
        Value::from(message.trim()),
    ]
}
