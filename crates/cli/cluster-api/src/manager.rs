//! A manager: what its Deployment says, as a command line of this machine.

use std::{collections::BTreeMap, net::SocketAddr, path::Path};

use anyhow::{Context as _, bail};
use nephele_api::names::is_dns_subdomain;
use serde_json::Value;

/// clusterctl's label of a provider.
const PROVIDER: &str = "cluster.x-k8s.io/provider";

/// The flags of Cluster API's managers.
const OF_CLUSTER_API: Flags = Flags {
    webhook_port: "--webhook-port",
    certificates: "--webhook-cert-dir",
    health: "--health-addr",
    diagnostics: "--diagnostics-address",
};
/// The flags of managers that kubebuilder wrote.
const OF_KUBEBUILDER: Flags = Flags {
    webhook_port: "--webhook-port",
    certificates: "--webhook-cert-path",
    health: "--health-probe-bind-address",
    diagnostics: "--metrics-bind-address",
};

struct Flags {
    webhook_port: &'static str,
    certificates: &'static str,
    health: &'static str,
    diagnostics: &'static str,
}

/// Where a manager listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) webhooks: SocketAddr,
    pub(crate) health: SocketAddr,
    pub(crate) diagnostics: SocketAddr,
}

impl From<[SocketAddr; 3]> for Addresses {
    fn from([webhooks, health, diagnostics]: [SocketAddr; 3]) -> Self {
        Self {
            webhooks,
            health,
            diagnostics,
        }
    }
}

/// What a Deployment says of a manager.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manager {
    /// clusterctl's name of its provider, or else the name of its Deployment.
    pub(crate) label: String,
    namespace: String,
    deployment: String,
    pub(crate) image: Option<String>,
    /// The labels of its pods, by which Services select it.
    labels: BTreeMap<String, String>,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
}

impl Manager {
    pub(crate) fn read(deployment: &Value) -> anyhow::Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let metadata = &deployment["metadata"];
        let template = &deployment["spec"]["template"];
        let container = &template["spec"]["containers"][0];
        let name = text(&metadata["name"]).context("a Deployment has no name")?;
        let namespace =
            text(&metadata["namespace"]).with_context(|| format!("Deployment {name} has no namespace"))?;
        let label = text(&metadata["labels"][PROVIDER]).unwrap_or_else(|| name.clone());
        // Files and folders are named for it.
        if !is_dns_subdomain(&label) {
            bail!("Deployment {name}: the name of its provider, {label:?}, is not a DNS subdomain");
        }
        let labels = template["metadata"]["labels"].as_object().into_iter().flatten();
        let variables = container["env"].as_array().into_iter().flatten();
        let variables = variables.filter_map(|variable| {
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some("metadata.namespace") => Some(namespace.clone()),
                Some("metadata.name") => Some(name.clone()),
                Some(_) => None,
                None => text(&variable["value"]),
            };
            Some((text(&variable["name"])?, value?))
        });
        let arguments = container["args"].as_array().into_iter().flatten();
        Ok(Self {
            label,
            labels: labels
                .filter_map(|(name, value)| Some((name.clone(), text(value)?)))
                .collect(),
            arguments: arguments.filter_map(text).collect(),
            image: text(&container["image"]),
            variables: variables.collect(),
            namespace,
            deployment: name,
        })
    }

    /// Whether a Service leads to it.
    pub(crate) fn is_selected_by(&self, service: &Value) -> bool {
        let is_here = service["metadata"]["namespace"] == self.namespace.as_str();
        let selector = service["spec"]["selector"].as_object();
        is_here
            && selector.is_some_and(|selector| {
                !selector.is_empty()
                    && selector.iter().all(|(name, value)| {
                        self.labels.get(name).is_some_and(|label| value == label.as_str())
                    })
            })
    }

    /// The arguments of its container, with ports and files of its own and without what works only in a pod.
    pub(crate) fn arguments(&self, addresses: Addresses, certificates: &Path) -> Vec<String> {
        let has = |flag: &str| self.arguments.iter().any(|argument| name(argument) == flag);
        let is_kubebuilder = has(OF_KUBEBUILDER.health) || has(OF_KUBEBUILDER.diagnostics);
        let flags = if is_kubebuilder {
            OF_KUBEBUILDER
        } else {
            OF_CLUSTER_API
        };
        let mut own = vec![
            format!("{}={}", flags.health, addresses.health),
            format!("{}={}", flags.diagnostics, addresses.diagnostics),
        ];
        // Kubebuilder's managers have these flags only where they have webhooks.
        if !is_kubebuilder || has(flags.webhook_port) {
            own.push(format!("{}={}", flags.webhook_port, addresses.webhooks.port()));
        }
        if !is_kubebuilder || has(flags.certificates) {
            own.push(format!("{}={}", flags.certificates, certificates.display()));
        }
        if !is_kubebuilder {
            // Only this machine reaches them.
            own.push("--insecure-diagnostics=true".to_owned());
        }
        if !is_kubebuilder || has("--leader-elect") {
            // The namespace of a lease is read from a file that only pods have, and there is one replica.
            own.push("--leader-elect=false".to_owned());
        }
        let kept = self.arguments.iter().filter(|argument| {
            let is_replaced = |other: &String| name(other) == name(argument);
            !own.iter().any(is_replaced) && !name(argument).starts_with("--leader-elect")
        });
        kept.chain(&own).cloned().collect()
    }

    /// The variables of its container that have a value outside of a pod.
    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    /// Its namespace and the name of its Deployment.
    pub(crate) fn place(&self) -> (&str, &str) {
        (&self.namespace, &self.deployment)
    }
}

