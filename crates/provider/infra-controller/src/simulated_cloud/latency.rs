//! The latencies of a SimulatedCloud. Pure.

use nephele_api::cloud::v1alpha1::CloudLatency;
use nephele_cloud::{Latencies, Latency};
use nephele_model::{Distribution, Stage};

pub(crate) fn latencies(latency: &CloudLatency) -> Latencies {
    let CloudLatency {
        vm,
        node,
        etcd,
        api_server,
        delete,
    } = latency;
    let part = |wanted: &Option<Box<Distribution>>| wanted.as_deref().map(Latency::from);
    let stages = [
        (Stage::Vm, vm),
        (Stage::Node, node),
        (Stage::Etcd, etcd),
        (Stage::ApiServer, api_server),
    ];
    let stages = stages
        .into_iter()
        .filter_map(|(stage, wanted)| Some((stage.name(), part(wanted)?)));
    Latencies {
        stages: stages.collect(),
        deletion: part(delete),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Latencies {
        latencies(&serde_json::from_value(value).expect("readable"))
    }

    #[test]
    fn each_distribution_is_that_of_the_spec() {
        let seconds = Duration::from_secs;
        let cases = [
            (
                json!({"fixed": {"duration": "1m30s"}}),
                Latency::Fixed(seconds(90)),
            ),
            (
                json!({"uniform": {"min": "1s", "max": "100h"}}),
                Latency::Uniform {
                    min: seconds(1),
                    max: Latency::MAX,
                },
            ),
            (
                json!({"normal": {"mean": "3s", "standardDeviation": "1s"}}),
                Latency::Normal {
                    mean: seconds(3),
                    standard_deviation: seconds(1),
                },
            ),
            (
                json!({"lognormal": {"median": "45s", "p99": "3m"}}),
                Latency::Lognormal {
                    median: seconds(45),
                    p99: seconds(180),
                },
            ),
            (
                json!({"triangular": {"min": "1s", "mode": "2s", "max": "9s"}}),
                Latency::Triangular {
                    min: seconds(1),
                    mode: seconds(2),
                    max: seconds(9),
                },
            ),
            (
                json!({"exponential": {"mean": "5s"}}),
                Latency::Exponential { mean: seconds(5) },
            ),
            (
                json!({"empirical": {"values": ["5s", "7s"]}}),
                Latency::Empirical(vec![seconds(5), seconds(7)]),
            ),
        ];
        for (written, expected) in cases {
            let stages = [(Stage::ApiServer.name(), expected.clone())].into();
            let latencies = read(json!({"apiServer": written, "delete": written}));
            assert_eq!(
                latencies,
                Latencies {
                    stages,
                    deletion: Some(expected)
                }
            );
        }
        assert_eq!(read(json!({})), Latencies::default());
    }
}
