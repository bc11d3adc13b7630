//! The identity of a cluster, for its operators and its users.

use std::{collections::BTreeMap, process::Command};

use anyhow::Context;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use nephele_e2e::{Cluster, Look, management::kinds, state, until, wait::LIMIT};
use serde_json::{Value, json};

/// Everything that has to be equal on every management cluster.
#[derive(Debug, PartialEq)]
pub(crate) struct Identity {
    /// Host and port of the API server.
    endpoint: (String, u16),
    /// The API server's certificate.
    certificate: String,
    /// The published kubeconfig.
    kubeconfig: String,
    nodes: BTreeMap<String, Value>,
    /// InMemoryMachines by name: provider id, addresses, addresses from pools, failure domain, start.
    machines: BTreeMap<String, Value>,
    /// Machines and their objects, by kind and name.
    objects: BTreeMap<String, Vec<String>>,
    /// IPAddresses by name, with their specs.
    addresses: BTreeMap<String, Value>,
}

impl Identity {
    /// Reads the identity once every machine is provisioned and has its Node.
    pub(crate) async fn of(cluster: &Cluster) -> anyhow::Result<Self> {
        let endpoint = cluster.endpoint().await?;
        let workload = cluster.workload().await?;
        let machines = until("all machines to be up with their Nodes", LIMIT, async || {
            let machines = cluster.of_kind(kinds::IN_MEMORY_MACHINE).await?;
            let up = machines
                .iter()
                .filter(|machine| state::is(machine, "Ready", "True"))
                .count();
            let nodes = workload.nodes().await?.len();
            Ok(if up == machines.len() && nodes == machines.len() {
                Look::Done(machines)
            } else {
                let lines: Vec<_> = machines.iter().map(state::line).collect();
                Look::NotYet(format!("{nodes} Nodes\n{}", lines.join("\n")))
            })
        })
        .await?;
        let machine = |object: &Value| {
            let status = &object["status"];
            let seen = json!({
                "providerID": object["spec"]["providerID"], "addresses": status["addresses"],
                "network": status["network"], "failureDomain": status["failureDomain"],
                "startTime": status["startTime"],
            });
            (state::name(object).to_owned(), seen)
        };
        let mut objects = BTreeMap::new();
        for kind in [
            kinds::MACHINE,
            kinds::MACHINE_SET,
            kinds::MACHINE_DEPLOYMENT,
            kinds::MACHINE_POOL,
            kinds::CONTROL_PLANE,
            kinds::KUBEADM_CONFIG,
            kinds::IN_MEMORY_CLUSTER,
            kinds::IN_MEMORY_MACHINE_POOL,
            kinds::SECRET,
        ] {
            let names = cluster
                .of_kind(kind)
                .await?
                .iter()
                .map(|object| state::name(object).to_owned())
                .collect();
            objects.insert(kind.2.to_owned(), names);
        }
        let addresses = cluster
            .management
            .list(kinds::ADDRESS, &cluster.namespace, "")
            .await?;
        let address = |object: &Value| (state::name(object).to_owned(), object["spec"].clone());
        Ok(Self {
            certificate: certificate(&endpoint).await?,
            endpoint,
            kubeconfig: cluster.kubeconfig().await?,
            nodes: workload.nodes().await?.iter().map(node).collect(),
            machines: machines.iter().map(machine).collect(),
            objects,
            addresses: addresses.iter().map(address).collect(),
        })
    }
}

fn node(node: &Node) -> (String, Value) {
    let seen = json!({
        "uid": node.metadata.uid, "created": node.metadata.creation_timestamp, "labels": node.metadata.labels,
        "providerID": node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()),
        "addresses": node.status.as_ref().and_then(|status| status.addresses.as_ref()),
        "capacity": node.status.as_ref().and_then(|status| status.capacity.as_ref()),
    });
    (node.name_any(), seen)
}

/// The certificate of an endpoint.
async fn certificate((host, port): &(String, u16)) -> anyhow::Result<String> {
    let mut openssl = Command::new("openssl");
    openssl
        .args(["s_client", "-showcerts", "-connect"])
        .arg(format!("{host}:{port}"));
    let output = tokio::task::spawn_blocking(move || openssl.stdin(std::process::Stdio::null()).output());
    let output = output
        .await
        .context("openssl was given up")?
        .context("failed to run openssl")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let shown = said
        .split_once("-----BEGIN CERTIFICATE-----")
        .and_then(|(_, rest)| {
            rest.split_once("-----END CERTIFICATE-----")
                .map(|(certificate, _)| certificate.trim().to_owned())
        });
    shown.with_context(|| format!("no certificate is shown at {host}:{port}: {said}"))
}
