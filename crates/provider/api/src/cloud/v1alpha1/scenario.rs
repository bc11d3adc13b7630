//! `Scenario`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::CustomResource;
use nephele_model::name_patterns::{NAME_PATTERN, PLACE_PATTERN};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    clock::{CloudClock, RATE_PATTERN},
    fault::FaultSpec,
};
use crate::{schema, start_up::DURATION_PATTERN};

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
pub const SCALED_KINDS: [&str; 4] = [
    "MachineDeployment",
    "KubeadmControlPlane",
    "MachinePool",
    "Cluster",
];
/// The most steps of a scenario, with those of each branch and each round.
pub const STEPS_MAX: usize = 100;
/// The most steps of a branch or a round.
pub const INNER_STEPS_MAX: usize = 20;
/// The most branches of a step.
pub const BRANCHES_MAX: usize = 10;
/// The most rounds of a step or a branch.
pub const ROUNDS_MAX: i32 = 100;
/// The longest name of a step in the status: those of a step, a branch, a round and a step in it, with slashes between them.
pub const STEP_NAME_MAX: usize = 4 * 63 + 3;
/// The most steps of a clock at once.
pub const CLOCK_STEPS_MAX: i64 = 1000;
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

/// A value of forEach.
const ITEM_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9 ._/:+-]*$";
/// A variable in a text of a step in a branch or a round.
const VARIABLE_PATTERN: &str = r"\$\((item|index)\)";
/// What such a text may have beside its variables. What comes of it is checked when the variables are replaced.
const AROUND_VARIABLES: &str = "-A-Za-z0-9._+";
/// What it may have besides if its own pattern has it, such as the slash of a condition's type.
const RARE_AROUND_VARIABLES: [char; 3] = ['/', ':', ','];

/// How many steps a scenario has, with those of each branch and each round.
const STEPS_SUM: &str = "self.steps.map(step, \
     has(step.parallel) ? step.parallel.map(branch, size(branch.steps) * \
     (has(branch.repeat) ? branch.repeat : has(branch.forEach) ? size(branch.forEach) : 1)).sum() : \
     has(step.steps) ? size(step.steps) * \
     (has(step.repeat) ? step.repeat : has(step.forEach) ? size(step.forEach) : 1) : 1).sum() <= 100";

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
#[schemars(extend("required" = ["steps"], "x-kubernetes-validations" = [
    json!({
        "rule": STEPS_SUM,
        "message": "there can be at most 100 steps, with those of each branch and each round",
        "fieldPath": ".steps",
    }),
]))]
pub struct ScenarioSpec {
    /// The steps, in order. A step begins when the one before it has passed. When a step fails, all others that are not
    /// over are skipped. There are at most 100, with those of each branch and each round.
    #[schemars(length(min = 1, max = STEPS_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub steps: Vec<ScenarioStep>,
}

/// A step: exactly one action, or other steps at the same time, or a list of steps several times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    exactly_one(&["parallel", "steps"], "exactly one action, parallel or steps has to be set"),
    schema::rule(
        "has(self.steps) == (has(self.repeat) || has(self.forEach))",
        "steps has to be set with repeat or forEach, and only then",
    ),
    schema::rule(ONE_LOOP, "only one of repeat and forEach can be set"),
]))]
pub struct ScenarioStep {
    /// Its name in the status; by default step- and its number.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// What it does.
    #[serde(flatten)]
    pub action: StepAction,
    /// Branches that run at the same time. The step passes when all have passed. When one fails, the others stop where
    /// they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 2, max = BRANCHES_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub parallel: Vec<Branch>,
    /// Runs steps so many times, one round after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = ROUNDS_MAX))]
    pub repeat: Option<i32>,
    /// Runs steps once for each of these values, one round after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "items")]
    pub for_each: Vec<String>,
    /// The steps of a round, in order, with the fields of other steps but parallel, repeat, forEach and steps. In their texts,
    /// $(index) is the number of the round, from 1, and $(item) the value of forEach. As in the arguments of a container,
    /// $$(item) stands for the text $(item).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "inner_steps")]
    pub steps: Vec<InnerStep>,
}

/// A branch: steps in order, once or several times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["steps"], "x-kubernetes-validations" = [
    schema::rule(ONE_LOOP, "only one of repeat and forEach can be set"),
]))]
pub struct Branch {
    /// Its name in the status; by default branch- and its number. No other branch of the step has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// Runs the steps so many times, one round after the other; by default once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = ROUNDS_MAX))]
    pub repeat: Option<i32>,
    /// Runs the steps once for each of these values, one round after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "items")]
    pub for_each: Vec<String>,
    /// The steps, in order, with the same fields as those of a round. With repeat or forEach their texts can have $(index)
    /// and $(item), too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "inner_steps")]
    pub steps: Vec<InnerStep>,
}

