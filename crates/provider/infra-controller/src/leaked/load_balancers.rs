//! Leaked load balancers in a status, and the events about them.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Resource;
use nephele_api::cloud::v1alpha1;
use nephele_cloud::{Footprint, Leaked};
use nephele_controller::{Event, Events, Severity};
use nephele_model::{ClusterId, Endpoint};

use super::{cloud_field, cloud_of, listed};

/// A leaked load balancer as the status shows it that lists those of this cloud. None if something else leaked.
pub(super) fn to_api(leaked: &Leaked<Timestamp>, of: &str) -> Option<v1alpha1::LeakedLoadBalancer> {
    let Leaked {
        id,
        since,
        fault,
        addresses: _,
        endpoint,
        footprint,
    } = leaked.clone();
    let cluster = ClusterId::of_load_balancer(&id)?;
    let (host, port) = endpoint.map_or((String::new(), None), |Endpoint { host, port }| {
        (host, Some(port.into()))
    });
    let cloud = cloud_field(footprint.cloud_spec, of);
    let since = Some(MicroTime(since));
    Some(v1alpha1::LeakedLoadBalancer {
        cluster: cluster.name,
        host,
        port,
        since,
        fault,
        cloud,
    })
}

/// A load balancer of a status that lists those of this cloud.
pub(super) fn of_listed(
    listed: &v1alpha1::LeakedLoadBalancer,
    namespace: &str,
    of: &str,
) -> Option<Leaked<Timestamp>> {
    let v1alpha1::LeakedLoadBalancer {
        cluster,
        host,
        port,
        since,
        fault,
        cloud,
    } = listed.clone();
    let port = port.and_then(|port| u16::try_from(port).ok());
    Some(Leaked {
        id: ClusterId {
            namespace: namespace.to_owned(),
            name: cluster,
        }
        .load_balancer(),
        since: since?.0,
        fault,
        addresses: Vec::new(),
        endpoint: port.map(|port| Endpoint { host, port }),
        footprint: Footprint {
            cloud_spec: cloud_of(cloud, of),
            ..Footprint::default()
        },
    })
}

/// Publishes which load balancers have leaked since the status before.
pub(crate) fn publish<K: Resource<DynamicType = ()>>(
    object: &K,
    before: &[v1alpha1::LeakedLoadBalancer],
    after: &[v1alpha1::LeakedLoadBalancer],
    events: &Events,
) {
    if let Some(note) = news(before, after) {
        events.publish(Event {
            regarding: object.object_ref(&()),
            severity: Severity::Warning,
            reason: "LoadBalancerLeaked",
            action: "DeleteLoadBalancer",
            note,
        });
    }
}

/// Publishes that so many leaked load balancers were deleted.
pub(crate) fn publish_deletion<K: Resource<DynamicType = ()>>(object: &K, count: usize, events: &Events) {
    events.publish(Event {
        regarding: object.object_ref(&()),
        severity: Severity::Normal,
        reason: "LeakedLoadBalancersDeleted",
        action: "DeleteLoadBalancer",
        note: match count {
            1 => "Deleted a leaked load balancer".to_owned(),
            _ => format!("Deleted {count} leaked load balancers"),
        },
    });
}

/// Says which load balancers are in a list and were not before. None if there are none. Pure.
fn news(before: &[v1alpha1::LeakedLoadBalancer], after: &[v1alpha1::LeakedLoadBalancer]) -> Option<String> {
    let key = |leaked: &v1alpha1::LeakedLoadBalancer| {
        (leaked.cluster.clone(), leaked.since.as_ref().map(|since| since.0))
    };
    let known: BTreeSet<_> = before.iter().map(key).collect();
    let new: Vec<_> = after
        .iter()
        .filter(|leaked| !known.contains(&key(leaked)))
        .collect();
    let named = |leaked: &v1alpha1::LeakedLoadBalancer| match leaked.port {
        Some(port) => format!("that of cluster {} with port {port}", leaked.cluster),
        None => format!("that of cluster {}", leaked.cluster),
    };
    let names = listed(new.iter().map(|leaked| named(leaked)));
    (!new.is_empty()).then(|| format!("Load balancers exist and have no owner: {names}"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn leaked(name: &str, port: Option<u16>) -> Leaked<Timestamp> {
        Leaked {
            id: ClusterId {
                namespace: "default".into(),
                name: name.into(),
            }
            .load_balancer(),
            since: Timestamp::from_millisecond(1_007).expect("in range"),
            fault: "f".into(),
            addresses: Vec::new(),
            endpoint: port.map(|port| Endpoint {
                host: "cloud.example".into(),
                port,
            }),
            footprint: Footprint {
                cloud_spec: "north".into(),
                ..Footprint::default()
            },
        }
    }

    #[test]
    fn an_event_names_what_is_new() {
        let list = |names: &[&str]| -> Vec<_> {
            names
                .iter()
                .filter_map(|name| to_api(&leaked(name, Some(20_000)), "north"))
                .collect()
        };
        assert_eq!(news(&list(&["a"]), &list(&["a"])), None);
        let told = "Load balancers exist and have no owner: that of cluster b with port 20000";
        assert_eq!(news(&list(&["a"]), &list(&["a", "b"])).as_deref(), Some(told));
        let many = news(&[], &list(&["a", "b", "c", "d", "e", "f", "g"])).expect("news");
        assert!(many.ends_with("cluster e with port 20000, and 2 more"), "{many}");
    }
}
