//! `Fault`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::simulated_cloud::{LeakedInstance, LeakedLoadBalancer, NAME_PATTERN, PLACE_PATTERN};
use crate::infrastructure::MARKETS;
use crate::schema::{self, FAILURE_DOMAIN_NAME_MAX};
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
/// The callers of operations.
pub const CALLERS: [&str; 3] = ["cluster", "machine", "machinePool"];
/// The reasons for which a fault can make an operation fail.
pub const FAIL_REASONS: [&str; 9] = [
    "InsufficientCapacity",
    "QuotaExceeded",
    "Throttled",
    "InvalidImage",
    "Unauthorized",
    "InternalError",
    "Unavailable",
    "Timeout",
    "LostAnswer",
];
/// The phases of a fault.
pub(super) const PHASES: [&str; 5] = ["Active", "Waiting", "Exhausted", "Expired", "Invalid"];

/// The status codes with which a fault can answer requests.
pub const ERROR_CODES: [i32; 9] = [401, 403, 404, 409, 410, 429, 500, 503, 504];
/// The alarms of etcd.
pub const ETCD_ALARMS: [&str; 2] = ["NoSpace", "Corrupt"];
/// The verbs of requests.
pub const REQUEST_VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// The stages of a machine's start that a fault can hold.
pub const HELD_STAGES: [&str; 4] = ["vm", "node", "etcd", "apiServer"];
/// The phases of kubeadm in which the bootstrap of a machine can fail.
pub const BOOTSTRAP_PHASES: [&str; 4] = ["preflight", "kubelet-start", "etcd-join", "wait-control-plane"];
/// The end of the name of a Node.
const NAME_SUFFIX_PATTERN: &str = "^[-a-z0-9]*[a-z0-9]$";
/// The longest list of machines and clusters in a status, and the highest count of a fault of these: after a restart,
/// the status says which ones were hit.
pub const AFFECTED_MAX: usize = 100;

/// What goes wrong in the clouds of a namespace: what a fault is about, what happens, and how often.
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
    /// What the fault is about. An operation or a machine has to fit every field. A field that is left out fits all.
    #[serde(rename = "match", skip_serializing_if = "schema::is_default")]
    pub matches: FaultMatch,
    /// What happens.
    pub effect: FaultEffect,
    /// How often it happens. By default, every operation or machine is hit, until the fault is deleted.
    #[serde(skip_serializing_if = "schema::is_default")]
    pub budget: FaultBudget,
}

/// The operations or machines that a fault is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FaultMatch {
    /// The operations by name. By default all that change something, and DeleteInstance with the effect leak. A repetition
    /// that changes nothing is never hit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "operations")]
    pub operations: Vec<String>,
    /// Who calls the operations: cluster for those of an InMemoryCluster, which are about its load balancer; machinePool
    /// for those of an InMemoryMachine of a MachinePool; machine for those of other InMemoryMachines. By default all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "callers")]
    pub callers: Vec<String>,
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
    pub markets: Vec<String>,
    /// The Clusters, by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::cluster_selector")]
    pub cluster_selector: Option<serde_json::Value>,
    /// The Machines, by their labels, such as topology.cluster.x-k8s.io/deployment-name. A load balancer is not hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::machine_selector")]
    pub machine_selector: Option<serde_json::Value>,
}

