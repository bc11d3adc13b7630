//! What leaked, in a status, and the events about leaked instances.

pub(crate) mod load_balancers;

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Resource;
use nephele_api::cloud::v1alpha1::{self, AFFECTED_MAX};
use nephele_cloud::{Footprint, Leaked};
use nephele_controller::{Event, Events, Severity};
use nephele_model::{ClusterId, MachineId, Market};

/// The most addresses of an instance in a status.
const ADDRESSES_MAX: usize = 16;
/// How many leaked instances or load balancers an event names.
const NAMED_MAX: usize = 5;

/// The leaked instances and load balancers as the status shows them that lists those of this cloud.
pub(crate) fn to_api(
    leaked: &[Leaked<Timestamp>],
    of: &str,
) -> (Vec<v1alpha1::LeakedInstance>, Vec<v1alpha1::LeakedLoadBalancer>) {
    let instances = leaked
        .iter()
        .filter_map(|leaked| instance(leaked, of))
        .take(AFFECTED_MAX);
    let balancers = leaked
        .iter()
        .filter_map(|leaked| load_balancers::to_api(leaked, of))
        .take(AFFECTED_MAX);
    (instances.collect(), balancers.collect())
}

fn instance(leaked: &Leaked<Timestamp>, of: &str) -> Option<v1alpha1::LeakedInstance> {
    let Leaked {
        id,
        since,
        fault,
        addresses,
        endpoint: _,
        footprint,
    } = leaked.clone();
    let MachineId { cluster, name } = MachineId::of_resource(&id)?;
    let Footprint {
        zone,
        cloud_spec,
        instance_type,
        processors,
        market,
    } = footprint;
    Some(v1alpha1::LeakedInstance {
        cloud: cloud_field(cloud_spec, of),
        name,
        cluster: cluster.name,
        instance_type: instance_type.unwrap_or_default(),
        zone: zone.unwrap_or_default(),
        market: if market == Market::Spot {
            market.as_str().to_owned()
        } else {
            String::new()
        },
        vcpus: Some(processors.into()),
        addresses: addresses.into_iter().take(ADDRESSES_MAX).collect(),
        since: Some(MicroTime(since)),
        fault,
    })
}

/// The field `cloud` of something that leaked, in a status that lists what is of the cloud `of`.
fn cloud_field(cloud_spec: String, of: &str) -> String {
    if cloud_spec == of {
        String::new()
    } else {
        cloud_spec
    }
}

/// The cloud of what has this field `cloud`, in a status that lists what is of the cloud `of`.
fn cloud_of(cloud: String, of: &str) -> String {
    if cloud.is_empty() { of.to_owned() } else { cloud }
}

/// What a status lists that lists what is of this cloud.
pub(crate) fn of_status(
    instances: &[v1alpha1::LeakedInstance],
    balancers: &[v1alpha1::LeakedLoadBalancer],
    namespace: &str,
    of: &str,
) -> Vec<Leaked<Timestamp>> {
    let instances = instances
        .iter()
        .filter_map(|listed| of_listed(listed, namespace, of));
    let balancers = balancers
        .iter()
        .filter_map(|listed| load_balancers::of_listed(listed, namespace, of));
    instances.chain(balancers).collect()
}

fn of_listed(listed: &v1alpha1::LeakedInstance, namespace: &str, of: &str) -> Option<Leaked<Timestamp>> {
    let v1alpha1::LeakedInstance {
        name,
        cluster,
        instance_type,
        market,
        zone,
        vcpus,
        addresses,
        since,
        fault,
        cloud,
    } = listed.clone();
    let cluster = ClusterId {
        namespace: namespace.to_owned(),
        name: cluster,
    };
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    Some(Leaked {
        id: MachineId { cluster, name }.resource(),
        since: since?.0,
        fault,
        addresses,
        endpoint: None,
        footprint: Footprint {
            zone: text(zone),
            cloud_spec: cloud_of(cloud, of),
            instance_type: text(instance_type),
            processors: vcpus
                .and_then(|vcpus| u32::try_from(vcpus).ok())
                .unwrap_or_default(),
            market: Market::of(&market),
        },
    })
}

