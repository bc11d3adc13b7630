//! `SimulatedCloud`.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::CustomResource;
use nephele_model::{Amount, Caller, Image, InstanceType, Quotas, Stock, name_patterns::PLACE_PATTERN};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    api_limits::CloudApi,
    built_in::built_in_instance_types,
    clock::{CloudClock, CloudClockStatus},
    fault::AFFECTED_MAX,
    latency::CloudLatency,
    leaked::{LeakedInstance, LeakedLoadBalancer},
};
use crate::schema;

/// An amount that prices add up to.
const AMOUNT_PATTERN: &str = r"^[0-9]+(\.[0-9]+)?$";
/// The most clusters whose cost a status lists.
pub const CLUSTER_COSTS_MAX: usize = 20;
/// What happens to leaked instances.
pub const LEAKED_INSTANCES: [&str; 2] = ["Keep", "Delete"];

/// The zones, instance types, images and limits of a cloud, its seed, latencies and clock. Fields that are left out
/// have built-in defaults.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cloud.nephele.dev",
    version = "v1alpha1",
    kind = "SimulatedCloud",
    namespaced,
    status = "SimulatedCloudStatus",
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq",
    doc = "A cloud for simulated clusters: its zones, instance types, images and limits and latencies.",
    printcolumn(
        name = "Zones",
        type_ = "integer",
        json_path = ".status.zones",
        description = "Number of zones"
    ),
    printcolumn(
        name = "Machines",
        type_ = "integer",
        json_path = ".status.instances",
        description = "Number of machines"
    ),
    printcolumn(
        name = "Waiting",
        type_ = "integer",
        json_path = ".status.waiting",
        description = "How many machines and load balancers wait for room"
    ),
    printcolumn(
        name = "Leaked",
        type_ = "integer",
        json_path = ".status.leaked",
        description = "Number of leaked instances and load balancers"
    ),
    printcolumn(
        name = "Per hour",
        type_ = "string",
        json_path = ".status.cost.perHour",
        description = "What its machines cost in an hour of its time"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        description = "Whether clusters can use it"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(default, rename_all = "camelCase")]
pub struct SimulatedCloudSpec {
    /// The regions and zones for machines. The zones are the failure domains of clusters that list none themselves.
    /// Without a region, such clusters have no failure domains.
    // As many zones in all as a Cluster can have failure domains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10))]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"],
        "x-kubernetes-validations" = [schema::rule(
            "self.all(region, region.zones.all(zone, self.exists_one(other, other.zones.exists(twin, twin.name == zone.name))))",
            "the name of a zone is used in one region only",
        )],
    ))]
    pub regions: Vec<Region>,
    /// The instance types for machines; by default small, medium, large, xlarge, medium-arm64 and large-gpu. A machine
    /// that names no type has 2 processors and 4Gi of memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub instance_types: Vec<InstanceType>,
    /// The images that machines can boot from. If none is listed, any name is accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub images: Vec<Image>,
    /// How much the clusters of the cloud may have at a time. What is beyond a quota waits until there is room. By
    /// default there are no quotas.
    #[serde(skip_serializing_if = "schema::is_default")]
    pub quotas: Quotas,
    /// How many machines there are, by instance type and zone. A machine has to fit into each entry that covers it;
    /// one that does not fit waits. By default there is any number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50))]
    #[schemars(extend(
        "x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = [schema::rule(
            "self.all(one, self.exists_one(other, \
             (has(one.instanceType) ? one.instanceType : '') == (has(other.instanceType) ? other.instanceType : '') && \
             (has(one.zone) ? one.zone : '') == (has(other.zone) ? other.zone : '')))",
            "each combination of instanceType and zone is listed once",
        )],
    ))]
    pub capacity: Vec<Stock>,
    /// The seed of everything random about the cloud's machines, such as amber-otter-lamp. By default that of the
    /// manager. The same seed gives a machine of the same cluster, set and number the same durations in every run. A
    /// changed seed is for what is drawn from then on.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 63))]
    pub seed: String,
    /// How long machines take to start and to be deleted, where their own spec does not say so. By default they take no
    /// time. Changed latencies are for what begins from then on, also of machines that exist.
    #[serde(skip_serializing_if = "schema::is_default")]
    pub latency: CloudLatency,
    /// How fast time passes for the cloud's machines. By default as fast as real time.
    #[serde(skip_serializing_if = "schema::is_default")]
    pub clock: CloudClock,
    /// How often the API of the cloud may be called, and how soon reads show what was created. By default there are no
    /// limits, and reads show everything at once.
    #[serde(skip_serializing_if = "schema::is_default")]
    pub api: CloudApi,
    /// What happens to leaked instances and load balancers, which still exist although they have no owner. Keep, which is
    /// the default, leaves them as they are. Delete deletes them as soon as the status lists them.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = LEAKED_INSTANCES))]
    pub leaked_instances: String,
}

