//! Annotations in which earlier releases kept data that is in the spec now. They are read while the spec does not have
//! the data, and the next write removes them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::instance::InstanceRecord;
use super::origin::{MachineHardware, Origin};
use super::pool_machine::annotation;
use super::termination::Termination;
use super::update::{Software, Update};
use super::{InMemoryMachine, MachineAddress};

/// On an `InMemoryCluster`: when it was created for the first time, in RFC 3339.
const CREATED: &str = "inmemorycluster.infrastructure.cluster.x-k8s.io/created";
/// On an `InMemoryMachine`: the origin of its instance, in JSON.
const ORIGIN: &str = "inmemorymachine.infrastructure.cluster.x-k8s.io/origin";
/// On an `InMemoryMachine`: the last update in place that was requested, in JSON.
const UPDATE: &str = "inmemorymachine.infrastructure.cluster.x-k8s.io/update";
/// On an `InMemoryMachine`: the termination of its instance, in JSON.
const TERMINATED: &str = "inmemorymachine.infrastructure.cluster.x-k8s.io/instance-terminated";

/// The value of an annotation, and the name of its machine.
#[derive(Deserialize)]
struct About<T> {
    machine: String,
    #[serde(flatten)]
    value: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FormerOrigin {
    start_time: MicroTime,
    #[serde(default)]
    addresses: Vec<MachineAddress>,
    #[serde(default)]
    failure_domain: String,
    made_of: Option<MadeOf>,
    software: Option<Software>,
    #[serde(default)]
    reached: BTreeMap<String, MicroTime>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MadeOf {
    region: String,
    #[serde(flatten)]
    hardware: MachineHardware,
}

impl From<FormerOrigin> for Origin {
    fn from(former: FormerOrigin) -> Self {
        let FormerOrigin { start_time, addresses, failure_domain, made_of, software, reached } = former;
        let (region, hardware) = made_of.map(|made_of| (made_of.region, made_of.hardware)).unzip();
        Self {
            addresses,
            failure_domain,
            region: region.unwrap_or_default(),
            hardware,
            software,
            reached,
            ..Self::begun(start_time)
        }
    }
}

/// The record of a machine's instance in its annotations; none without such annotations.
pub(super) fn instance(object: &InMemoryMachine) -> Option<InstanceRecord> {
    let origin = value::<FormerOrigin>(object, ORIGIN).map(Origin::from);
    let update = value::<Update>(object, UPDATE);
    let termination = value::<Termination>(object, TERMINATED);
    let machine = object.metadata.name.clone()?;
    let says = origin.is_some() || update.is_some() || termination.is_some();
    says.then_some(InstanceRecord { machine, origin, update, termination, ..InstanceRecord::default() })
}

/// The value of an annotation; none if it cannot be parsed, or was copied from the manifest of another machine.
fn value<T: DeserializeOwned>(object: &InMemoryMachine, name: &str) -> Option<T> {
    let about: About<T> = serde_json::from_str(annotation(&object.metadata, name)?).ok()?;
    (Some(&about.machine) == object.metadata.name.as_ref()).then_some(about.value)
}

pub(super) fn has_instance(metadata: &ObjectMeta) -> bool {
    [ORIGIN, UPDATE, TERMINATED].iter().any(|name| annotation(metadata, name).is_some())
}

pub(super) fn forget_instance(metadata: &mut ObjectMeta) {
    forget(metadata, &[ORIGIN, UPDATE, TERMINATED]);
}

/// When a cluster was created for the first time, according to its annotation.
pub(super) fn created(metadata: &ObjectMeta) -> Option<jiff::Timestamp> {
    annotation(metadata, CREATED)?.parse().ok()
}

pub(super) fn forget_created(metadata: &mut ObjectMeta) {
    forget(metadata, &[CREATED]);
}

fn forget(metadata: &mut ObjectMeta, names: &[&str]) {
    let Some(annotations) = &mut metadata.annotations else { return };
    annotations.retain(|name, _| !names.contains(&name.as_str()));
    if annotations.is_empty() {
        metadata.annotations = None;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::InMemoryCluster;
    use super::*;

    /// As release 0.1 wrote them.
    const FORMER: [(&str, &str); 3] = [
        (
            ORIGIN,
            r#"{"machine":"m","startTime":"2026-01-02T03:04:05.678000Z","addresses":[{"type":"InternalIP","address":"10.0.0.7"}],"failureDomain":"a","madeOf":{"region":"r","architecture":"arm64","operatingSystem":"linux","capacity":{"cpu":"8"}},"software":{"version":"v1.36.3"},"reached":{"vm":"2026-01-02T03:04:06.000000Z"}}"#,
        ),
        (
            UPDATE,
            r#"{"machine":"m","software":{"version":"v1.36.4","files":{"digest":"ab","contents":{"/etc/motd":"sha256:cd"}}},"askedAt":"2026-01-02T03:04:05.678000Z","duration":"10s"}"#,
        ),
        (TERMINATED, r#"{"machine":"m","time":"2026-01-02T03:04:07.000000Z"}"#),
    ];

    fn machine(name: &str, annotations: &[(&str, &str)]) -> InMemoryMachine {
        let mut object = InMemoryMachine::default();
        object.metadata.name = Some(name.into());
        let owned = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        object.metadata.annotations = Some(owned.collect());
        object
    }

    #[test]
    fn what_annotations_say_is_taken_over_into_the_spec_and_they_go() {
        let mut object = machine("m", &[FORMER[0], FORMER[1], FORMER[2], ("other", "stays")]);
        assert!(object.keeps_annotations());
        let read = object.instance().expect("it is kept");
        let expected = json!({
            "machine": "m",
            "origin": {
                "startTime": "2026-01-02T03:04:05.678000Z",
                "addresses": [{ "type": "InternalIP", "address": "10.0.0.7" }],
                "failureDomain": "a", "region": "r",
                "hardware": { "architecture": "arm64", "operatingSystem": "linux", "capacity": { "cpu": "8" } },
                "software": { "version": "v1.36.3" },
                "reached": { "vm": "2026-01-02T03:04:06.000000Z" },
            },
            "update": {
                "software": {
                    "version": "v1.36.4",
                    "files": { "digest": "ab", "contents": { "/etc/motd": "sha256:cd" } },
                },
                "askedAt": "2026-01-02T03:04:05.678000Z", "duration": "10s",
            },
            "termination": { "time": "2026-01-02T03:04:07.000000Z" },
        });
        assert_eq!(serde_json::to_value(&read).expect("JSON"), expected);
        assert_eq!(*object.instance_mut(), read);
        assert_eq!(object.spec.instance.as_deref(), Some(&read));
        assert!(!object.keeps_annotations());
        assert_eq!(object.metadata.annotations, machine("m", &[("other", "stays")]).metadata.annotations);
    }

    #[test]
    fn the_spec_comes_before_the_annotations() {
        let mut object = machine("m", &FORMER);
        let of = |machine: &str| InstanceRecord { machine: machine.into(), ..InstanceRecord::default() };
        object.spec.instance = Some(Box::new(of("m")));
        assert_eq!((object.instance(), object.origin()), (Some(of("m")), None));
        // Except for annotations that were copied from another machine.
        object.spec.instance = Some(Box::new(of("other")));
        assert!(object.origin().is_some());
    }

    #[test]
    fn what_cannot_be_read_or_was_copied_from_another_machine_is_none() {
        assert_eq!(machine("copy", &FORMER).instance(), None);
        assert_eq!(machine("m", &[(ORIGIN, "{"), (UPDATE, r#"{"machine":"m"}"#)]).instance(), None);
        assert_eq!(InMemoryMachine::default().instance(), None);
        let mut copy = InMemoryMachine::default();
        copy.metadata.name = Some("copy".into());
        copy.spec.instance = machine("m", &FORMER).instance().map(Box::new);
        assert_eq!(copy.instance(), None);
        assert_eq!(copy.instance_mut().machine, "copy");
    }

    #[test]
    fn a_cluster_remembers_when_it_was_created_first() {
        let mut cluster = InMemoryCluster::default();
        cluster.metadata.name = Some("c".into());
        assert_eq!(cluster.first_created(), None);
        let annotated = |text: &str| Some(BTreeMap::from([(CREATED.to_owned(), text.to_owned())]));
        cluster.metadata.annotations = annotated("then");
        assert_eq!(cluster.first_created(), None);
        cluster.metadata.annotations = annotated("2026-01-02T03:04:05Z");
        let created = cluster.first_created().expect("it is read");
        assert_eq!(created.to_string(), "2026-01-02T03:04:05Z");
        cluster.set_first_created(created);
        assert_eq!((cluster.first_created(), &cluster.metadata.annotations), (Some(created), &None));
        let expected = json!({ "cluster": "c", "created": "2026-01-02T03:04:05Z" });
        assert_eq!(serde_json::to_value(&cluster.spec.origin).expect("JSON"), expected);
        cluster.metadata.name = Some("copy".into());
        assert_eq!(cluster.first_created(), None);
    }
}
