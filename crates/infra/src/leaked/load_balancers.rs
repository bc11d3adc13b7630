//! Leaked load balancers in a status, and the events about them.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Resource;
use nephele_api::cloud::v1alpha1::{self, AFFECTED_MAX};
use nephele_cloud::LeakedLoadBalancer;
use nephele_kit::{Event, Events, Severity};
use nephele_model::{ClusterId, Endpoint};

use super::{catalog_of, cloud_field, listed};

/// Leaked load balancers as the status shows them that lists those of this catalog.
pub(crate) fn to_api(leaked: Vec<LeakedLoadBalancer>, of: &str) -> Vec<v1alpha1::LeakedLoadBalancer> {
    let one = |leaked: LeakedLoadBalancer| {
        let LeakedLoadBalancer { cluster, since, fault, endpoint, catalog } = leaked;
        let (host, port) =
            endpoint.map_or((String::new(), None), |Endpoint { host, port }| (host, Some(port.into())));
        let (cluster, since) = (cluster.name, Some(MicroTime(since)));
        v1alpha1::LeakedLoadBalancer { cluster, host, port, since, fault, cloud: cloud_field(catalog, of) }
    };
    leaked.into_iter().map(one).take(AFFECTED_MAX).collect()
}

/// The leaked load balancers of a status that lists those of this catalog.
pub(crate) fn of_status(
    listed: &[v1alpha1::LeakedLoadBalancer],
    namespace: &str,
    of: &str,
) -> Vec<LeakedLoadBalancer> {
    let one = |listed: &v1alpha1::LeakedLoadBalancer| {
        let v1alpha1::LeakedLoadBalancer { cluster, host, port, since, fault, cloud } = listed.clone();
        let port = port.and_then(|port| u16::try_from(port).ok());
        Some(LeakedLoadBalancer {
            cluster: ClusterId { namespace: namespace.to_owned(), name: cluster },
            since: since?.0,
            fault,
            endpoint: port.map(|port| Endpoint { host, port }),
            catalog: catalog_of(cloud, of),
        })
    };
    listed.iter().filter_map(one).collect()
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
    let new: Vec<_> = after.iter().filter(|leaked| !known.contains(&key(leaked))).collect();
    let named = |leaked: &v1alpha1::LeakedLoadBalancer| match leaked.port {
        Some(port) => format!("that of cluster {} with port {port}", leaked.cluster),
        None => format!("that of cluster {}", leaked.cluster),
    };
    let names = listed(new.iter().map(|leaked| named(leaked)));
    (!new.is_empty()).then(|| format!("Load balancers exist and have no owner: {names}"))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn leaked(name: &str, port: u16) -> LeakedLoadBalancer {
        LeakedLoadBalancer {
            cluster: ClusterId { namespace: "default".into(), name: name.into() },
            since: Timestamp::from_millisecond(1_007).expect("in range"),
            fault: "f".into(),
            endpoint: Some(Endpoint { host: "cloud.example".into(), port }),
            catalog: "north".into(),
        }
    }

    #[test]
    fn a_status_reads_back_as_the_load_balancers_that_it_lists() {
        let without_endpoint = LeakedLoadBalancer { endpoint: None, ..leaked("b", 1) };
        let all = vec![leaked("a", 65_535), without_endpoint];
        for of in ["north", "default"] {
            assert_eq!(of_status(&to_api(all.clone(), of), "default", of), all);
        }
        let without_time = v1alpha1::LeakedLoadBalancer { since: None, ..to_api(all, "north").remove(0) };
        assert_eq!(of_status(&[without_time], "default", "north"), []);
    }

    #[test]
    fn an_event_names_what_is_new() {
        let list = |names: &[&str]| to_api(names.iter().map(|name| leaked(name, 20_000)).collect(), "north");
        assert_eq!(news(&list(&["a"]), &list(&["a"])), None);
        let told = "Load balancers exist and have no owner: that of cluster b with port 20000";
        assert_eq!(news(&list(&["a"]), &list(&["a", "b"])).as_deref(), Some(told));
        let many = news(&[], &list(&["a", "b", "c", "d", "e", "f", "g"])).expect("news");
        assert!(many.ends_with("cluster e with port 20000, and 2 more"), "{many}");
    }
}
