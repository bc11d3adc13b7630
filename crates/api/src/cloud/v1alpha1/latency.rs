//! How long the machines of a `SimulatedCloud` take.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::start_up::DURATION_PATTERN;

/// How long the parts of a machine's life take. A part that is left out takes no time. Each duration is drawn once, and
/// is at most 24h.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CloudLatency {
    /// The virtual machine: until it has booted. The startupDuration in the spec.behaviour of an InMemoryMachine wins
    /// over this, and so for the other stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<Box<Distribution>>,
    /// The Node: from the machine's start until the kubelet has registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Box<Distribution>>,
    /// The etcd member of a control plane machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd: Option<Box<Distribution>>,
    /// The API server of a control plane machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server: Option<Box<Distribution>>,
    /// The deletion of a machine: its software stops at once, and the machine and its Node stay until it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<Box<Distribution>>,
}

/// The distribution of a duration: exactly one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "[has(self.fixed), has(self.uniform), has(self.normal), has(self.lognormal), has(self.triangular), \
         has(self.exponential), has(self.empirical)].filter(set, set).size() == 1",
        "exactly one distribution has to be set",
    ),
]))]
pub struct Distribution {
    /// Always the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Fixed>,
    /// Anything between two bounds, all with the same probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uniform: Option<Uniform>,
    /// Normal. A draw below zero counts as zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normal: Option<Normal>,
    /// Lognormal: most durations are near the median, and few are much longer. Durations of real clouds look like this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lognormal: Option<Lognormal>,
    /// Triangular: between two bounds, most often near the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub triangular: Option<Triangular>,
    /// Exponential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponential: Option<Exponential>,
    /// One of some measured values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empirical: Option<Empirical>,
}

/// A duration that is always the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["duration"]))]
pub struct Fixed {
    /// The duration.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub duration: String,
}

/// A uniform distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["min", "max"], "x-kubernetes-validations" = [
    schema::rule("duration(self.min) <= duration(self.max)", "uniform.min must be at most uniform.max"),
]))]
pub struct Uniform {
    /// The lower bound.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub min: String,
    /// The upper bound.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub max: String,
}

/// A normal distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["mean", "standardDeviation"]))]
pub struct Normal {
    /// The mean.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub mean: String,
    /// The standard deviation: two thirds of the draws are within it of the mean.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub standard_deviation: String,
}

/// A lognormal distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["median", "p99"], "x-kubernetes-validations" = [
    schema::rule("duration(self.median) <= duration(self.p99)", "lognormal.median must be at most lognormal.p99"),
]))]
pub struct Lognormal {
    /// Half of the draws are at most this.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub median: String,
    /// 99 of 100 draws are at most this.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub p99: String,
}

/// A triangular distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["min", "mode", "max"], "x-kubernetes-validations" = [
    schema::rule(
        "duration(self.min) <= duration(self.mode) && duration(self.mode) <= duration(self.max)",
        "triangular.mode must be between triangular.min and triangular.max",
    ),
]))]
pub struct Triangular {
    /// The lower bound.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub min: String,
    /// The most probable duration.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub mode: String,
    /// The upper bound.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub max: String,
}

/// An exponential distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["mean"]))]
pub struct Exponential {
    /// The mean.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub mean: String,
}

/// Measured durations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["values"]))]
pub struct Empirical {
    /// The durations. Each is drawn with the same probability; one that is listed twice is drawn twice as often.
    #[schemars(length(min = 1, max = 100))]
    #[schemars(inner(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN)))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}
