//! The provider's record of a simulated instance in the spec of its `InMemoryMachine`.
//!
//! `clusterctl move` and backups do not copy the status (cluster-api, `cmd/clusterctl/client/cluster/mover.go`: objects
//! are created again, and a status is never written), and Cluster API's own test of rollouts compares the annotations
//! of every object (cluster-api, `test/e2e/clusterclass_rollout.go`). So data that has to outlive the status is in the
//! spec, beside `providerID`, in a field that only the provider writes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    InMemoryMachine, creation_record::CreationRecord, deletion::Deletion, termination::Termination,
    update::Update,
};
use crate::schema;

/// The provider's record of a simulated instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    schema::rule(
        "self.machine != oldSelf.machine || !has(oldSelf.origin) || \
         (has(self.origin) && self.origin.startTime == oldSelf.origin.startTime)",
        "spec.instance.origin is set once for each machine",
    ),
]))]
pub struct InstanceRecord {
    /// The name of the machine. A record that was copied from another machine does not count.
    #[schemars(length(min = 1, max = 253))]
    pub machine: String,
    /// How the instance was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<CreationRecord>,
    /// The last update in place that was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Update>,
    /// The termination of the instance, if there was one. A terminated instance stays gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination: Option<Termination>,
    /// The deletion of the instance, if it takes time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Deletion>,
    /// When the instance was deregistered from the load balancer; absent while it is registered. It is recorded only if the
    /// cloud then refused to delete the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub deregistered: Option<MicroTime>,
}

impl InMemoryMachine {
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
