//! `autoscaling/v1` of a `HorizontalPodAutoscaler`, which is stored as `autoscaling/v2`: the target for processors has a
//! field of its own there, and everything else that v1 does not have is left out
//! (`kubernetes/pkg/apis/autoscaling/v1/conversion.go` keeps that in annotations).

use serde_json::{Map, Value, json};

/// Turns an object of v2 into one of v1.
pub(super) fn to_v1(object: &mut Map<String, Value>) {
    let processors = |metrics: Option<Value>, inner: &str| {
        let of = |metric: &Value| {
            let is_processors = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
            metric["resource"][inner]["averageUtilization"]
                .as_i64()
                .filter(|_| is_processors)
        };
        metrics
            .as_ref()
            .and_then(Value::as_array)
            .and_then(|metrics| metrics.iter().find_map(of))
    };
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("behavior");
        if let Some(target) = processors(spec.remove("metrics"), "target") {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), target.into());
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("conditions");
        if let Some(current) = processors(status.remove("currentMetrics"), "current") {
            status.insert("currentCPUUtilizationPercentage".to_owned(), current.into());
        }
    }
}

/// Turns an object of v1 into one of v2.
pub(super) fn to_v2(object: &mut Map<String, Value>) {
    for (part, percentage, metrics, inner) in [
        ("spec", "targetCPUUtilizationPercentage", "metrics", "target"),
        (
            "status",
            "currentCPUUtilizationPercentage",
            "currentMetrics",
            "current",
        ),
    ] {
        let Some(part) = object.get_mut(part).and_then(Value::as_object_mut) else {
            continue;
        };
        let Some(value) = part.remove(percentage).filter(|value| !value.is_null()) else {
            continue;
        };
        let mut utilization = json!({ "averageUtilization": value });
        if inner == "target" {
            utilization["type"] = "Utilization".into();
        }
        let metric = json!({ "type": "Resource", "resource": { "name": "cpu", inner: utilization } });
        part.insert(metrics.to_owned(), json!([metric]));
    }
    object.insert("apiVersion".to_owned(), "autoscaling/v2".into());
}
