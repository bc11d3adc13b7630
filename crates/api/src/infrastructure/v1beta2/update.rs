//! Updates in place: what of a machine may change while it is there, and what it is asked to become. Who asks may be
//! another process than the one that has the machine, or several; so both are on the `InMemoryMachine`, where a restart
//! and a move find them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::{Deserialize, Serialize};

use super::InMemoryMachine;
use super::pool_machine::annotation;

/// On an `InMemoryMachine`: the last [`Update`] that its machine was asked for, in JSON.
pub const UPDATE_ANNOTATION: &str = "inmemorymachine.infrastructure.cluster.x-k8s.io/update";
/// Cluster API's own, on a Machine and on what it refers to while it is updated in place (cluster-api,
/// `api/core/v1beta2/common_types.go`, `UpdateInProgressAnnotation`). It is on the Machine before anything that is to
/// change does, and goes from the Machine first.
pub const UPDATE_IN_PROGRESS_ANNOTATION: &str =
    "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";

/// What of a machine may change in place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Software {
    /// The Kubernetes version.
    pub version: String,
    /// What it runs from, by the name of an image; empty for what any machine does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// The tag of etcd's image; empty for the one that the version comes with.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub etcd_image_tag: String,
    /// The files that it was given; none as long as nobody told, as when it has just booted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Files>,
}

/// The files of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Files {
    /// Stands for all of them, owners and permissions among that: SHA-256, in hexadecimal digits.
    pub digest: String,
    /// What is in the first of them, by path: `sha256:<digits>` of the content, or `secret:<name>/<key>`.
    pub contents: BTreeMap<String, String>,
}

/// An update in place that a machine was asked for. Its duration is counted from the request, so that who has the
/// machine, now or after a restart, need not have seen it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// The name of the machine: what was copied from another one's manifest does not count.
    pub machine: String,
    /// What the machine is to run.
    pub software: Software,
    /// When it was asked for, which tells it from others.
    pub asked_at: MicroTime,
    /// How long it takes, as in `spec.behaviour`; empty for no time.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub duration: String,
    /// How much of that comes on top at most, as in `spec.behaviour`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub jitter: String,
    /// Why it is to fail; empty for one that works. One that fails takes its time and changes nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,
    /// Since when it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<MicroTime>,
}

impl Update {
    /// The value of the annotation.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("names and times are JSON")
    }
}

impl InMemoryMachine {
    /// The last update that the machine was asked for; one that cannot be read counts as none.
    #[must_use]
    pub fn update(&self) -> Option<Update> {
        let text = annotation(&self.metadata, UPDATE_ANNOTATION)?;
        let update: Update = serde_json::from_str(text).ok()?;
        (Some(&update.machine) == self.metadata.name.as_ref()).then_some(update)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update() -> Update {
        Update {
            machine: "m".into(),
            software: Software {
                version: "v1.36.4".into(),
                files: Some(Files {
                    digest: "ab".into(),
                    contents: BTreeMap::from([("/etc/motd".into(), "sha256:cd".into())]),
                }),
                ..Software::default()
            },
            asked_at: MicroTime("2026-01-02T03:04:05.678Z".parse().expect("an instant")),
            duration: "10s".into(),
            jitter: String::new(),
            failure: String::new(),
            ended: None,
        }
    }

    fn machine(name: &str, text: &str) -> InMemoryMachine {
        let mut object = InMemoryMachine::default();
        object.metadata.name = Some(name.into());
        object.metadata.annotations = Some(BTreeMap::from([(UPDATE_ANNOTATION.into(), text.into())]));
        object
    }

    #[test]
    fn an_update_is_read_as_it_was_written() {
        let expected = r#"{"machine":"m","software":{"version":"v1.36.4","files":{"digest":"ab","contents":{"/etc/motd":"sha256:cd"}}},"askedAt":"2026-01-02T03:04:05.678000Z","duration":"10s"}"#;
        assert_eq!(update().text(), expected);
        assert_eq!(machine("m", expected).update(), Some(update()));
    }

    #[test]
    fn what_cannot_be_read_or_was_copied_from_another_machine_is_none() {
        assert_eq!(machine("copy", &update().text()).update(), None);
        assert_eq!(machine("m", r#"{"machine":"m"}"#).update(), None);
        assert_eq!(InMemoryMachine::default().update(), None);
    }
}
