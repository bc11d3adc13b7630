//! How long something takes that does not always take the same time.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::written::GoDuration;

/// The distribution of a duration, as users write it: an object with one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Distribution {
    /// Always the same.
    Fixed { duration: GoDuration },
    /// Anything between two bounds, all with the same probability.
    Uniform { min: GoDuration, max: GoDuration },
    /// Normal. A draw below zero counts as zero.
    Normal {
        mean: GoDuration,
        standard_deviation: GoDuration,
    },
    /// Lognormal: most durations are near the median, and few are much longer.
    Lognormal {
        /// Half of the draws are at most this.
        median: GoDuration,
        /// 99 of 100 draws are at most this.
        p99: GoDuration,
    },
    /// Triangular: between two bounds, most often near the mode.
    Triangular {
        min: GoDuration,
        mode: GoDuration,
        max: GoDuration,
    },
    /// Exponential.
    Exponential { mean: GoDuration },
    /// One of some measured values, each with the same probability.
    Empirical { values: Vec<GoDuration> },
}

impl Distribution {
    /// The first two parameters in the wrong order, if there are any.
    fn disorder(&self) -> Option<&'static str> {
        let is_wrong = |low: &GoDuration, high: &GoDuration| low.get() > high.get();
        match self {
            Self::Uniform { min, max } if is_wrong(min, max) => {
                Some("uniform.min must be at most uniform.max")
            }
            Self::Lognormal { median, p99 } if is_wrong(median, p99) => {
                Some("lognormal.median must be at most lognormal.p99")
            }
            Self::Triangular { min, mode, .. } if is_wrong(min, mode) => {
                Some("triangular.min must be at most triangular.mode")
            }
            Self::Triangular { mode, max, .. } if is_wrong(mode, max) => {
                Some("triangular.mode must be at most triangular.max")
            }
            _ => None,
        }
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // What serde derives for the type.
        let distribution = Self::deserialize(deserializer)?;
        distribution
            .disorder()
            .map_or(Ok(()), |disorder| Err(de::Error::custom(disorder)))?;
        Ok(distribution)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: &Value) -> Result<Distribution, String> {
        serde_path_to_error::deserialize(value).map_err(|error| error.to_string())
    }

    #[test]
    fn a_distribution_is_written_as_it_was_read() {
        for written in [
            json!({"fixed": {"duration": "1m30s"}}),
            json!({"uniform": {"min": "60s", "max": "1m"}}),
            json!({"normal": {"mean": "3s", "standardDeviation": "1.0s"}}),
            json!({"lognormal": {"median": "45s", "p99": "3m"}}),
            json!({"triangular": {"min": "1s", "mode": "2s", "max": "9s"}}),
            json!({"exponential": {"mean": "5s"}}),
            json!({"empirical": {"values": ["5s", "7s"]}}),
        ] {
            let distribution = read(&written).expect("a distribution");
            assert_eq!(serde_json::to_value(&distribution).expect("JSON"), written);
        }
    }

    #[test]
    fn what_is_no_distribution_is_refused_and_named() {
        for (written, expected) in [
            (json!({}), "invalid value"),
            (
                json!({"fixed": {"duration": "1s"}, "exponential": {"mean": "1s"}}),
                "invalid value",
            ),
            (json!({"fixed": {}}), "fixed: missing field `duration`"),
            (
                json!({"empirical": {"values": ["soon"]}}),
                "empirical.values[0]: \"soon\" is not a duration",
            ),
            (
                json!({"uniform": {"min": "2s", "max": "1s"}}),
                "uniform.min must be at most uniform.max",
            ),
            (
                json!({"lognormal": {"median": "2s", "p99": "1s"}}),
                "lognormal.median must be at most lognormal.p99",
            ),
            (
                json!({"triangular": {"min": "1s", "mode": "4s", "max": "3s"}}),
                "triangular.mode must be at most triangular.max",
            ),
            (
                json!({"triangular": {"min": "5s", "mode": "4s", "max": "6s"}}),
                "triangular.min must be at most triangular.mode",
            ),
        ] {
            let error = read(&written).expect_err(expected);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