/// Publishes which instances have leaked since the status before.
pub(crate) fn publish<K: Resource<DynamicType = ()>>(
    object: &K,
    before: &[v1alpha1::LeakedInstance],
    after: &[v1alpha1::LeakedInstance],
    events: &Events,
) {
    if let Some(note) = news(before, after) {
        events.publish(Event {
            regarding: object.object_ref(&()),
            severity: Severity::Warning,
            reason: "InstanceLeaked",
            action: "DeleteInstance",
            note,
        });
    }
}

/// Publishes that so many leaked instances were deleted.
pub(crate) fn publish_deletion<K: Resource<DynamicType = ()>>(object: &K, count: usize, events: &Events) {
    events.publish(Event {
        regarding: object.object_ref(&()),
        severity: Severity::Normal,
        reason: "LeakedInstancesDeleted",
        action: "DeleteInstance",
        note: match count {
            1 => "Deleted a leaked instance".to_owned(),
            _ => format!("Deleted {count} leaked instances"),
        },
    });
}

/// Says which instances are in a list and were not before. None if there are none. Pure.
fn news(before: &[v1alpha1::LeakedInstance], after: &[v1alpha1::LeakedInstance]) -> Option<String> {
    let key = |leaked: &v1alpha1::LeakedInstance| {
        (
            leaked.cluster.clone(),
            leaked.name.clone(),
            leaked.since.as_ref().map(|since| since.0),
        )
    };
    let known: BTreeSet<_> = before.iter().map(key).collect();
    let new: Vec<_> = after
        .iter()
        .filter(|leaked| !known.contains(&key(leaked)))
        .collect();
    let named = |leaked: &v1alpha1::LeakedInstance| format!("{} of cluster {}", leaked.name, leaked.cluster);
    let names = listed(new.iter().map(|leaked| named(leaked)));
    (!new.is_empty()).then(|| format!("Instances exist and have no owner: {names}"))
}

/// The first names of a list, and how many there are more. Pure.
fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = match names.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    names.take(NAMED_MAX).collect::<Vec<_>>().join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaked(name: &str, second: i64) -> Leaked<Timestamp> {
        let cluster = ClusterId {
            namespace: "default".into(),
            name: "demo".into(),
        };
        Leaked {
            id: MachineId {
                cluster,
                name: name.into(),
            }
            .resource(),
            since: Timestamp::from_millisecond(second * 1000 + 7).expect("in range"),
            fault: "f".into(),
            addresses: vec!["10.1.2.3".into()],
            endpoint: None,
            footprint: Footprint {
                zone: Some("a".into()),
                cloud_spec: "north".into(),
                instance_type: None,
                processors: 4,
                market: Market::Spot,
            },
        }
    }

    #[test]
    fn a_status_reads_back_as_what_it_lists() {
        let balancer = |name: &str, port: Option<u16>| load_balancers::tests::leaked(name, port);
        let all = vec![
            leaked("m", 1),
            leaked("m", 2),
            balancer("a", Some(65_535)),
            balancer("b", None),
        ];
        // In a Fault, what was of a SimulatedCloud that is gone stays of it.
        for of in ["north", "default"] {
            let (instances, balancers) = to_api(&all, of);
            assert_eq!(of_status(&instances, &balancers, "default", of), all);
        }
        let (instances, balancers) = to_api(&all, "north");
        let instance = v1alpha1::LeakedInstance {
            since: None,
            ..instances[0].clone()
        };
        let balancer = v1alpha1::LeakedLoadBalancer {
            since: None,
            ..balancers[0].clone()
        };
        assert_eq!(of_status(&[instance], &[balancer], "default", "north"), []);
    }

    #[test]
    fn an_event_names_what_is_new() {
        let list = |names: &[&str]| {
            to_api(
                &names.iter().map(|name| leaked(name, 1)).collect::<Vec<_>>(),
                "north",
            )
            .0
        };
        assert_eq!(news(&list(&["a"]), &list(&["a"])), None);
        assert_eq!(news(&list(&["a", "b"]), &list(&["a"])), None);
        let told = "Instances exist and have no owner: b of cluster demo";
        assert_eq!(news(&list(&["a"]), &list(&["a", "b"])).as_deref(), Some(told));
        let again = to_api(&[leaked("b", 2)], "north").0;
        assert_eq!(
            news(&list(&["b"]), &again).as_deref(),
            Some(told),
            "another instance of this name"
        );
        let many = news(&[], &list(&["a", "b", "c", "d", "e", "f", "g"])).expect("news");
        assert!(many.ends_with("e of cluster demo, and 2 more"), "{many}");
    }
}
