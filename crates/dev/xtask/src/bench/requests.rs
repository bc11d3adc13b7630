//! The requests that the API server has answered, by its own metrics.

use std::collections::BTreeMap;

use nephele_e2e::{
    Management,
    ipam::GROUP,
    samples::{Sample, samples},
};

use super::metrics::metrics;

/// The verbs that count as writes.
const WRITES: [&str; 6] = ["APPLY", "DELETE", "DELETECOLLECTION", "PATCH", "POST", "PUT"];

/// Requests so far, by verb, resource and status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Requests(BTreeMap<String, u64>);

impl Requests {
    /// Every request so far for pools, claims, IPAddresses and Events. Watches count when they end.
    pub(super) async fn of_claims(management: &Management) -> anyhow::Result<Self> {
        Ok(Self::read(&metrics(management).await?, is_of_claims))
    }

    /// All writes so far, except leases and the status of nodes.
    pub(super) async fn writes(management: &Management) -> anyhow::Result<Self> {
        Ok(Self::read(&metrics(management).await?, is_write))
    }

    fn read(metrics: &str, is_counted: fn(&Sample<'_>) -> bool) -> Self {
        let mut requests = BTreeMap::new();
        let counters = samples(metrics).filter(|sample| sample.name == "apiserver_request_total");
        for counter in counters.filter(|sample| sample.label("dry_run").is_empty() && is_counted(sample)) {
            let mut what = format!("{} {}", counter.label("verb"), counter.label("resource"));
            let subresource = counter.label("subresource");
            if !subresource.is_empty() {
                what = format!("{what}/{subresource}");
            }
            what = format!("{what} {}", counter.label("code"));
            *requests.entry(what).or_default() += counter.value as u64;
        }
        Self(requests)
    }

    /// Requests since `before`, without zero counts.
    pub(super) fn since(&self, before: &Self) -> Self {
        let new = |(what, count): (&String, &u64)| {
            let new = count.saturating_sub(before.0.get(what).copied().unwrap_or_default());
            (new > 0).then(|| (what.clone(), new))
        };
        Self(self.0.iter().filter_map(new).collect())
    }

    /// The requests without those of the load itself.
    pub(super) fn without(mut self, sent: &str) -> Self {
        self.0.remove(sent);
        self
    }

    /// The total.
    pub(super) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Requests with their counts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(what, count)| (what.as_str(), *count))
    }
}

fn is_of_claims(sample: &Sample<'_>) -> bool {
    sample.label("group") == GROUP || sample.label("resource") == "events"
}

/// Whether the request writes. Reviews and requests for tokens store nothing.
fn is_write(sample: &Sample<'_>) -> bool {
    let renewed = ["leases", "nodes", "pods", "serviceaccounts", "apiservices"];
    WRITES.contains(&sample.label("verb"))
        && !renewed.contains(&sample.label("resource"))
        && !["authentication.k8s.io", "authorization.k8s.io"].contains(&sample.label("group"))
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
    fn requests_are_told_apart_by_verb_resource_and_status() {
        let requests = Requests::read(METRICS, is_of_claims);
        let counts: Vec<_> = requests.iter().collect();
        assert_eq!(
            counts,
            [
                ("LIST ipaddressclaims 200", 5),
                ("PATCH ipaddressclaims 200", 7),
                ("PATCH ipaddressclaims/status 200", 1_200_000),
                ("POST events 201", 3),
                ("POST ipaddresses 409", 2),
            ]
        );
    }

    #[test]
    fn only_what_came_since_counts() {
        let before = Requests::read(METRICS, is_of_claims);
        let after = Requests::read(&METRICS.replace("} 7", "} 9"), is_of_claims);
        assert_eq!(
            after.since(&before).iter().collect::<Vec<_>>(),
            [("PATCH ipaddressclaims 200", 2)]
        );
        assert_eq!(
            after.since(&before).without("PATCH ipaddressclaims 200").total(),
            0
        );
    }

    #[test]
    fn at_rest_a_write_to_any_object_counts() {
        let writes = Requests::read(METRICS, is_write);
        assert!(
            writes.iter().any(|write| write == ("POST machines 201", 6)),
            "{writes:?}"
        );
        assert!(writes.iter().all(|(what, _)| !what.starts_with("LIST")));
        let lease = METRICS.replace(
            "cluster.x-k8s.io\",resource=\"machines",
            "coordination.k8s.io\",resource=\"leases",
        );
        assert!(
            Requests::read(&lease, is_write)
                .iter()
                .all(|(what, _)| !what.contains("lease"))
        );
    }
}