/// What happens: exactly one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "[has(self.fail), has(self.delay), has(self.outage), has(self.notReady), has(self.nodeCondition), \
         has(self.freeze), has(self.vanish), has(self.hold), has(self.apiServer), has(self.etcd), has(self.certificate), \
         has(self.loadBalancer), has(self.wrongProviderID), has(self.flap), has(self.leak), \
         has(self.spotReclaim), has(self.bootstrap), has(self.clockSkew), has(self.lag), has(self.duplicate), \
         has(self.addresses), has(self.nodeRebootsAs)].filter(set, set).size() == 1",
        "exactly one effect has to be set",
    ),
]))]
pub struct FaultEffect {
    /// The cloud refuses an operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail: Option<Fail>,
    /// An operation takes longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
    /// A part of the cloud is down, such as a zone: the machines there freeze, and the cloud creates no new ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage: Option<Outage>,
    /// The kubelet stops: the Node of the machine is unreachable. Everything else on the machine works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<NoSettings>,
    /// The Node of the machine has a condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_condition: Option<FaultyCondition>,
    /// The machine runs, but nothing on it answers: the kubelet, the API server and etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freeze: Option<NoSettings>,
    /// The instance is gone and does not come back, also after the fault is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vanish: Option<NoSettings>,
    /// The machine does not get past a stage of its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// The API servers of a workload cluster misbehave. Such a fault is about Clusters, so fields of match that are
    /// about machines only fit nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server: Option<ApiServerFault>,
    /// The etcd of a workload cluster misbehaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdFault>,
    /// The API server on a control plane machine presents a certificate that expires early.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateFault>,
    /// The load balancer of a workload cluster misbehaves. Such a fault is about Clusters, so fields of match that are
    /// about machines only fit nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_balancer: Option<LoadBalancerFault>,
    /// The Node of the machine has the provider ID of no machine. A machine that has a Node already is not hit.
    #[serde(rename = "wrongProviderID", skip_serializing_if = "Option::is_none")]
    pub wrong_provider_id: Option<NoSettings>,
    /// The kubelet falls silent and comes back in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flap: Option<Flap>,
    /// The cloud says that an instance is deleted, and it still exists: it takes up room and costs money, and belongs to
    /// nobody. It stays when the fault is deleted, except in the built-in cloud. See leakedInstances of a
    /// SimulatedCloud. With the operation DeleteLoadBalancer, load balancers leak. Such a one keeps its room and its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leak: Option<NoSettings>,
    /// The cloud takes instances of the market Spot back, after a notice. Other machines are not hit and do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_reclaim: Option<SpotReclaim>,
    /// kubeadm fails on the machine. When the fault is deleted, it is run again and succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapFault>,
    /// The clock of the machine is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_skew: Option<ClockSkew>,
    /// Reads do not show for a while what an operation has changed. The operations are those that change something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<Delay>,
    /// A machine is created and no answer comes, and when the creation is repeated, a second instance is created. The first
    /// one leaks: it takes up room and costs money, and belongs to nobody. See leakedInstances of a SimulatedCloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<Duplicate>,
    /// Pools hand out addresses late, or not at all. Such a fault is about the IPAddressClaims of its namespace, and the
    /// IPAM provider carries it out. Of the fields of match, it can have pools and clusterSelector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<AddressFault>,
    /// The instance reboots, and its kubelet registers a Node with another name, as after a change of the host name. The
    /// first Node stays and is unreachable. When the fault is deleted, the second Node goes, and the first one is ready
    /// again. A machine that has no Node yet is hit when it gets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_reboots_as: Option<NodeReboot>,
}

/// Pools hand out addresses late, or not at all: exactly one of slow, exhausted, conflict and lateRelease.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "[has(self.slow), has(self.exhausted), has(self.conflict), has(self.lateRelease)].filter(set, set).size() == 1",
        "exactly one of slow, exhausted, conflict and lateRelease has to be set",
    ),
]))]
pub struct AddressFault {
    /// A claim gets its address this time after it was created, and not before. A claim that is older is not hit and does
    /// not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<Delay>,
    /// A claim that has no address gets none, as if its pool had no address left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhausted: Option<NoSettings>,
    /// The address that a claim would get is in use outside of the pool. The claim says so, and gets another one 5s later.
    /// Nobody gets the address until the fault is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<NoSettings>,
    /// An address is held back after its claim was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_release: Option<LateRelease>,
}

/// An address is held back after its claim was deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["duration"]))]
pub struct LateRelease {
    /// The time from the deletion of the claim until its address is free.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub duration: String,
}

/// An instance reboots, and its kubelet registers a Node with another name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["nameSuffix"]))]
pub struct NodeReboot {
    /// What the name of the second Node has in addition to that of the first one, such as -2.
    #[schemars(length(min = 1, max = 16), regex(pattern = NAME_SUFFIX_PATTERN))]
    pub name_suffix: String,
    /// How long the instance is down, in the time of its cloud; by default 30s. Meanwhile nothing on it answers, and it has
    /// one Node.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub down_for: String,
}

/// An effect without settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoSettings {}

/// kubeadm fails on a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["failedPhase"]))]
pub struct BootstrapFault {
    /// The phase in which kubeadm fails. With preflight and kubelet-start, the machine has no Node. With etcd-join it has
    /// one, and no etcd member. With wait-control-plane it has both, and its API server never gets ready. Machines
    /// without such a phase are not hit, and neither are those that are past it.
    #[schemars(extend("enum" = BOOTSTRAP_PHASES))]
    pub failed_phase: String,
}

