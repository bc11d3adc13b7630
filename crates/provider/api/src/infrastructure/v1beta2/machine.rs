//! `InMemoryMachine`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::CustomResource;
use nephele_model::{Fraction, GoDuration, Market};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    creation_record::CreationRecord,
    deletion::Deletion,
    initialization::Initialization,
    instance::InstanceRecord,
    network::{MachineNetwork, MachineNetworkStatus, PoolReference},
    pool_machine::annotation,
    termination::{TERMINATE_ANNOTATION, Termination},
    update::Update,
};
use crate::{core::machine_address::MachineAddress, schema};

/// The desired state of a simulated machine.
///
/// There is no `failureDomain` here on purpose: Cluster API would copy it to the Machine, even an empty one
/// (`core/reconcilers/machine/machine_controller_phases.go`, `reconcileInfrastructure`).
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "infrastructure.cluster.x-k8s.io",
    version = "v1beta2",
    kind = "InMemoryMachine",
    namespaced,
    status = "InMemoryMachineStatus",
    category = "cluster-api",
    derive = "Default",
    derive = "PartialEq",
    doc = "A simulated machine.",
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = r".metadata.labels['cluster\.x-k8s\.io/cluster-name']",
        description = "Cluster that this belongs to"
    ),
    printcolumn(
        name = "Provider ID",
        type_ = "string",
        json_path = ".spec.providerID",
        description = "Provider ID, which ties it to its Node",
        priority = 10
    ),
    printcolumn(
        name = "Failure domain",
        type_ = "string",
        json_path = ".status.failureDomain",
        description = "Where it is placed"
    ),
    printcolumn(
        name = "IP",
        type_ = "string",
        json_path = ".status.addresses[?(@.type=='InternalIP')].address",
        description = "Its address",
        priority = 10
    ),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Paused')].status",
        description = "Whether it is paused",
        priority = 10
    ),
    printcolumn(
        name = "Provisioned",
        type_ = "string",
        json_path = ".status.initialization.provisioned",
        description = "Whether the first provisioning is done"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status",
        description = "Whether everything on it is up"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        description = "Time since it was made"
    )
)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule("!has(oldSelf.providerID) || has(self.providerID)", "spec.providerID is immutable once set"),
    schema::rule("!has(oldSelf.instance) || has(self.instance)", "spec.instance is set once and stays"),
]))]
pub struct InMemoryMachineSpec {
    /// The provider ID, which ties the machine to its Node. Set by the provider.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 512))]
    #[schemars(extend("x-kubernetes-validations" = [
        schema::rule("self == oldSelf", "spec.providerID is immutable once set"),
    ]))]
    pub provider_id: String,
    /// The size of the machine, by the name of an instance type.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub instance_type: String,
    /// How the machine is paid for: OnDemand, which is the default, or Spot, which is cheaper. A Fault can let the cloud take
    /// machines of the market Spot back. It cannot be changed.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = Market::ALL))]
    pub market: String,
    /// The name of the image that the machine boots from. Optional.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub image: String,
    /// Its networking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<MachineNetwork>,
    /// How the machine behaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<Behaviour>,
    /// The provider's record of the simulated instance. Set by the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<Box<InstanceRecord>>,
}

/// How a machine behaves, part by part. A part that is left out starts without delay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Behaviour {
    /// The virtual machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm: Option<Component>,
    /// The Node: from the machine's start until the kubelet has registered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Component>,
    /// The API server of a control plane machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_server: Option<Component>,
    /// The etcd member of a control plane machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd: Option<Component>,
}

/// How a part of a machine behaves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Component {
    /// How it starts.
    #[serde(skip_serializing_if = "schema::is_default")]
    pub provisioning: Provisioning,
}

/// How a part of a machine starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Provisioning {
    /// How long it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::startup_duration")]
    pub startup_duration: Option<GoDuration>,
    /// The largest random addition, as a fraction of the duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::startup_jitter")]
    pub startup_jitter: Option<Fraction>,
}

