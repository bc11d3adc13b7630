//! Autoscalers.

use serde_json::Value;

use super::{
    column::{Column, Row},
    format::{count, items, text, text_or},
};

pub(super) const HORIZONTAL_POD_AUTOSCALER: &[Column] = &[
    Column::NAME,
    Column::text("Reference", |row| {
        let target = row.spec("scaleTargetRef");
        format!("{}/{}", text(&target["kind"]), text(&target["name"])).into()
    }),
    Column::text("Targets", targets),
    Column::text("MinPods", |row| match row.spec("minReplicas").as_i64() {
        None => "<unset>".into(),
        Some(pods) => pods.to_string().into(),
    }),
    Column::text("MaxPods", |row| count(row.spec("maxReplicas")).into()),
    Column::text("Replicas", |row| count(row.status("currentReplicas")).into()),
    Column::AGE,
];

/// The metrics with their current and wanted values: two of them, and the number of the others. In v1, the target for
/// processors.
fn targets(row: Row<'_>) -> Value {
    let percent = |value: &Value, none: &str| match value.as_i64() {
        None => none.to_owned(),
        Some(value) => format!("{value}%"),
    };
    let target = row.spec("targetCPUUtilizationPercentage");
    if !target.is_null() {
        let current = percent(row.status("currentCPUUtilizationPercentage"), "<unknown>");
        return format!("cpu: {current}/{}", percent(target, "<auto>")).into();
    }
    let statuses = items(row.status("currentMetrics"));
    let metrics: Vec<_> = items(row.spec("metrics"))
        .iter()
        .enumerate()
        .map(|(index, metric)| {
            let field = match text(&metric["type"]) {
                "External" => "external",
                "Pods" => "pods",
                "Object" => "object",
                "Resource" => "resource",
                "ContainerResource" => "containerResource",
                _ => return "<unknown type>".to_owned(),
            };
            let target = &metric[field]["target"];
            let current = statuses
                .get(index)
                .map_or(&Value::Null, |status| &status[field]["current"]);
            let shown = |value: &Value| text(&text_or(value, "<unknown>")).to_owned();
            let of_resource = matches!(field, "resource" | "containerResource");
            let prefix = if of_resource {
                format!("{}: ", text(&metric[field]["name"]))
            } else {
                String::new()
            };
            match (&target["averageValue"], of_resource) {
                (Value::Null, true) => format!(
                    "{prefix}{}/{}",
                    percent(&current["averageUtilization"], "<unknown>"),
                    percent(&target["averageUtilization"], "<auto>")
                ),
                (Value::Null, false) => format!("{}/{}", shown(&current["value"]), text(&target["value"])),
                (value, _) => {
                    let average = if matches!(field, "external" | "object") {
                        " (avg)"
                    } else {
                        ""
                    };
                    format!(
                        "{prefix}{}/{}{average}",
                        shown(&current["averageValue"]),
                        text(value)
                    )
                }
            }
        })
        .collect();
    match metrics.as_slice() {
        [] => "<none>".into(),
        few if few.len() <= 2 => few.join(", ").into(),
        _ => format!("{} + {} more...", metrics[..2].join(", "), metrics.len() - 2).into(),
    }
}
