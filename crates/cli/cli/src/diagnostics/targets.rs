//! Where controllers serve their metrics and other diagnostics. Pure.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::args;

/// The port of Cluster API's managers and of ours, unless a flag says otherwise.
const PORT: u16 = 8443;
/// The flags with the address, newest first.
const ADDRESSES: [&str; 3] = ["diagnostics-address", "metrics-bind-addr", "metrics-bind-address"];

/// The diagnostics of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The name of the Deployment; that of the pod where it has several.
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) port: u16,
    /// HTTPS for clients with a token, as is usual, or HTTP for everyone.
    pub(crate) is_tls: bool,
    /// The fingerprint of its certificate; any certificate is taken if there is none.
    pub(crate) certificate: Option<String>,
}

/// The diagnostics of the running pods, at most this many.
pub(crate) fn targets(pods: &[Pod], limit: usize) -> Vec<Target> {
    let running: Vec<_> = pods.iter().filter(|pod| is_running(pod)).take(limit).collect();
    let is_shared = |name: &str| running.iter().filter(|pod| deployment(pod) == name).count() > 1;
    let target = |pod: &&Pod| {
        let args = arguments(pod);
        let address = ADDRESSES
            .iter()
            .find_map(|flag| args::value(&args, flag))
            .unwrap_or_default();
        let port = match address.rsplit_once(':') {
            Some((_, port)) => port.parse().ok()?,
            None if address.is_empty() => PORT,
            // `0` turns the metrics off.
            None => return None,
        };
        let insecure = args::value(&args, "insecure-diagnostics");
        let name = deployment(pod);
        Some(Target {
            name: if is_shared(&name) { pod.name_any() } else { name },
            namespace: pod.namespace().unwrap_or_default(),
            pod: pod.name_any(),
            port,
            is_tls: !insecure.is_some_and(|value| value.is_empty() || value == "true"),
            certificate: None,
        })
    };
    running.iter().filter_map(target).collect()
}

fn is_running(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
}

/// A pod's name is that of its Deployment, with two random parts.
fn deployment(pod: &Pod) -> String {
    let name = pod.name_any();
    name.rsplitn(3, '-').nth(2).map_or(name.clone(), str::to_owned)
}

fn arguments(pod: &Pod) -> Vec<String> {
    let containers = pod
        .spec
        .as_ref()
        .map(|spec| spec.containers.as_slice())
        .unwrap_or_default();
    containers
        .iter()
        .flat_map(|container| container.args.clone().unwrap_or_default())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, phase: &str, args: &[&str]) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": "system", "name": name},
            "spec": {"containers": [{"name": "manager", "args": args}]},
            "status": {"phase": phase},
        }))
        .expect("a Pod")
    }

    fn target(name: &str, pod: &str, port: u16, is_tls: bool) -> Target {
        Target {
            name: name.to_owned(),
            namespace: "system".to_owned(),
            pod: pod.to_owned(),
            port,
            is_tls,
            certificate: None,
        }
    }

    #[test]
    fn address_and_protocol_are_in_the_arguments() {
        let pods = [
            pod("core-79d-x1", "Running", &["--leader-elect"]),
            pod(
                "kcp-79d-x2",
                "Running",
                &["--diagnostics-address=:9000", "--insecure-diagnostics=true"],
            ),
            pod("off-79d-x3", "Running", &["--metrics-bind-address=0"]),
            pod("starts-79d-x4", "Pending", &[]),
            pod("twice-79d-x5", "Running", &["--insecure-diagnostics=false"]),
            pod(
                "twice-79d-x6",
                "Running",
                &["--diagnostics-address=127.0.0.1:8444"],
            ),
        ];
        let expected = [
            target("core", "core-79d-x1", 8443, true),
            target("kcp", "kcp-79d-x2", 9000, false),
            target("twice-79d-x5", "twice-79d-x5", 8443, true),
            target("twice-79d-x6", "twice-79d-x6", 8444, true),
        ];
        assert_eq!(targets(&pods, 10), expected);
        assert_eq!(targets(&pods, 1), expected[..1]);
    }
}
