//! `Fault`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use kube::CustomResource;
use nephele_model::{
    Caller, FaultEffect, Fraction, GoDuration, LabelSelector, Market, Verb, name_patterns::NAME_PATTERN,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{
    effect_schema,
    leaked::{LeakedInstance, LeakedLoadBalancer},
};
use crate::{
    schema::{self, FAILURE_DOMAIN_NAME_MAX},
    start_up::{DURATION_PATTERN, JITTER_PATTERN},
};

/// The phases of a fault.
pub(super) const PHASES: [&str; 5] = ["Active", "Waiting", "Exhausted", "Expired", "Invalid"];

/// The longest list of machines and clusters in a status, and the highest count of a fault of these: after a restart,
/// the status says which ones were hit.
pub const AFFECTED_MAX: usize = 100;

/// What goes wrong in the clouds of a namespace: what a fault matches, what happens, and how often.
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
    doc = "Makes operations of the simulated cloud fail or wait, or machines, clusters or pools of addresses misbehave, for its namespace. When it is deleted, they work again.",
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
        description = "How many operations, machines or claims it has hit"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["effect"], "x-kubernetes-validations" = [
    schema::rule(
        "has(self.effect.fail) || has(self.effect.delay) || has(self.effect.lag) || has(self.effect.leak) || \
         !has(self.match) || !has(self.match.operations)",
        "match.operations can only be set with the effects fail, delay, lag and leak",
    ),
    schema::rule(
        "!has(self.effect.leak) || !has(self.match) || !has(self.match.operations) || \
         self.match.operations.all(name, name in ['DeleteInstance', 'DeleteLoadBalancer'])",
        "match.operations can only have DeleteInstance and DeleteLoadBalancer with the effect leak",
    ),
    schema::rule(
        "!has(self.effect.lag) || !has(self.match) || !has(self.match.operations) || \
         !('DescribeInstance' in self.match.operations || 'DescribeLoadBalancer' in self.match.operations)",
        "match.operations cannot have a read with the effect lag",
    ),
    schema::rule(
        "has(self.effect.fail) || has(self.effect.delay) || has(self.effect.lag) || has(self.effect.leak) || \
         has(self.effect.duplicate) || !has(self.match) || !has(self.match.callers)",
        "match.callers can only be set with the effects fail, delay, lag, leak and duplicate",
    ),
    schema::rule(
        "has(self.effect.fail) || has(self.effect.delay) || has(self.effect.lag) || !has(self.budget) || \
         !has(self.budget.count) || self.budget.count <= 100",
        "budget.count can be at most 100, except with the effects fail, delay and lag",
    ),
    schema::rule(
        "has(self.effect.fail) || has(self.effect.delay) || has(self.effect.lag) || !has(self.budget) || \
         !has(self.budget.skip) || self.budget.skip <= 100",
        "budget.skip can be at most 100, except with the effects fail, delay and lag",
    ),
    schema::rule(
        "has(self.effect.addresses) || !has(self.match) || !has(self.match.pools)",
        "match.pools can only be set with the effect addresses",
    ),
    schema::rule(
        "!has(self.effect.addresses) || !has(self.match) || !(has(self.match.names) || has(self.match.zones) || \
         has(self.match.regions) || has(self.match.instanceTypes) || has(self.match.markets) || \
         has(self.match.machineSelector))",
        "match.names, match.zones, match.regions, match.instanceTypes, match.markets and match.machineSelector cannot be \
         set with the effect addresses",
    ),
]))]
pub struct FaultSpec {
    /// What the fault matches. All fields that are set must apply. Without any, it matches everything in the namespace.
    #[serde(rename = "match", skip_serializing_if = "schema::is_default")]
    pub matches: FaultMatch,
    // None only in an object that cannot be read: the schema requires it.
    /// What happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "effect_schema::effect")]
    pub effect: Option<FaultEffect>,
    /// How often it happens. By default, every operation or machine is hit, until the fault is deleted.
    #[serde(skip_serializing_if = "schema::is_default")]
    pub budget: FaultBudget,
}

/// The operations or machines that a fault matches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FaultMatch {
    /// The operations by name. By default all that change something, and DeleteInstance with the effect leak. A repetition
    /// that changes nothing is never hit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "operations")]
    pub operations: Vec<Verb>,
    /// Who calls the operations: cluster for those of an InMemoryCluster, which are about its load balancer; machinePool
    /// for those of an InMemoryMachine of a MachinePool; machine for those of other InMemoryMachines. By default all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "callers")]
    pub callers: Vec<Caller>,
    /// The names of InMemoryMachines or, for operations on load balancers, of Clusters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    #[schemars(inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub names: Vec<String>,
    /// The names of the pools of IPAddressClaims, of any kind. Only for the effect addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    #[schemars(inner(length(min = 1, max = 253)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub pools: Vec<String>,
    /// The zones of the machines. A load balancer has no zone and is not hit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    #[schemars(inner(length(min = 1, max = FAILURE_DOMAIN_NAME_MAX)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub zones: Vec<String>,
    /// The regions of the machines and load balancers. A machine is in the region of its zone, if its cloud or its failure
    /// domain names one. A load balancer, and with it a Cluster, is in the region of all zones for control planes, if
    /// these are in one region, and otherwise in none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    #[schemars(inner(length(min = 1, max = FAILURE_DOMAIN_NAME_MAX)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub regions: Vec<String>,
    /// The instance types of the machines. A load balancer has none and is not hit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    #[schemars(inner(length(min = 1, max = 63), regex(pattern = NAME_PATTERN)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub instance_types: Vec<String>,
    /// How the machines are paid for. A load balancer is not hit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "markets")]
    pub markets: Vec<Market>,
    /// The Clusters, by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::cluster_selector")]
    pub cluster_selector: Option<LabelSelector>,
    /// The Machines, by their labels, such as topology.cluster.x-k8s.io/deployment-name. A load balancer is not hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::machine_selector")]
    pub machine_selector: Option<LabelSelector>,
}

