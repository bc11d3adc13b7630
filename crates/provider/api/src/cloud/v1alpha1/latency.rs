//! How long the machines of a `SimulatedCloud` take.

use nephele_model::Distribution;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{schema, start_up::DURATION_PATTERN};

/// How long the parts of a machine's life take. A part that is left out takes no time. Each duration is drawn once, and
/// is at most 24h.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CloudLatency {
    /// The virtual machine: until it has booted. The startupDuration in the spec.behaviour of an InMemoryMachine wins
    /// over this, and so for the other stages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "distribution")]
    pub vm: Option<Box<Distribution>>,
    /// The Node: from the machine's start until the kubelet has registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "distribution")]
    pub node: Option<Box<Distribution>>,
    /// The etcd member of a control plane machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "distribution")]
    pub etcd: Option<Box<Distribution>>,
    /// The API server of a control plane machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "distribution")]
    pub api_server: Option<Box<Distribution>>,
    /// The deletion of a machine: its software stops at once, and the machine and its Node stay until it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "distribution")]
    pub delete: Option<Box<Distribution>>,
}

/// The schema of a [`Distribution`]: one field for each kind, of which exactly one is set.
fn distribution(_: &mut SchemaGenerator) -> Schema {
    let ordered = |mut what: Value, rule: &str, message: &str| {
        what["x-kubernetes-validations"] = json!([schema::rule(rule, message)]);
        what
    };
    json_schema!({
        "type": "object",
        "x-kubernetes-validations": [schema::rule(
            "[has(self.fixed), has(self.uniform), has(self.normal), has(self.lognormal), has(self.triangular), \
             has(self.exponential), has(self.empirical)].filter(set, set).size() == 1",
            "exactly one distribution has to be set",
        )],
        "properties": {
            "fixed": parameters("Always the same.", &[("duration", "The duration.")]),
            "uniform": ordered(
                parameters(
                    "Anything between two bounds, all with the same probability.",
                    &[("min", "The lower bound."), ("max", "The upper bound.")],
                ),
                "duration(self.min) <= duration(self.max)",
                "uniform.min must be at most uniform.max",
            ),
            "normal": parameters(
                "Normal. A draw below zero counts as zero.",
                &[
                    ("mean", "The mean."),
                    (
                        "standardDeviation",
                        "The standard deviation: two thirds of the draws are within it of the mean.",
                    ),
                ],
            ),
            "lognormal": ordered(
                parameters(
                    "Lognormal: most durations are near the median, and few are much longer. Durations of real clouds \
                     look like this.",
                    &[
                        ("median", "Half of the draws are at most this."),
                        ("p99", "99 of 100 draws are at most this."),
                    ],
                ),
                "duration(self.median) <= duration(self.p99)",
                "lognormal.median must be at most lognormal.p99",
            ),
            "triangular": ordered(
                parameters(
                    "Triangular: between two bounds, most often near the mode.",
                    &[
                        ("min", "The lower bound."),
                        ("mode", "The most probable duration."),
                        ("max", "The upper bound."),
                    ],
                ),
                "duration(self.min) <= duration(self.mode) && duration(self.mode) <= duration(self.max)",
                "triangular.mode must be between triangular.min and triangular.max",
            ),
            "exponential": parameters("Exponential.", &[("mean", "The mean.")]),
            "empirical": {
                "description": "One of some measured values.",
                "type": "object",
                "required": ["values"],
                "properties": {
                    "values": {
                        "description": "The durations. Each is drawn with the same probability; one that is listed \
                                        twice is drawn twice as often.",
                        "type": "array",
                        "minItems": 1,
                        "maxItems": 100,
                        "x-kubernetes-list-type": "atomic",
                        "items": duration(None),
                    },
                },
            },
        },
    })
}

/// Durations that are all required, by name, with a description of each.
fn parameters(description: &str, fields: &[(&str, &str)]) -> Value {
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> = fields
        .iter()
        .map(|(name, about)| ((*name).to_owned(), duration(Some(about))))
        .collect();
    json!({ "description": description, "type": "object", "required": required, "properties": properties })
}

fn duration(description: Option<&str>) -> Value {
    let mut schema =
        json!({ "type": "string", "minLength": 1, "maxLength": 32, "pattern": DURATION_PATTERN });
    if let Some(description) = description {
        schema["description"] = description.into();
    }
    schema
}
