//! `Scenario`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::FaultSpec;
use super::simulated_cloud::{NAME_PATTERN, PLACE_PATTERN};
use crate::schema;
use crate::start_up::DURATION_PATTERN;

/// The phases of a scenario.
pub const SCENARIO_PHASES: [&str; 4] = ["Pending", "Running", "Passed", "Failed"];
/// The phases of a step.
pub const STEP_PHASES: [&str; 5] = ["Pending", "Running", "Passed", "Failed", "Skipped"];
/// The phases of a Machine (`api/core/v1beta2/machine_phase_types.go` of cluster-api).
pub const MACHINE_PHASES: [&str; 9] = [
    "Pending",
    "Provisioning",
    "Provisioned",
    "Running",
    "Updating",
    "Deleting",
    "Deleted",
    "Failed",
    "Unknown",
];
/// The kinds whose replicas a step can set.
pub const SCALED_KINDS: [&str; 4] = ["MachineDeployment", "KubeadmControlPlane", "MachinePool", "Cluster"];
/// The most steps of a scenario.
pub const STEPS_MAX: usize = 100;
/// The longest message of a step, in characters.
pub const STEP_MESSAGE_MAX: usize = 1024;
/// The longest manifests of a step, in bytes.
pub const MANIFESTS_MAX: usize = 64 * 1024;

/// The name of a kind.
const KIND_PATTERN: &str = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";
/// The name of an object.
const OBJECT_PATTERN: &str = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
/// `<group>/<version>`.
const API_VERSION_PATTERN: &str = "^[a-z0-9.-]+/v[0-9][a-z0-9]*$";
/// Names of fields with dots between them.
const FIELD_PATTERN: &str = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$";
/// The type of a condition.
const CONDITION_PATTERN: &str = "^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$";
/// A version of Kubernetes.
const KUBERNETES_PATTERN: &str =
    r"^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$";

/// What happens in a namespace, step by step, and what has to be seen there.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cloud.nephele.dev",
    version = "v1alpha1",
    kind = "Scenario",
    namespaced,
    status = "ScenarioStatus",
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq",
    doc = "Lets things go wrong in its namespace, step by step, and checks what comes of them. It runs once, and once more after each change of its spec. When it is over or deleted, the Faults that it has made are deleted.",
    printcolumn(
        name = "Phase",
        type_ = "string",
        json_path = ".status.phase",
        description = "Whether it runs, and how it ended"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Passed')].message",
        description = "The step that runs, or why it failed"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["steps"]))]
pub struct ScenarioSpec {
    /// The steps, in order. A step begins when the one before it has passed. When a step fails, those after it are
    /// skipped.
    #[schemars(length(min = 1, max = STEPS_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub steps: Vec<ScenarioStep>,
}

/// A step: exactly one action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "[has(self.wait), has(self.expect), has(self.never), has(self.fault), has(self.heal), has(self.scale), \
         has(self.upgrade), has(self.apply), has(self.delete), has(self.pause), has(self.say)].filter(set, set).size() == 1",
        "exactly one action has to be set",
    ),
]))]
pub struct ScenarioStep {
    /// Its name in the status; by default step- and its number.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// Waits for what the rest of the scenario needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Expectation>,
    /// Waits for what the scenario is about. It differs from wait in reports only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expectation>,
    /// Fails as soon as this is seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub never: Option<Never>,
    /// Creates a Fault, and waits until it is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultStep>,
    /// Deletes a Fault of an earlier step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heal: Option<Heal>,
    /// Sets a number of replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// Sets the Kubernetes version of a Cluster with a topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// Creates objects, or changes those that exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apply: Option<Apply>,
    /// Deletes an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<Delete>,
    /// Lets time pass.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub pause: String,
    /// Says this in the status and in an Event.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = STEP_MESSAGE_MAX))]
    pub say: String,
}

/// What has to be seen: exactly one of cluster, machines and object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["within"], "x-kubernetes-validations" = [
    schema::rule(ONE_SIGHT, "exactly one of cluster, machines and object has to be set"),
    schema::rule(CONDITION_OF_CLUSTER, "condition has to be set with cluster, and only then"),
    schema::rule(STATUS_OF_CLUSTER, "status can only be set with cluster"),
]))]
pub struct Expectation {
    /// The name of a Cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = OBJECT_PATTERN))]
    pub cluster: String,
    /// The type of a condition of the Cluster, such as Available.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 316), regex(pattern = CONDITION_PATTERN))]
    pub condition: String,
    /// The status of the condition; by default True.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// A number of Machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<MachineCount>,
    /// A field of an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectField>,
    /// How long it may take. With 0 it has to be seen at once.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub within: String,
}

/// What must not be seen: exactly one of cluster, machines and object. It is looked for once a second.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["during"], "x-kubernetes-validations" = [
    schema::rule(ONE_SIGHT, "exactly one of cluster, machines and object has to be set"),
    schema::rule(CONDITION_OF_CLUSTER, "condition has to be set with cluster, and only then"),
    schema::rule(STATUS_OF_CLUSTER, "status can only be set with cluster"),
]))]
pub struct Never {
    /// The name of a Cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = OBJECT_PATTERN))]
    pub cluster: String,
    /// The type of a condition of the Cluster, such as Available.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 316), regex(pattern = CONDITION_PATTERN))]
    pub condition: String,
    /// The status of the condition; by default True.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// A number of Machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<MachineCount>,
    /// A field of an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectField>,
    /// How long it is looked for.
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub during: String,
}

const ONE_SIGHT: &str =
    "[has(self.cluster), has(self.machines), has(self.object)].filter(set, set).size() == 1";