/// The clock of a machine is wrong: exactly one of ahead and behind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule("has(self.ahead) != has(self.behind)", "exactly one of ahead and behind has to be set"),
]))]
pub struct ClockSkew {
    /// How much the clock is ahead.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub ahead: String,
    /// How much the clock is behind.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub behind: String,
}

/// A machine is created twice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Duplicate {
    /// When the manager repeats the creation, unless something happens to the machine before; by default after 5s, and
    /// after 100ms at the earliest.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32), regex(pattern = DURATION_PATTERN))]
    pub retry_after: String,
}

/// The cloud takes instances back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SpotReclaim {
    /// The time between the notice and the end of an instance, in the time of its cloud; by default 2m.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub notice: String,
}

/// A part of the cloud is down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Outage {
    /// When the manager tries again to create a machine; by default after 5s, and after 100ms at the earliest.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 32), regex(pattern = DURATION_PATTERN))]
    pub retry_after: String,
}

/// A condition that the Node of a machine has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["type", "status"]))]
pub struct FaultyCondition {
    /// Its type, such as DiskPressure or KernelDeadlock.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub kind: String,
    /// Its status.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// Its reason; by default SimulatedFault.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256), regex(pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: String,
    /// Its message. The name of the fault is added.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub message: String,
}

/// A machine does not get past a stage of its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["stage"]))]
pub struct Hold {
    /// The stage. With node, the machine boots but never joins its cluster.
    #[schemars(extend("enum" = HELD_STAGES))]
    pub stage: String,
}

/// The API servers of a workload cluster misbehave: exactly one of down, error, latency, cutWatches and staleReads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "[has(self.down), has(self.error), has(self.latency), has(self.cutWatches), has(self.staleReads)]\
         .filter(set, set).size() == 1",
        "exactly one of down, error, latency, cutWatches and staleReads has to be set",
    ),
    schema::rule(
        "!has(self.down) || !(has(self.verbs) || has(self.resources))",
        "verbs and resources cannot be set with down",
    ),
    schema::rule("!has(self.cutWatches) || !has(self.verbs)", "verbs cannot be set with cutWatches"),
    schema::rule(
        "!has(self.staleReads) || !has(self.verbs) || self.verbs.all(verb, verb in ['get', 'list', 'watch'])",
        "verbs can only be get, list and watch with staleReads",
    ),
]))]
pub struct ApiServerFault {
    /// No API server is in service: connections end, and new ones get no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down: Option<NoSettings>,
    /// Requests are answered with an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RequestError>,
    /// Requests are answered late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Delay>,
    /// The connections of watches break.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_watches: Option<CutWatches>,
    /// Reads see the objects as they were when the fault hit the cluster, and watches see no change. Writes are carried
    /// out. Open connections end when it begins and when it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_reads: Option<NoSettings>,
    /// The verbs of the requests; by default all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "request_verbs")]
    pub verbs: Vec<String>,
    /// The resources of the requests, such as nodes; by default all requests, also those without a resource.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100))]
    #[schemars(inner(length(min = 1, max = 63), regex(pattern = PLACE_PATTERN)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub resources: Vec<String>,
}

/// The etcd of a workload cluster misbehaves: exactly one of alarm, noLeader, slow and hiddenMember.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "[has(self.alarm), has(self.noLeader), has(self.slow), has(self.hiddenMember)].filter(set, set).size() == 1",
        "exactly one of alarm, noLeader, slow and hiddenMember has to be set",
    ),
]))]
pub struct EtcdFault {
    /// The etcd members of control plane machines raise this alarm.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ETCD_ALARMS))]
    pub alarm: String,
    /// The members cannot elect a leader, as when the quorum is lost. Such a fault is about Clusters, so fields of match
    /// that are about machines fit nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_leader: Option<NoSettings>,
    /// All calls are answered late. Such a fault is about Clusters, so fields of match that are about machines fit
    /// nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow: Option<Delay>,
    /// The member list omits the members of control plane machines. They work all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden_member: Option<NoSettings>,
}

/// The API server on a control plane machine presents a certificate that expires early: exactly one of expiresIn and
/// expired. The machines in service take the connections to the load balancer in turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "has(self.expiresIn) != has(self.expired)",
        "exactly one of expiresIn and expired has to be set",
    ),
]))]
pub struct CertificateFault {
    /// The certificate expires after this time, from when the fault began, or from the start of the API server if that
    /// is later.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub expires_in: String,
    /// The certificate has expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expired: Option<NoSettings>,
}

