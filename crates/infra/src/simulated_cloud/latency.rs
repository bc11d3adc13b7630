//! The latencies of a SimulatedCloud. Pure.

use std::time::Duration;

use nephele_api::cloud::v1alpha1::{CloudLatency, Distribution};
use nephele_cloud::{Latencies, Latency};
use nephele_model::Stage;

/// The latencies, and the first mistake in them. The schema refuses mistakes; this is for objects that got past the
/// schema. A part with a mistake takes no time.
pub(crate) fn latencies(latency: &CloudLatency) -> (Latencies, Option<String>) {
    let CloudLatency { vm, node, etcd, api_server, delete } = latency;
    let mut mistake = None;
    let mut part = |field: &str, wanted: &Option<Box<Distribution>>| match distribution(wanted.as_deref()?) {
        Ok(latency) => Some(latency),
        Err(wrong) => {
            mistake.get_or_insert(format!("spec.latency.{field}{wrong}"));
            None
        }
    };
    let stages = [(Stage::Vm, vm), (Stage::Node, node), (Stage::Etcd, etcd), (Stage::ApiServer, api_server)];
    let stages = stages.into_iter();
    let stages = stages.filter_map(|(stage, wanted)| Some((stage.name(), part(stage.as_str(), wanted)?)));
    let latencies = Latencies { stages: stages.collect(), deletion: None };
    (Latencies { deletion: part("delete", delete), ..latencies }, mistake)
}

/// A distribution, or what is wrong with it, after the name of its field.
fn distribution(wanted: &Distribution) -> Result<Latency, String> {
    let Distribution { fixed, uniform, normal, lognormal, triangular, exponential, empirical } = wanted;
    let mut found = Vec::new();
    if let Some(fixed) = fixed {
        found.push(Latency::Fixed(duration("fixed.duration", &fixed.duration)?));
    }
    if let Some(uniform) = uniform {
        let (min, max) = (duration("uniform.min", &uniform.min)?, duration("uniform.max", &uniform.max)?);
        in_order("uniform.min", min, "uniform.max", max)?;
        found.push(Latency::Uniform { min, max });
    }
    if let Some(normal) = normal {
        let standard_deviation = duration("normal.standardDeviation", &normal.standard_deviation)?;
        found.push(Latency::Normal { mean: duration("normal.mean", &normal.mean)?, standard_deviation });
    }
    if let Some(lognormal) = lognormal {
        let median = duration("lognormal.median", &lognormal.median)?;
        let p99 = duration("lognormal.p99", &lognormal.p99)?;
        in_order("lognormal.median", median, "lognormal.p99", p99)?;
        found.push(Latency::Lognormal { median, p99 });
    }
    if let Some(triangular) = triangular {
        let min = duration("triangular.min", &triangular.min)?;
        let mode = duration("triangular.mode", &triangular.mode)?;
        let max = duration("triangular.max", &triangular.max)?;
        in_order("triangular.min", min, "triangular.mode", mode)?;
        in_order("triangular.mode", mode, "triangular.max", max)?;
        found.push(Latency::Triangular { min, mode, max });
    }
    if let Some(exponential) = exponential {
        found.push(Latency::Exponential { mean: duration("exponential.mean", &exponential.mean)? });
    }
    if let Some(empirical) = empirical {
        let values = empirical.values.iter().map(|value| duration("empirical.values", value));
        found.push(Latency::Empirical(values.collect::<Result<_, _>>()?));
    }
    match found.pop() {
        Some(latency) if found.is_empty() => Ok(latency),
        _ => Err(" must have exactly one distribution".to_owned()),
    }
}

/// A duration, at most the longest that the cloud draws.
fn duration(field: &str, text: &str) -> Result<Duration, String> {
    let parsed = nephele_go_duration::parse(text).map_err(|error| format!(".{field} {error}"))?;
    Ok(parsed.min(Latency::MAX))
}

fn in_order(low: &str, lower: Duration, high: &str, upper: Duration) -> Result<(), String> {
    if lower <= upper { Ok(()) } else { Err(format!(".{low} must be at most {high}")) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> (Latencies, Option<String>) {
        latencies(&serde_json::from_value(value).expect("readable"))
    }

    #[test]
    fn each_distribution_is_that_of_the_spec() {
        let seconds = Duration::from_secs;
        let cases = [
            (json!({"fixed": {"duration": "1m30s"}}), Latency::Fixed(seconds(90))),
            (
                json!({"uniform": {"min": "1s", "max": "100h"}}),
                Latency::Uniform { min: seconds(1), max: Latency::MAX },
            ),
            (
                json!({"normal": {"mean": "3s", "standardDeviation": "1s"}}),
                Latency::Normal { mean: seconds(3), standard_deviation: seconds(1) },
            ),
            (
                json!({"lognormal": {"median": "45s", "p99": "3m"}}),
                Latency::Lognormal { median: seconds(45), p99: seconds(180) },
            ),
            (
                json!({"triangular": {"min": "1s", "mode": "2s", "max": "9s"}}),
                Latency::Triangular { min: seconds(1), mode: seconds(2), max: seconds(9) },
            ),
            (json!({"exponential": {"mean": "5s"}}), Latency::Exponential { mean: seconds(5) }),
            (
                json!({"empirical": {"values": ["5s", "7s"]}}),
                Latency::Empirical(vec![seconds(5), seconds(7)]),
            ),
        ];
        for (written, expected) in cases {
            let (latencies, mistake) = read(json!({"apiServer": written, "delete": written}));
            assert_eq!(mistake, None);
            assert_eq!(latencies.stages, [(Stage::ApiServer.name(), expected.clone())].into());
            assert_eq!(latencies.deletion, Some(expected));
        }
        assert_eq!(read(json!({})), (Latencies::default(), None));
    }

    #[test]
    fn what_got_past_the_schema_is_named_and_takes_no_time() {
        let cases = [
            (json!({"vm": {}}), "spec.latency.vm must have exactly one distribution"),
            (
                json!({"delete": {"fixed": {"duration": "1s"}, "exponential": {"mean": "1s"}}}),
                "spec.latency.delete must have exactly one distribution",
            ),
            (
                json!({"node": {"uniform": {"min": "2s", "max": "1s"}}}),
                "spec.latency.node.uniform.min must be at most uniform.max",
            ),
            (
                json!({"etcd": {"lognormal": {"median": "2s", "p99": "1s"}}}),
                "spec.latency.etcd.lognormal.median must be at most lognormal.p99",
            ),
            (
                json!({"vm": {"triangular": {"min": "1s", "mode": "4s", "max": "3s"}}}),
                "spec.latency.vm.triangular.mode must be at most triangular.max",
            ),
        ];
        for (written, expected) in cases {
            assert_eq!(read(written), (Latencies::default(), Some(expected.to_owned())));
        }
        let (latencies, mistake) = read(json!({
            "vm": {"empirical": {"values": ["soon"]}}, "node": {"fixed": {"duration": "1s"}},
        }));
        assert_eq!(latencies.stages.len(), 1, "the other parts are kept");
        assert!(mistake.is_some_and(|wrong| wrong.starts_with("spec.latency.vm.empirical.values ")));
    }
}
