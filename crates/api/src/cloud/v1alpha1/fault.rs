//! `Fault`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::simulated_cloud::{NAME_PATTERN, PLACE_PATTERN};
use crate::schema;
use crate::start_up::{DURATION_PATTERN, JITTER_PATTERN};

/// The operations that a fault can be about.
pub const OPERATIONS: [&str; 9] = [
    "CreateInstance",
    "DescribeInstance",
    "UpdateInstance",
    "DeleteInstance",
    "CreateLoadBalancer",
    "DescribeLoadBalancer",
    "DeleteLoadBalancer",
    "RegisterBackend",
    "DeregisterBackend",
];
/// The reasons for which a fault can make an operation fail.
pub const FAIL_REASONS: [&str; 8] = [
    "InsufficientCapacity",
    "QuotaExceeded",
    "Throttled",
    "InvalidImage",
    "Unauthorized",
    "InternalError",
    "Timeout",
    "LostAnswer",
];
/// The phases of a fault.
const PHASES: [&str; 4] = ["Active", "Exhausted", "Expired", "Invalid"];

/// What goes wrong in the clouds of a namespace: which operations a fault is about, what happens to them, and how often.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cloud.nephele.dev",
    version = "v1alpha1",
    kind = "Fault",
    namespaced,
    status = "FaultStatus",
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq",
    doc = "Makes operations of the simulated cloud fail or wait, for the clusters of its namespace. When it is deleted, the cloud works again.",
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Whether it can still hit"
    ),
    printcolumn(
        name = "Hits",
        type_ = "integer",
        json_path = ".status.hits",
        description = "How many operations it has hit"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["effect"]))]
pub struct FaultSpec {
    /// The operations that the fault is about. An operation has to fit every field. A field that is left out fits every
    /// operation.
    #[serde(rename = "match", skip_serializing_if = "is_default")]
    pub matches: FaultMatch,
    /// What happens to these operations.
    pub effect: FaultEffect,
    /// How often it happens. By default, every operation is hit, until the fault is deleted.
    #[serde(skip_serializing_if = "is_default")]
    pub budget: FaultBudget,
}

/// The operations that a fault is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FaultMatch {
    /// The operations by name. By default all that change something. A repetition that changes nothing is never hit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "operations")]
    pub operations: Vec<String>,
    /// The names of InMemoryMachines or, for operations on load balancers, of Clusters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    #[schemars(inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub names: Vec<String>,
    /// The zones of the machines. A load balancer has no zone and is not hit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    #[schemars(inner(length(min = 1, max = 63), regex(pattern = PLACE_PATTERN)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub zones: Vec<String>,
    /// The instance types of the machines. A load balancer has none and is not hit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    #[schemars(inner(length(min = 1, max = 63), regex(pattern = NAME_PATTERN)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub instance_types: Vec<String>,
    /// The Clusters, by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::cluster_selector")]
    pub cluster_selector: Option<serde_json::Value>,
    /// The Machines, by their labels, such as cluster.x-k8s.io/deployment-name. A load balancer is not hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::machine_selector")]
    pub machine_selector: Option<serde_json::Value>,
}

/// What happens to an operation: exactly one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule("has(self.fail) != has(self.delay)", "exactly one effect has to be set"),
]))]
pub struct FaultEffect {
    /// The cloud refuses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail: Option<Fail>,
    /// It takes longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
}

/// The cloud refuses an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["reason"]))]
pub struct Fail {
    /// The reason, which the conditions of InMemoryClusters and InMemoryMachines show. LostAnswer carries the operation
    /// out, and then looks like Timeout.
    #[schemars(extend("enum" = FAIL_REASONS))]
    pub reason: String,
    /// More words for the message of the condition.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub message: String,
    /// When the manager tries again; by default after 5s, and after 100ms at the earliest.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32), regex(pattern = DURATION_PATTERN))]
    pub retry_after: String,
}

/// An operation takes longer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["duration"]))]
pub struct Delay {
    /// The minimum.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub duration: String,
    /// The largest random addition, as a fraction of the duration; by default 0.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = JITTER_PATTERN))]
    pub jitter: String,
}

/// How often a fault hits the operations that it is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FaultBudget {
    /// The probability of a hit, from 0 to 1; by default 1.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = JITTER_PATTERN))]
    pub probability: String,
    /// How many operations pass before the first hit; by default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub skip: Option<i32>,
    /// How many hits there are at most; by default any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<i32>,
    /// How long the fault is active; by default until it is deleted.
    #[serde(rename = "for", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub lasts: String,
}

/// The status of a fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FaultStatus {
    /// Active while it can hit. Exhausted when it has made as many hits as it may. Expired when its time is over. Invalid
    /// when the manager cannot use its spec.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = PHASES))]
    pub phase: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// How many operations it has matched while it was active.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub matched: Option<i64>,
    /// How many of them it has hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub hits: Option<i64>,
    /// The last hits, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub last_hits: Vec<FaultHit>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A hit of a fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["time", "operation", "cluster"]))]
pub struct FaultHit {
    /// When it was.
    pub time: Option<Time>,
    /// The operation.
    #[schemars(extend("enum" = OPERATIONS))]
    pub operation: String,
    /// The cluster of the machine or load balancer.
    #[schemars(length(min = 1, max = 253))]
    pub cluster: String,
    /// The machine, for an operation on a machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub machine: String,
}

fn operations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The operations by name. By default all that change something. A repetition that changes \
                        nothing is never hit.",
        "type": "array",
        "minItems": 1,
        "maxItems": OPERATIONS.len(),
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "enum": OPERATIONS },
    })
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
