//! Reads the conditions of objects, for waits and for messages.

use serde_json::Value;

/// Conditions that are good when they are False.
const NEGATIVE: [&str; 6] = [
    "Deleting",
    "Paused",
    "Remediating",
    "RollingOut",
    "ScalingDown",
    "ScalingUp",
];

/// The condition of this type.
#[must_use]
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    conditions(object).find(|condition| condition["type"] == kind)
}

/// Whether the condition of this type has this status.
#[must_use]
pub fn is(object: &Value, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == status)
}

/// Whether the condition of this type has this status, and this text in its message.
#[must_use]
pub fn says(object: &Value, kind: &str, status: &str, text: &str) -> bool {
    condition(object, kind).is_some_and(|condition| {
        let message = condition["message"].as_str().unwrap_or_default();
        condition["status"] == status && message.contains(text)
    })
}

/// The object's name.
#[must_use]
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// One line with the object and its bad conditions.
#[must_use]
pub fn line(object: &Value) -> String {
    let unwell: Vec<_> = conditions(object)
        .filter(|condition| {
            let kind = condition["type"].as_str().unwrap_or_default();
            (condition["status"] == "True") == NEGATIVE.contains(&kind)
        })
        .map(|condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
            format!(
                "{}={} {} {:?}",
                text("type"),
                text("status"),
                text("reason"),
                text("message")
            )
        })
        .collect();
    let deleting = if object["metadata"]["deletionTimestamp"].is_string() {
        " (deleting)"
    } else {
        ""
    };
    let kind = object["kind"].as_str().unwrap_or_default();
    let all_well = if conditions(object).next().is_none() {
        "no conditions"
    } else {
        "all well"
    };
    let unwell = if unwell.is_empty() {
        all_well.to_owned()
    } else {
        unwell.join("; ")
    };
    format!("{kind} {}{deleting}: {unwell}", name(object))
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object["status"]["conditions"].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_names_what_is_not_well() {
        let object = json!({
            "kind": "Cluster", "metadata": {"name": "a"},
            "status": {"conditions": [
                {"type": "Available", "status": "False", "reason": "NotAvailable", "message": "no"},
                {"type": "ScalingUp", "status": "True", "reason": "ScalingUp", "message": "1 of 2"},
                {"type": "Deleting", "status": "False", "reason": "NotDeleting", "message": ""},
                {"type": "TopologyReconciled", "status": "True", "reason": "R", "message": ""},
            ]},
        });
        assert_eq!(
            line(&object),
            r#"Cluster a: Available=False NotAvailable "no"; ScalingUp=True ScalingUp "1 of 2""#
        );
    }
}