/// A step of a branch or a round: exactly one action.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    exactly_one(&[], "exactly one action has to be set"),
]))]
pub struct InnerStep {
    /// Its name in the status; by default step- and its number.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// What it does.
    #[serde(flatten)]
    pub action: StepAction,
}

/// What a step does: exactly one of these.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct StepAction {
    /// Waits for what the rest of the scenario needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Expectation>,
    /// Waits for what the scenario checks. It differs from wait in reports only.
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
    /// Changes the clock of a SimulatedCloud, and waits until the change is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockChange>,
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

/// The fields of a [`StepAction`].
const ACTIONS: [&str; 12] = [
    "wait", "expect", "never", "fault", "heal", "clock", "scale", "upgrade", "apply", "delete", "pause",
    "say",
];

/// The rule that exactly one action or one of these other fields is set.
fn exactly_one(others: &[&str], message: &str) -> Value {
    let fields: Vec<_> = ACTIONS
        .iter()
        .chain(others)
        .map(|field| format!("has(self.{field})"))
        .collect();
    schema::rule(
        &format!("[{}].filter(set, set).size() == 1", fields.join(", ")),
        message,
    )
}

const ONE_LOOP: &str = "!has(self.repeat) || !has(self.forEach)";

/// The values of forEach.
fn items(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": ROUNDS_MAX,
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "minLength": 1, "maxLength": 63, "pattern": ITEM_PATTERN },
    })
}

/// Steps whose texts can have variables.
fn inner_steps(generator: &mut SchemaGenerator) -> Schema {
    let mut step = generator.subschema_for::<InnerStep>().to_value();
    take_variables(&mut step);
    schemars::json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": INNER_STEPS_MAX,
        "x-kubernetes-list-type": "atomic",
        "items": step,
    })
}

/// Lets texts of a schema have variables. Texts that a rule reads as durations cannot have any: the rule would fail.
fn take_variables(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    if let Some(pattern) = fields.get_mut("pattern").filter(|pattern| pattern.is_string()) {
        let plain = pattern.as_str().unwrap_or_default();
        let rare: String = RARE_AROUND_VARIABLES
            .into_iter()
            .filter(|rare| plain.contains(*rare))
            .collect();
        let around = format!("[{AROUND_VARIABLES}{rare}]*");
        *pattern = format!("{plain}|^{around}({VARIABLE_PATTERN}{around})+$").into();
    }
    let rules = fields
        .get("x-kubernetes-validations")
        .map(Value::to_string)
        .unwrap_or_default();
    for (name, property) in fields
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        if !rules.contains(&format!("duration(self.{name})")) {
            take_variables(property);
        }
    }
    for nested in ["items", "additionalProperties"] {
        if let Some(schema) = fields.get_mut(nested) {
            take_variables(schema);
        }
    }
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

/// A change of the clock of a SimulatedCloud.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["cloud"], "x-kubernetes-validations" = [
    schema::rule(
        "has(self.rate) || has(self.paused) || has(self.step) || has(self.jump)",
        "one of rate, paused, step and jump has to be set",
    ),
]))]
pub struct ClockChange {
    /// The name of the SimulatedCloud.
    #[schemars(length(min = 1, max = 253), regex(pattern = OBJECT_PATTERN))]
    pub cloud: String,
    /// How much time passes in the cloud for each second, from 0.01 to 1000. Without it, the rate stays as it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 16), regex(pattern = RATE_PATTERN))]
    pub rate: String,
    /// Whether the clock stands still. Without it, this stays as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// How many stages, updates and deletions end, one after the other, while the clock stands still.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = CLOCK_STEPS_MAX))]
    pub step: Option<i64>,
    /// How much time passes in the cloud at once.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub jump: String,
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
    /// The generation of the spec that this status describes.
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
    /// The steps, in order, with those of each branch and each round.
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
    /// Its name, after those of its step, branch and round, if it has these, with slashes between them.
    #[schemars(length(min = 1, max = STEP_NAME_MAX))]
    pub name: String,
    /// Pending until it begins. Running, and then Passed or Failed. Skipped when another step has failed before it was over.
    #[schemars(extend("enum" = STEP_PHASES))]
    pub phase: String,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<MicroTime>,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<MicroTime>,
    /// When a step wait, expect or never looked last and saw whether it is met. While the step runs, this may be two seconds
    /// old, and half a minute for wait and expect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looked: Option<MicroTime>,
    /// What was seen or done.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = STEP_MESSAGE_MAX))]
    pub message: String,
    /// What a step clock sets, with its step and jump as the counter and the total of the SimulatedCloud. It is written down
    /// before it is set, so that nothing happens twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<CloudClock>,
}
