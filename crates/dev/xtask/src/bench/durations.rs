//! The time that the API server spends on claims, by its own metrics: on requests, and within them on admission
//! webhooks and etcd.
//!
//! Concurrent requests count separately, so a sum may exceed the elapsed time.

use std::collections::BTreeMap;

use nephele_e2e::{
    Management,
    ipam::GROUP,
    samples::{Sample, samples},
};

use super::metrics::metrics;

/// Seconds so far, by activity.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Durations(BTreeMap<String, f64>);

impl Durations {
    pub(super) async fn now(management: &Management) -> anyhow::Result<Self> {
        Ok(Self::read(&metrics(management).await?))
    }

    fn read(metrics: &str) -> Self {
        let mut seconds = BTreeMap::new();
        for sample in samples(metrics) {
            if let Some(what) = what(&sample) {
                *seconds.entry(what).or_default() += sample.value;
            }
        }
        Self(seconds)
    }

    /// Seconds since then, longest first.
    pub(super) fn since(&self, before: &Self) -> Vec<(String, f64)> {
        let spent = |(what, seconds): (&String, &f64)| {
            (
                what.clone(),
                seconds - before.0.get(what).copied().unwrap_or_default(),
            )
        };
        let mut spent: Vec<_> = self
            .0
            .iter()
            .map(spent)
            .filter(|(_, seconds)| *seconds > 0.0)
            .collect();
        spent.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        spent
    }
}

/// The activity of a sample that sums seconds; `None` for any other sample.
fn what(sample: &Sample<'_>) -> Option<String> {
    match sample.name {
        // A watch lasts as long as its client wants, so it does not count.
        "apiserver_request_duration_seconds_sum"
            if sample.label("group") == GROUP && sample.label("verb") != "WATCH" =>
        {
            let subresource = sample.label("subresource");
            let slash = if subresource.is_empty() { "" } else { "/" };
            Some(format!(
                "{} {}{slash}{subresource}",
                sample.label("verb"),
                sample.label("resource")
            ))
        }
        "apiserver_admission_webhook_admission_duration_seconds_sum" => Some(format!(
            "webhook {} on {}",
            sample.label("name"),
            sample.label("operation")
        )),
        "etcd_request_duration_seconds_sum" => {
            // The label was `type` before Kubernetes 1.34.
            let resource = [sample.label("resource"), sample.label("type")].concat();
            let is_of_claims = resource.contains("ipaddress") || resource.contains("incluster");
            is_of_claims.then(|| format!("etcd {} {resource}", sample.label("operation")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"
apiserver_request_duration_seconds_sum{component="apiserver",group="ipam.cluster.x-k8s.io",resource="ipaddressclaims",scope="resource",subresource="status",verb="PATCH",version="v1beta2"} 1.5
apiserver_request_duration_seconds_sum{component="apiserver",group="ipam.cluster.x-k8s.io",resource="ipaddressclaims",scope="cluster",subresource="",verb="WATCH",version="v1beta2"} 900
apiserver_request_duration_seconds_sum{component="apiserver",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 3
apiserver_admission_webhook_admission_duration_seconds_sum{name="validation.ipaddress.ipam.cluster.x-k8s.io",operation="CREATE",rejected="false",type="validating"} 0.5
etcd_request_duration_seconds_sum{operation="update",type="/registry/ipam.cluster.x-k8s.io/ipaddresses"} 0.25
etcd_request_duration_seconds_sum{operation="update",type="/registry/pods"} 7
"#;

    #[test]
    fn time_is_told_apart_by_what_it_was_spent_on_longest_first() {
        let spent = Durations::read(METRICS).since(&Durations::default());
        let expected = [
            ("PATCH ipaddressclaims/status", 1.5),
            (
                "webhook validation.ipaddress.ipam.cluster.x-k8s.io on CREATE",
                0.5,
            ),
            ("etcd update /registry/ipam.cluster.x-k8s.io/ipaddresses", 0.25),
        ];
        assert_eq!(spent, expected.map(|(what, seconds)| (what.to_owned(), seconds)));
        assert_eq!(Durations::read(METRICS).since(&Durations::read(METRICS)), []);
    }
}
