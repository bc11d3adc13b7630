//! Simulated instances that are terminated without Cluster API, as in real clouds: by a person at a console, or by the
//! cloud that reclaims its machine.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// On an `InMemoryMachine`, with any value: requests the termination of its instance. It has no effect before there is
/// an instance. A person sets it, so it is an annotation.
pub const TERMINATE_ANNOTATION: &str = "inmemorymachine.infrastructure.cluster.x-k8s.io/terminate-instance";

/// The termination of an instance. A terminated instance stays gone, after a restart or in another
/// management cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    /// The time of the termination.
    #[schemars(schema_with = "schema::instant")]
    pub time: MicroTime,
}
