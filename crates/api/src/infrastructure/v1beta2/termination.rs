//! Simulated instances that somebody terminates behind Cluster API's back, as it happens in real clouds: by a person at a
//! console, or by the cloud that wants its machine back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

use super::InMemoryMachine;
use super::pool_machine::annotation;

/// On an `InMemoryMachine`, with any value: its instance is to vanish. Before there is one it means nothing.
pub const TERMINATE_ANNOTATION: &str = "inmemorymachine.infrastructure.cluster.x-k8s.io/terminate-instance";
/// On an `InMemoryMachine` whose instance vanished: the [`Termination`] in JSON. It does not come back, whatever else is
/// said later, after a restart or in another management cluster.
pub const TERMINATED_ANNOTATION: &str = "inmemorymachine.infrastructure.cluster.x-k8s.io/instance-terminated";

/// That an instance vanished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    /// The name of the machine: what was copied from another one's manifest does not count.
    pub machine: String,
    /// When.
    pub time: MicroTime,
}

impl Termination {
    /// The value of the annotation.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("a name and a time are JSON")
    }
}

impl InMemoryMachine {
    /// Whether somebody wants the instance to vanish.
    #[must_use]
    pub fn is_to_terminate(&self) -> bool {
        annotation(&self.metadata, TERMINATE_ANNOTATION).is_some()
    }

    /// That the instance vanished, as far as the object remembers; one that cannot be read counts as none.
    #[must_use]
    pub fn termination(&self) -> Option<Termination> {
        let text = annotation(&self.metadata, TERMINATED_ANNOTATION)?;
        let termination: Termination = serde_json::from_str(text).ok()?;
        (Some(&termination.machine) == self.metadata.name.as_ref()).then_some(termination)
    }
}