/// The name of a flag in an argument.
fn name(argument: &str) -> &str {
    argument.split('=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use nephele_testkit::{hostile_texts, texts_of};
    use serde_json::json;

    use super::*;

    fn addresses() -> Addresses {
        [1, 2, 3]
            .map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
            .into()
    }

    fn manager(arguments: &[&str]) -> Manager {
        let deployment = json!({
            "metadata": {
                "name": "capi-controller-manager", "namespace": "capi-system", "labels": {PROVIDER: "cluster-api"},
            },
            "spec": {"template": {
                "metadata": {"labels": {"control-plane": "a", "b": "c"}},
                "spec": {"containers": [{"args": arguments, "env": [
                    {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
                    {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
                    {"name": "PLAIN", "value": "p"},
                ]}]},
            }},
        });
        Manager::read(&deployment).expect("a Deployment")
    }

    #[test]
    fn a_manager_of_cluster_api_has_ports_and_files_of_this_machine() {
        let manager = manager(&[
            "--leader-elect",
            "--leader-elect-lease-duration=1m",
            "--diagnostics-address=:8443",
            "--insecure-diagnostics=false",
            "--feature-gates=A=true,B=false",
        ]);
        let expected = [
            "--feature-gates=A=true,B=false",
            "--health-addr=127.0.0.1:2",
            "--diagnostics-address=127.0.0.1:3",
            "--webhook-port=1",
            "--webhook-cert-dir=/c",
            "--insecure-diagnostics=true",
            "--leader-elect=false",
        ];
        assert_eq!(manager.arguments(addresses(), Path::new("/c")), expected);
        let variables = [("POD_NAMESPACE", "capi-system"), ("PLAIN", "p")];
        assert_eq!(
            manager.variables(),
            variables.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn a_manager_of_kubebuilder_gets_only_flags_that_it_has() {
        let arguments = |given: &[&str]| manager(given).arguments(addresses(), Path::new("/c"));
        assert_eq!(
            arguments(&["--metrics-bind-address=:8443", "--x"]),
            [
                "--x",
                "--health-probe-bind-address=127.0.0.1:2",
                "--metrics-bind-address=127.0.0.1:3"
            ]
        );
        let given = [
            "--health-probe-bind-address=:8081",
            "--leader-elect",
            "--webhook-cert-path=/tmp",
        ];
        assert_eq!(
            arguments(&given),
            [
                "--health-probe-bind-address=127.0.0.1:2",
                "--metrics-bind-address=127.0.0.1:3",
                "--webhook-cert-path=/c",
                "--leader-elect=false",
            ]
        );
    }

    #[test]
    fn services_select_it_by_namespace_and_labels() {
        let manager = manager(&[]);
        for (namespace, selector, expected) in [
            ("capi-system", json!({"control-plane": "a"}), true),
            ("capi-system", json!({"control-plane": "a", "b": "c"}), true),
            ("capi-system", json!({"control-plane": "b"}), false),
            ("capi-system", json!({"other": "a"}), false),
            ("capi-system", json!({}), false),
            ("capi-system", Value::Null, false),
            ("other", json!({"control-plane": "a"}), false),
        ] {
            let service = json!({"metadata": {"namespace": namespace}, "spec": {"selector": selector}});
            assert_eq!(manager.is_selected_by(&service), expected, "{service}");
        }
    }

    #[test]
    fn no_text_of_a_deployment_leads_out_of_the_folder() {
        let valid = json!({
            "metadata": {"name": "m", "namespace": "n", "labels": {PROVIDER: "core"}},
            "spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"args": ["--a"]}]}}},
        });
        let folder = Path::new("/f");
        for place in texts_of(&valid) {
            for text in hostile_texts() {
                let mut deployment = valid.clone();
                *deployment.pointer_mut(&place).expect("its place") = json!(text);
                if let Ok(manager) = Manager::read(&deployment) {
                    let path = folder.join(&manager.label);
                    let names: Vec<_> = path
                        .strip_prefix(folder)
                        .expect("below it")
                        .components()
                        .collect();
                    assert_eq!(
                        names,
                        [Component::Normal(manager.label.as_ref())],
                        "{place}: {text:?}"
                    );
                }
            }
        }
    }
}
