//! The alerts of the chart, which a PrometheusRule has, and Prometheus without the operator reads as a file.

use anyhow::{Context, ensure};
use serde_json::Value;

use super::object::{id, items, of_kind, text};
use crate::{files, paths, queries::Metrics};

/// The file with the alerts.
const FILE: &str = "charts/nephele/alerts.yaml";

/// Every rendered alert concerns the release in this namespace, names what exists, and has texts for all its texts.
pub(super) fn check(objects: &[Value], namespace: &str) -> anyhow::Result<()> {
    for rule in of_kind(objects, "PrometheusRule") {
        let alerts = alerts(&rule["spec"]);
        let written = written()?.len();
        ensure!(
            alerts.len() == written,
            "{} has {} alerts of {written}",
            id(rule),
            alerts.len()
        );
        let metrics = Metrics::of_the_page()?;
        for alert in alerts {
            let name = text(alert, "/alert");
            let query = text(alert, "/expr");
            for other in compared_with(query, "namespace") {
                ensure!(other == namespace, "{name} concerns the namespace {other}");
            }
            for job in compared_with(query, "job") {
                let is_service = |object: &Value| text(object, "/metadata/name") == job;
                ensure!(
                    of_kind(objects, "Service").any(is_service),
                    "{name} concerns the job {job}, and there is no such Service"
                );
            }
            for texts in [&alert["labels"], &alert["annotations"]] {
                let mut values = texts.as_object().into_iter().flat_map(|map| map.values());
                ensure!(values.all(Value::is_string), "{name}: {texts} are not texts");
            }
            let mistakes = mistakes(alert, &metrics);
            ensure!(mistakes.is_empty(), "{name}: {}", mistakes.join(", "));
        }
    }
    Ok(())
}

/// The alerts of the file.
fn written() -> anyhow::Result<Vec<Value>> {
    let file = files::read(&paths::repository().join(FILE))?;
    let file: Value = serde_yaml_ng::from_str(&file).with_context(|| format!("failed to read {FILE}"))?;
    Ok(alerts(&file).into_iter().cloned().collect())
}

fn alerts(groups: &Value) -> Vec<&Value> {
    let groups = items(groups, "/groups").iter();
    groups.flat_map(|group| items(group, "/rules")).collect()
}

/// The values that a query compares a label with.
fn compared_with<'a>(query: &'a str, label: &str) -> Vec<&'a str> {
    let begin = format!("{label}=\"");
    let found = query.split(&begin).skip(1);
    found.filter_map(|rest| rest.split('"').next()).collect()
}

/// What is wrong with an alert of the file.
fn mistakes(alert: &Value, metrics: &Metrics) -> Vec<String> {
    let query = text(alert, "/expr");
    let mut mistakes = metrics.mistakes(query);
    for pointer in [
        "/alert",
        "/for",
        "/labels/severity",
        "/annotations/summary",
        "/annotations/description",
    ] {
        if text(alert, pointer).is_empty() {
            mistakes.push(format!("no {pointer}"));
        }
    }
    let labels = metrics.result_labels(query);
    for annotation in ["/annotations/summary", "/annotations/description"] {
        for rest in text(alert, annotation).split("$labels.").skip(1) {
            let label = rest
                .split(|c: char| !c.is_ascii_lowercase() && c != '_')
                .next()
                .unwrap_or_default();
            if !labels.contains(label) {
                mistakes.push(format!(
                    "{annotation} tells {label}, which the query does not return"
                ));
            }
        }
    }
    mistakes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_alert_names_what_exists_and_says_what_to_do() {
        let metrics = Metrics::of_the_page().expect("the page");
        let alerts = written().expect("alerts");
        assert!(
            alerts.len() >= 5,
            "{} are too few: the search misses some",
            alerts.len()
        );
        for alert in alerts {
            assert_eq!(mistakes(&alert, &metrics), [""; 0], "{}", alert["alert"]);
        }
    }

    #[test]
    fn an_alert_about_a_metric_that_does_not_exist_is_told() {
        let metrics = Metrics::of_the_page().expect("the page");
        let alert = json!({
            "alert": "A", "expr": "sum by (verb) (nephele_gone_total{verb=\"get\"}) > 0", "for": "5m",
            "labels": {"severity": "warning"},
            "annotations": {"summary": "Of {{ $labels.pod }}."},
        });
        let expected = [
            "no metric nephele_gone_total",
            "no metric has the label verb",
            "no /annotations/description",
            "/annotations/summary tells pod, which the query does not return",
        ];
        assert_eq!(mistakes(&alert, &metrics), expected);
    }
}