/// The observed state of a simulated machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct InMemoryMachineStatus {
    /// The progress of the first provisioning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// When it began to boot. The boot time counts from here, also over a restart of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub start_time: Option<MicroTime>,
    /// Its addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::machine_addresses")]
    pub addresses: Vec<MachineAddress>,
    /// The status of its networking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<MachineNetworkStatus>,
    /// The failure domain that it is placed in.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: String,
    /// True if the cloud may take the machine back, which it may do with those of the market Spot. Cluster API then gives
    /// the Node the label `cluster.x-k8s.io/interruptible`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub interruptible: bool,
    /// Its conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl InMemoryMachine {
    /// Whether the first provisioning is done.
    #[must_use]
    pub fn is_provisioned(&self) -> bool {
        let initialization = self
            .status
            .as_ref()
            .and_then(|status| status.initialization.as_ref());
        initialization.and_then(|initialization| initialization.provisioned) == Some(true)
    }

    /// The pools for its addresses.
    #[must_use]
    pub fn address_pools(&self) -> &[PoolReference] {
        self.spec
            .network
            .as_ref()
            .map(|network| network.addresses_from_pools.as_slice())
            .unwrap_or_default()
    }

    /// Whether a user requests the termination of the instance.
    #[must_use]
    pub fn is_to_terminate(&self) -> bool {
        annotation(&self.metadata, TERMINATE_ANNOTATION).is_some()
    }

    /// The record of the machine's instance; none before there was an instance.
    #[must_use]
    pub fn instance(&self) -> Option<InstanceRecord> {
        self.recorded().cloned()
    }

    fn recorded(&self) -> Option<&InstanceRecord> {
        let known = self.spec.instance.as_deref();
        known.filter(|known| Some(&known.machine) == self.metadata.name.as_ref())
    }

    /// The origin of the instance, if the object records it.
    #[must_use]
    pub fn origin(&self) -> Option<CreationRecord> {
        self.recorded()?.origin.clone()
    }

    /// Whether the object records the origin of the instance.
    #[must_use]
    pub fn has_origin(&self) -> bool {
        self.recorded().is_some_and(|known| known.origin.is_some())
    }

    /// The last update in place that was requested for the machine.
    #[must_use]
    pub fn update(&self) -> Option<Update> {
        self.recorded()?.update.clone()
    }

    /// The termination of the instance, if there was one.
    #[must_use]
    pub fn termination(&self) -> Option<Termination> {
        self.recorded()?.termination.clone()
    }

    /// Whether the instance is gone for good.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.recorded()
            .and_then(|known| known.deletion.as_ref()?.ended.clone())
            .is_some()
    }

    /// Whether the instance was deregistered from the load balancer because it is to be deleted.
    #[must_use]
    pub fn is_deregistered(&self) -> bool {
        self.recorded().is_some_and(|known| known.deregistered.is_some())
    }

    /// The deletion of the instance, if it has begun and takes time.
    #[must_use]
    pub fn deletion(&self) -> Option<Deletion> {
        self.recorded()?.deletion.clone()
    }

    /// The mutable record of the machine's instance. It begins empty where there is none, or only a copy of another machine's.
    pub fn instance_mut(&mut self) -> &mut InstanceRecord {
        let machine = self.metadata.name.clone().unwrap_or_default();
        let known = self.instance().unwrap_or_else(|| InstanceRecord {
            machine,
            ..InstanceRecord::default()
        });
        self.spec.instance.insert(Box::new(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_was_copied_from_another_machine_does_not_count() {
        let mut object = InMemoryMachine::default();
        object.metadata.name = Some("m".into());
        assert_eq!(object.instance(), None);
        let time = MicroTime("2026-01-02T03:04:05.678Z".parse().expect("a time"));
        object.instance_mut().termination = Some(Termination { time });
        let record = object.instance().expect("it is kept");
        assert_eq!(
            (record.machine.as_str(), &record.termination),
            ("m", &object.termination())
        );
        object.metadata.name = Some("copy".into());
        assert_eq!((object.instance(), object.termination()), (None, None));
        let fresh = InstanceRecord {
            machine: "copy".into(),
            ..InstanceRecord::default()
        };
        assert_eq!(*object.instance_mut(), fresh);
    }
}