const CONDITION_OF_CLUSTER: &str = "has(self.cluster) == has(self.condition)";
const STATUS_OF_CLUSTER: &str = "has(self.cluster) || !has(self.status)";

/// A number of Machines: exactly one of count, atLeast and atMost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "[has(self.count), has(self.atLeast), has(self.atMost)].filter(set, set).size() == 1",
        "exactly one of count, atLeast and atMost has to be set",
    ),
]))]
pub struct MachineCount {
    /// The Cluster of the Machines; by default any.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = OBJECT_PATTERN))]
    pub cluster: String,
    /// The Machines, by their labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::counted_machines")]
    pub selector: Option<serde_json::Value>,
    /// Counts only Machines in this phase; by default all.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = MACHINE_PHASES))]
    pub phase: String,
    /// There are exactly so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub count: Option<i32>,
    /// There are so many or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub at_least: Option<i32>,
    /// There are so many or fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub at_most: Option<i32>,
}

/// A field of an object of Cluster API or of the simulated cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["apiVersion", "kind", "name", "field", "value"]))]
pub struct ObjectField {
    /// The group and version, such as cluster.x-k8s.io/v1beta2. The group is cluster.x-k8s.io, one of its subgroups
    /// bootstrap, controlplane, infrastructure and ipam, or cloud.nephele.dev.
    #[schemars(length(min = 1, max = 253), regex(pattern = API_VERSION_PATTERN))]
    pub api_version: String,
    /// The kind.
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND_PATTERN))]
    pub kind: String,
    /// The name of the object.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_PATTERN))]
    pub name: String,
    /// The path of the field, such as status.readyReplicas.
    #[schemars(length(min = 1, max = 256), regex(pattern = FIELD_PATTERN))]
    pub field: String,
    /// The value of the field: a text, a number, true or false, as text. A field that is not there has the value "".
    #[schemars(length(max = 256))]
    pub value: String,
}

/// A Fault that a step creates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "spec"]))]
pub struct FaultStep {
    /// Its name in the scenario. The Fault is called after the scenario and this name, with a dash between them.
    #[schemars(length(min = 1, max = 63), regex(pattern = PLACE_PATTERN))]
    pub name: String,
    /// The spec of the Fault.
    pub spec: FaultSpec,
    /// When the Fault is deleted, counted from the end of the step; by default when the scenario is over.
    #[serde(rename = "for", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub lasts: String,
}

/// A Fault that a step deletes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["fault"]))]
pub struct Heal {
    /// The name that the Fault has in an earlier step.
    #[schemars(length(min = 1, max = 63), regex(pattern = PLACE_PATTERN))]
    pub fault: String,
}

/// A number of replicas to set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["kind", "name", "replicas"], "x-kubernetes-validations" = [
    schema::rule(
        "self.kind == 'Cluster' || !(has(self.machineDeployment) || has(self.machinePool))",
        "machineDeployment and machinePool can only be set with the kind Cluster",
    ),
    schema::rule(
        "!has(self.machineDeployment) || !has(self.machinePool)",
        "only one of machineDeployment and machinePool can be set",
    ),
]))]
pub struct Scale {
    /// The kind of the object. Cluster stands for the topology of a Cluster.
    #[schemars(extend("enum" = SCALED_KINDS))]
    pub kind: String,
    /// The name of the object.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_PATTERN))]
    pub name: String,
    /// In the topology of a Cluster, the name of a MachineDeployment. Without this and machinePool, its control plane.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = OBJECT_PATTERN))]
    pub machine_deployment: String,
    /// In the topology of a Cluster, the name of a MachinePool.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = OBJECT_PATTERN))]
    pub machine_pool: String,
    /// The number of replicas.
    #[schemars(range(min = 0))]
    pub replicas: i32,
}

/// A version to set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["cluster", "version"]))]
pub struct Upgrade {
    /// The name of a Cluster with a topology.
    #[schemars(length(min = 1, max = 63), regex(pattern = OBJECT_PATTERN))]
    pub cluster: String,
    /// The version of Kubernetes, such as v1.36.3.
    #[schemars(length(min = 1, max = 64), regex(pattern = KUBERNETES_PATTERN))]
    pub version: String,
}

/// Objects to create or change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["manifests"]))]
pub struct Apply {
    /// YAML documents, each with an object of the scenario's namespace. Its group is one of those of expect.object. Fields
    /// that an existing object has and its document does not are left alone.
    #[schemars(length(min = 1, max = MANIFESTS_MAX))]
    pub manifests: String,
}

/// An object to delete.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["apiVersion", "kind", "name"]))]
pub struct Delete {
    /// The group and version, such as cluster.x-k8s.io/v1beta2. The group is one of those of expect.object.
    #[schemars(length(min = 1, max = 253), regex(pattern = API_VERSION_PATTERN))]
    pub api_version: String,
    /// The kind.
    #[schemars(length(min = 1, max = 63), regex(pattern = KIND_PATTERN))]
    pub kind: String,
    /// The name of the object. The step does not wait until it is gone.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_PATTERN))]
    pub name: String,
}

/// The status of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ScenarioStatus {
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pending until the Faults of an earlier run are gone. Running until all steps are over. Then Passed, or Failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = SCENARIO_PHASES))]
    pub phase: String,
    /// When the first step began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<MicroTime>,
    /// When the last step was over and its Faults were gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<MicroTime>,
    /// The steps, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = STEPS_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub steps: Vec<StepStatus>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// The status of a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "phase"]))]
pub struct StepStatus {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Pending until it begins. Running, and then Passed or Failed. Skipped when a step before it has failed.
    #[schemars(extend("enum" = STEP_PHASES))]
    pub phase: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<MicroTime>,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<MicroTime>,
    /// What was seen or done.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = STEP_MESSAGE_MAX))]
    pub message: String,
}
