//! What objects remember of their beginning outside of their status, which `clusterctl move` and backups do not bring
//! along (cluster-api, `cmd/clusterctl/client/cluster/mover.go`: objects are created anew, and a status is never
//! written). What stands behind them is then made anew as it was: at its addresses, with Nodes and certificates of the
//! same dates.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

use super::pool_machine::annotation;
use super::update::Software;
use super::{InMemoryCluster, InMemoryMachine, MachineAddress};

/// On an `InMemoryMachine` that has booted: its [`Origin`] in JSON.
pub const ORIGIN_ANNOTATION: &str = "inmemorymachine.infrastructure.cluster.x-k8s.io/origin";
/// On an `InMemoryCluster`: when it was created for the first time, in RFC 3339.
pub const CREATED_ANNOTATION: &str = "inmemorycluster.infrastructure.cluster.x-k8s.io/created";

/// How a machine came to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The name of the machine: what was copied from another one's manifest does not count.
    pub machine: String,
    /// When it began to boot.
    pub start_time: MicroTime,
    /// Its addresses.
    #[serde(default)]
    pub addresses: Vec<MachineAddress>,
    /// Where it was placed; empty for nowhere in particular.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure_domain: String,
    /// What it was made of, where that is not the usual: its cloud may say otherwise by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_of: Option<MadeOf>,
    /// What it runs, which an update in place changes; none where nobody had noted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<Software>,
    /// The parts that were up, by their names in `spec.behaviour`, and since when.
    #[serde(default)]
    pub reached: BTreeMap<String, MicroTime>,
}

/// What a machine was made of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MadeOf {
    /// The region of its failure domain; empty for what the name of that says.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Processor architecture.
    pub architecture: String,
    /// Operating system.
    pub operating_system: String,
    /// Quantities by resource name.
    pub capacity: BTreeMap<String, String>,
}

impl Origin {
    /// The value of the annotation.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("names, times and addresses are JSON")
    }
}

impl InMemoryMachine {
    /// How the machine came to be, as far as the object remembers; one that cannot be read counts as none.
    #[must_use]
    pub fn origin(&self) -> Option<Origin> {
        let text = annotation(&self.metadata, ORIGIN_ANNOTATION)?;
        let origin: Origin = serde_json::from_str(text).ok()?;
        (Some(&origin.machine) == self.metadata.name.as_ref()).then_some(origin)
    }
}

impl InMemoryCluster {
    /// When the cluster was created for the first time; one that cannot be read counts as none.
    #[must_use]
    pub fn first_created(&self) -> Option<jiff::Timestamp> {
        annotation(&self.metadata, CREATED_ANNOTATION)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        let at = |text: &str| MicroTime(text.parse().expect("an instant"));
        Origin {
            machine: "m".into(),
            start_time: at("2026-01-02T03:04:05.678Z"),
            addresses: vec![MachineAddress { kind: "InternalIP".into(), address: "10.0.0.7".into() }],
            failure_domain: String::new(),
            made_of: None,
            software: Some(Software { version: "v1.36.3".into(), ..Software::default() }),
            reached: BTreeMap::from([("vm".into(), at("2026-01-02T03:04:06Z"))]),
        }
    }

    fn machine(name: &str, text: &str) -> InMemoryMachine {
        let mut object = InMemoryMachine::default();
        object.metadata.name = Some(name.into());
        object.metadata.annotations = Some(BTreeMap::from([(ORIGIN_ANNOTATION.into(), text.into())]));
        object
    }

    #[test]
    fn an_origin_is_read_as_it_was_written() {
        let expected = r#"{"machine":"m","startTime":"2026-01-02T03:04:05.678000Z","addresses":[{"type":"InternalIP","address":"10.0.0.7"}],"software":{"version":"v1.36.3"},"reached":{"vm":"2026-01-02T03:04:06.000000Z"}}"#;
        assert_eq!(origin().text(), expected);
        assert_eq!(machine("m", expected).origin(), Some(origin()));
    }

    #[test]
    fn what_cannot_be_read_or_was_copied_from_another_machine_is_none() {
        assert_eq!(machine("copy", &origin().text()).origin(), None);
        assert_eq!(machine("m", "{").origin(), None);
        assert_eq!(InMemoryMachine::default().origin(), None);
        let mut cluster = InMemoryCluster::default();
        assert_eq!(cluster.first_created(), None);
        cluster.metadata.annotations = Some(BTreeMap::from([(CREATED_ANNOTATION.into(), "then".into())]));
        assert_eq!(cluster.first_created(), None);
    }
}
