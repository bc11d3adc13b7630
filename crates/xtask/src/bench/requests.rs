//! The writes that the API server has done, by its own count.

use std::collections::BTreeMap;

use anyhow::Context;
use http::Request;
use nephele_e2e::{Management, ipam::GROUP};

/// What counts as a write.
const VERBS: [&str; 6] = ["APPLY", "DELETE", "DELETECOLLECTION", "PATCH", "POST", "PUT"];

/// Writes so far, by verb and resource, of those that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Writes(BTreeMap<String, u64>);

impl Writes {
    /// Those so far to the group of pools and claims, and of Events.
    pub(super) async fn now(management: &Management) -> anyhow::Result<Self> {
        Ok(Self::read(&metrics(management).await?, of_pools))
    }

    /// Those so far of anything but leases and what a node says of itself.
    pub(super) async fn of_objects(management: &Management) -> anyhow::Result<Self> {
        Ok(Self::read(&metrics(management).await?, of_objects))
    }

    fn read(metrics: &str, is_counted: fn(&str, &str) -> bool) -> Self {
        let mut writes = BTreeMap::new();
        for line in metrics.lines() {
            let Some((labels, count)) =
                line.strip_prefix("apiserver_request_total{").and_then(|rest| rest.rsplit_once("} "))
            else {
                continue;
            };
            let label = |name: &str| {
                let start = labels.find(&format!("{name}=\""))? + name.len() + 2;
                labels[start..].split('"').next()
            };
            let [Some(group), Some(verb), Some(resource), Some(code)] =
                ["group", "verb", "resource", "code"].map(label)
            else {
                continue;
            };
            if !is_counted(group, resource)
                || !VERBS.contains(&verb)
                || label("dry_run").is_some_and(|value| !value.is_empty())
            {
                continue;
            }
            let mut what = format!("{verb} {resource}");
            if let Some(subresource) = label("subresource").filter(|name| !name.is_empty()) {
                what = format!("{what}/{subresource}");
            }
            // A write that is refused costs no less.
            if !code.starts_with('2') {
                what = format!("{what}, answered {code}");
            }
            // Counts are written as Go writes floating point numbers.
            *writes.entry(what).or_default() += count.parse::<f64>().unwrap_or_default() as u64;
        }
        Self(writes)
    }

    /// Those since, without those of which there were none.
    pub(super) fn since(&self, before: &Self) -> Self {
        let new = |(what, count): (&String, &u64)| {
            let new = count.saturating_sub(before.0.get(what).copied().unwrap_or_default());
            (new > 0).then(|| (what.clone(), new))
        };
        Self(self.0.iter().filter_map(new).collect())
    }

    /// Without those that a load asks for itself.
    pub(super) fn without(mut self, asked: &str) -> Self {
        self.0.remove(asked);
        self
    }

    /// Of all kinds together.
    pub(super) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// What was written how often.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(what, count)| (what.as_str(), *count))
    }
}

async fn metrics(management: &Management) -> anyhow::Result<String> {
    let request = Request::get("/metrics").body(Vec::new()).context("failed to write a request")?;
    let text = management.client().request_text(request).await;
    text.context("failed to read the metrics of the API server")
}

fn of_pools(group: &str, resource: &str) -> bool {
    group == GROUP || resource == "events"
}

/// Reviews are questions, and tokens are handed out rather than stored.
fn of_objects(group: &str, resource: &str) -> bool {
    let renewed = ["leases", "nodes", "pods", "serviceaccounts", "apiservices"];
    !renewed.contains(&resource) && !["authentication.k8s.io", "authorization.k8s.io"].contains(&group)
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="ipam.cluster.x-k8s.io",resource="ipaddressclaims",scope="resource",subresource="",verb="PATCH",version="v1beta2"} 7
apiserver_request_total{code="200",component="apiserver",dry_run="",group="ipam.cluster.x-k8s.io",resource="ipaddressclaims",scope="resource",subresource="status",verb="PATCH",version="v1beta2"} 1.2e+06
apiserver_request_total{code="409",component="apiserver",dry_run="",group="ipam.cluster.x-k8s.io",resource="ipaddresses",scope="namespace",subresource="",verb="POST",version="v1beta2"} 2
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="events",scope="namespace",subresource="",verb="POST",version="v1"} 3
apiserver_request_total{code="201",component="apiserver",dry_run="All",group="ipam.cluster.x-k8s.io",resource="inclusterippools",scope="namespace",subresource="",verb="POST",version="v1alpha2"} 4
apiserver_request_total{code="200",component="apiserver",dry_run="",group="ipam.cluster.x-k8s.io",resource="ipaddressclaims",scope="cluster",subresource="",verb="LIST",version="v1beta2"} 5
apiserver_request_total{code="201",component="apiserver",dry_run="",group="cluster.x-k8s.io",resource="machines",scope="namespace",subresource="",verb="POST",version="v1beta2"} 6
"#;

    #[test]
    fn writes_are_told_apart_by_verb_resource_and_refusal() {
        let writes = Writes::read(METRICS, of_pools);
        let counts: Vec<_> = writes.iter().collect();
        assert_eq!(
            counts,
            [
                ("PATCH ipaddressclaims", 7),
                ("PATCH ipaddressclaims/status", 1_200_000),
                ("POST events", 3),
                ("POST ipaddresses, answered 409", 2),
            ]
        );
    }

    #[test]
    fn only_what_came_since_counts() {
        let before = Writes::read(METRICS, of_pools);
        let after = Writes::read(&METRICS.replace("} 7", "} 9"), of_pools);
        assert_eq!(after.since(&before).iter().collect::<Vec<_>>(), [("PATCH ipaddressclaims", 2)]);
        assert_eq!(after.since(&before).without("PATCH ipaddressclaims").total(), 0);
    }

    #[test]
    fn at_rest_a_write_to_any_object_counts() {
        let writes = Writes::read(METRICS, of_objects);
        assert!(writes.iter().any(|write| write == ("POST machines", 6)), "{writes:?}");
        let lease = METRICS
            .replace("cluster.x-k8s.io\",resource=\"machines", "coordination.k8s.io\",resource=\"leases");
        assert!(Writes::read(&lease, of_objects).iter().all(|(what, _)| !what.contains("lease")));
    }
}
