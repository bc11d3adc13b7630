//! The provider's record of a simulated instance in the spec of its `InMemoryMachine`.
//!
//! `clusterctl move` and backups do not copy the status (cluster-api, `cmd/clusterctl/client/cluster/mover.go`: objects
//! are created again, and a status is never written), and Cluster API's own test of rollouts compares the annotations
//! of every object (cluster-api, `test/e2e/clusterclass_rollout.go`). So data that has to outlive the status is in the
//! spec, beside `providerID`, in a field that only the provider writes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{creation_record::CreationRecord, deletion::Deletion, termination::Termination, update::Update};
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