/// Zones that are near each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "zones"]))]
pub struct Region {
    /// Its name: the label topology.kubernetes.io/region of Nodes.
    #[schemars(length(min = 1, max = 63), regex(pattern = PLACE_PATTERN))]
    pub name: String,
    /// Its zones.
    #[schemars(length(min = 1, max = 10))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub zones: Vec<Zone>,
}

/// A part of a region that fails independently.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name"]))]
pub struct Zone {
    /// Its name: that of the failure domain, and the label topology.kubernetes.io/zone of Nodes.
    #[schemars(length(min = 1, max = 63), regex(pattern = PLACE_PATTERN))]
    pub name: String,
    /// Whether control plane machines may be placed there; by default they may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
}

/// The status of a cloud.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SimulatedCloudStatus {
    /// The number of its zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub zones: Option<i32>,
    /// The number of its machines, including those that are being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub instances: Option<i64>,
    /// How many machines and load balancers wait until there is room.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub waiting: Option<i64>,
    /// How much of each quota and stock is used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub usage: Vec<LimitUsage>,
    /// Its clock, if it was ever changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<CloudClockStatus>,
    /// How many of its instances and load balancers are leaked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub leaked: Option<i64>,
    /// Its leaked instances: the cloud has called them deleted, or made another one in their place, and they still exist. No
    /// more than a hundred leak.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = AFFECTED_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub leaked_instances: Vec<LeakedInstance>,
    /// Its leaked load balancers: the cloud has called them deleted, and they still exist. No more than a hundred leak.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = AFFECTED_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub leaked_load_balancers: Vec<LeakedLoadBalancer>,
    /// What its machines cost. It is not set while nothing was spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<CloudCost>,
    /// What was found about the callers of its operations, which are the controllers of a provider. A caller about which
    /// nothing was found is not listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = Caller::ALL.len()))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["caller"]))]
    #[serde(rename = "findings")]
    pub caller_mistakes: Vec<MistakesByCaller>,
    /// The spec that is in force while it is paused. A change of its spec waits until it is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::kept_spec")]
    pub paused_spec: Option<SimulatedCloudSpec>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// What the machines of a cloud cost. It is written when the cost of an hour changes; until then, the total grows by that
/// much in each hour of the cloud's time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["total", "perHour", "time"]))]
pub struct CloudCost {
    /// What was spent until then.
    #[schemars(with = "String", length(min = 1, max = 32), regex(pattern = AMOUNT_PATTERN))]
    pub total: Amount,
    /// What is spent in an hour of the cloud's time.
    #[schemars(with = "String", length(min = 1, max = 32), regex(pattern = AMOUNT_PATTERN))]
    pub per_hour: Amount,
    /// The cloud's time, which is the usual time unless its clock was changed.
    pub time: Option<MicroTime>,
    /// The clusters that have cost most, the dearest first; at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = CLUSTER_COSTS_MAX))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub clusters: Vec<ClusterCost>,
}

/// What the machines of a cluster cost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "total", "perHour"]))]
pub struct ClusterCost {
    /// The cluster. It may be gone.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// What was spent.
    #[schemars(with = "String", length(min = 1, max = 32), regex(pattern = AMOUNT_PATTERN))]
    pub total: Amount,
    /// What is spent in an hour of the cloud's time.
    #[schemars(with = "String", length(min = 1, max = 32), regex(pattern = AMOUNT_PATTERN))]
    pub per_hour: Amount,
}

/// What was found about a caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["caller"]))]
pub struct MistakesByCaller {
    /// The caller, as in callers of a Fault.
    #[schemars(extend("enum" = Caller::ALL))]
    pub caller: String,
    /// How many of its creations made another instance for a machine that had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub double_creates: Option<i64>,
    /// How many of its reads did not show a change that it had made before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub missed_reads: Option<i64>,
}

/// How much of a quota or stock is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "limit", "used", "free", "waiting"]))]
pub struct LimitUsage {
    /// The quota: instances, vCPUs or loadBalancers. A stock is capacity/TYPE/ZONE, with * for all types or zones.
    #[schemars(length(min = 1, max = 140))]
    pub name: String,
    /// The limit.
    #[schemars(range(min = 0))]
    pub limit: i64,
    /// How much is used. More than the limit if the limit was lowered.
    #[schemars(range(min = 0))]
    pub used: i64,
    /// How much is free.
    #[schemars(range(min = 0))]
    pub free: i64,
    /// How many machines or load balancers wait for it.
    #[schemars(range(min = 0))]
    pub waiting: i64,
}

impl SimulatedCloudSpec {
    /// All zones, each with its region.
    pub fn zones(&self) -> impl Iterator<Item = (&Region, &Zone)> {
        self.regions
            .iter()
            .flat_map(|region| region.zones.iter().map(move |zone| (region, zone)))
    }

    /// The instance types of the cloud: those in the spec, or else the built-in ones.
    #[must_use]
    pub fn instance_types(&self) -> Cow<'_, [InstanceType]> {
        if self.instance_types.is_empty() {
            Cow::Owned(built_in_instance_types())
        } else {
            Cow::Borrowed(&self.instance_types)
        }
    }
}