/// The load balancer of a workload cluster misbehaves: exactly one of noBackends, wrongBackends and reset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "[has(self.noBackends), has(self.wrongBackends), has(self.reset)].filter(set, set).size() == 1",
        "exactly one of noBackends, wrongBackends and reset has to be set",
    ),
]))]
pub struct LoadBalancerFault {
    /// Open connections end, and new ones are accepted and closed at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_backends: Option<NoSettings>,
    /// Open connections end, and new ones reach a server of another cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong_backends: Option<NoSettings>,
    /// Connections break off. New ones work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset: Option<ConnectionReset>,
}

/// Connections break off.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["after"]))]
pub struct ConnectionReset {
    /// The time until a connection breaks, from when it began, or from when the fault hit the cluster if that is later.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub after: String,
    /// The probability that a connection breaks, from 0 to 1; by default 1.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = JITTER_PATTERN))]
    pub probability: String,
}

/// The kubelet falls silent and comes back in turn, beginning with silence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["up", "down"], "x-kubernetes-validations" = [
    schema::rule(
        "duration(self.up) >= duration('1s') && duration(self.down) >= duration('1s')",
        "flap.up and flap.down must be at least 1s",
    ),
]))]
pub struct Flap {
    /// How long the kubelet reports; at least 1s.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub up: String,
    /// How long it is silent; at least 1s.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub down: String,
}

/// Requests are answered with an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["code"]))]
pub struct RequestError {
    /// The status code.
    #[schemars(extend("enum" = ERROR_CODES))]
    pub code: i32,
    /// The probability that a request fails, from 0 to 1; by default 1.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = JITTER_PATTERN))]
    pub probability: String,
}

/// The connections of watches break.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["after"]))]
pub struct CutWatches {
    /// The time from the beginning of a watch until its connection breaks.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub after: String,
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

/// How often a fault hits what it is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FaultBudget {
    /// The probability of a hit, from 0 to 1; by default 1.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = JITTER_PATTERN))]
    pub probability: String,
    /// How many operations or machines are spared before the first hit; by default 0.
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
    /// The windows in which the fault is in force; by default always. Between them, what it has hit is healed as when it is
    /// deleted. It decides anew in each window what it hits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<FaultSchedule>,
}

/// Windows that come again and again, counted from when the fault began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["every", "for"], "x-kubernetes-validations" = [
    schema::rule(
        "duration(self.for) >= duration('1s') && duration(self.every) - duration(self.for) >= duration('1s')",
        "schedule.for must be at least 1s, and 1s shorter than schedule.every",
    ),
]))]
pub struct FaultSchedule {
    /// The time from the begin of a window to the begin of the next one.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub every: String,
    /// How long a window lasts: at least 1s, and 1s shorter than every.
    #[serde(rename = "for")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub lasts: String,
    /// The time until the first window; by default it begins with the fault.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub offset: String,
}

/// The status of a fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FaultStatus {
    /// Active while it can hit. Waiting before and between the windows of its schedule. Exhausted when it has made as many hits as it may. Expired when its time is over. Invalid
    /// when the manager cannot use its spec.
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
    /// The spec with which it goes on while it is paused. A change of its spec waits until it is resumed.
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
    /// The address or prefix that nobody gets because of the fault.
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
    #[schemars(extend("enum" = OPERATIONS))]
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
        "maxItems": OPERATIONS.len(),
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "enum": OPERATIONS },
    })
}

fn callers(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Who calls the operations: cluster for those of an InMemoryCluster, which are about its load \
                        balancer; machinePool for those of an InMemoryMachine of a MachinePool; machine for those of \
                        other InMemoryMachines. By default all.",
        "type": "array",
        "minItems": 1,
        "maxItems": CALLERS.len(),
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "enum": CALLERS },
    })
}

fn markets(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "How the machines are paid for. A load balancer is not hit.",
        "type": "array",
        "minItems": 1,
        "maxItems": MARKETS.len(),
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "enum": MARKETS },
    })
}

fn request_verbs(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The verbs of the requests; by default all.",
        "type": "array",
        "minItems": 1,
        "maxItems": REQUEST_VERBS.len(),
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "enum": REQUEST_VERBS },
    })
}