/// How often a fault hits what it matches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FaultBudget {
    /// The probability of a hit, from 0 to 1; by default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 32), regex(pattern = JITTER_PATTERN))]
    pub probability: Option<Fraction>,
    /// How many operations or machines are spared before the first hit; by default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub skip: Option<i32>,
    /// How many hits there are at most; by default any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub count: Option<i32>,
    /// How long the fault is active; by default until it is deleted.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub lasts: Option<GoDuration>,
    /// The windows in which the fault is in force; by default always. Between them, what it has hit is healed as when it is
    /// deleted. It draws again in each window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<FaultSchedule>,
}

/// Windows that come again and again, counted from when the fault began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["every", "for"], "x-kubernetes-validations" = [
    schema::rule(
        "duration(self.for) >= duration('1s') && duration(self.every) - duration(self.for) >= duration('1s')",
        "schedule.for must be at least 1s, and 1s shorter than schedule.every",
    ),
]))]
pub struct FaultSchedule {
    /// The time from the begin of a window to the begin of the next one.
    #[schemars(with = "String", length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub every: GoDuration,
    /// How long a window lasts: at least 1s, and 1s shorter than every.
    #[serde(rename = "for")]
    #[schemars(with = "String", length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub lasts: GoDuration,
    /// The time until the first window; by default it begins with the fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub offset: Option<GoDuration>,
}

/// The status of a fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FaultStatus {
    /// Active while it can hit. Waiting before and between the windows of its schedule. Exhausted when it has made as
    /// many hits as it may. Expired when its time is over. Invalid when the manager cannot use its spec.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = PHASES))]
    pub phase: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// How many operations or machines it has matched while it was active.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub matched: Option<i64>,
    /// How many of them it has hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub hits: Option<i64>,
    /// How many windows of its schedule have begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub windows: Option<i64>,
    /// The last hits, the newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub last_hits: Vec<FaultHit>,
    /// The machines and clusters that misbehave because of it now; the first hundred.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = AFFECTED_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub affected: Vec<Affected>,
    /// The machines and clusters that passed because of budget.skip; the next manager lets the same ones pass.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = AFFECTED_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub skipped: Vec<Affected>,
    /// The IPAddressClaims that wait because of it now, and those whose addresses it keeps from others; the first hundred.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = AFFECTED_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub claims: Vec<AffectedClaim>,
    /// The instances of the built-in cloud that leaked because of it. They are deleted with it. Those of a SimulatedCloud
    /// are in its status.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = AFFECTED_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub leaked_instances: Vec<LeakedInstance>,
    /// The load balancers of the built-in cloud that leaked because of it. They are deleted with it. Those of a
    /// SimulatedCloud are in its status.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = AFFECTED_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub leaked_load_balancers: Vec<LeakedLoadBalancer>,
    /// The spec that is in force while it is paused. A change of its spec waits until it is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kept_spec")]
    pub paused_spec: Option<FaultSpec>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A machine or a cluster that misbehaves because of a fault.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["cluster"]))]
pub struct Affected {
    /// The cluster.
    #[schemars(length(min = 1, max = 253))]
    pub cluster: String,
    /// The name of the InMemoryMachine. It is not set for a cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253))]
    pub machine: String,
    /// When the notice to the machine is over, or the instance is up again, in the time of its cloud. It is not set when
    /// that is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<MicroTime>,
}

/// An IPAddressClaim that a fault has hit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "uid", "poolKind", "pool"]))]
pub struct AffectedClaim {
    /// The name of the claim.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its uid.
    #[schemars(length(min = 1, max = 63))]
    pub uid: String,
    /// The kind of its pool.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub pool_kind: String,
    /// The name of its pool.
    #[schemars(length(min = 1, max = 253))]
    pub pool: String,
    /// The address or prefix that no claim gets because of the fault.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63))]
    pub address: String,
    /// When the claim is served, or its address is free. It is not set if that is when the fault is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<MicroTime>,
}

/// A hit of a fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["time"]))]
pub struct FaultHit {
    /// When it was.
    pub time: Option<Time>,
    /// The operation. It is not set when the fault hit a machine that exists.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = Verb::ALL))]
    pub operation: String,
    /// The cluster of the machine, load balancer or claim. A claim may have none.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253))]
    pub cluster: String,
    /// The machine. It is not set for an operation on a load balancer.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub machine: String,
    /// The IPAddressClaim.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253))]
    pub claim: String,
}

fn operations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The operations by name. By default all that change something, and DeleteInstance with the \
                        effect leak. A repetition that changes nothing is never hit.",
        "type": "array",
        "minItems": 1,
        "maxItems": Verb::ALL.len(),
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "enum": Verb::ALL },
    })
}

fn callers(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Who calls the operations: cluster for those of an InMemoryCluster, which are about its load \
                        balancer; machinePool for those of an InMemoryMachine of a MachinePool; machine for those of \
                        other InMemoryMachines. By default all.",
        "type": "array",
        "minItems": 1,
        "maxItems": Caller::ALL.len(),
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "enum": Caller::ALL.map(Caller::as_str) },
    })
}

fn markets(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "How the machines are paid for. A load balancer is not hit.",
        "type": "array",
        "minItems": 1,
        "maxItems": Market::ALL.len(),
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "enum": Market::ALL },
    })
}
