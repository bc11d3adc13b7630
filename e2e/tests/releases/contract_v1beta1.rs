//! Releases of Cluster API that have contract v1beta1 and serve their own kinds only as `v1beta1`.

use std::collections::BTreeSet;

use nephele_e2e::{
    Cluster, Look, Scope, Workload,
    management::{Kind, kinds},
    state, until,
    wait::LIMIT,
};
use serde_json::{Value, json};

const VERSION: &str = "v1.30.4";

const CLUSTER: Kind = ("cluster.x-k8s.io", "v1beta1", "Cluster");
const MACHINE: Kind = ("cluster.x-k8s.io", "v1beta1", "Machine");
const CLAIM: Kind = ("ipam.cluster.x-k8s.io", "v1beta1", "IPAddressClaim");
const ADDRESS: Kind = ("ipam.cluster.x-k8s.io", "v1beta1", "IPAddress");
const MADE: [Kind; 6] = [
    CLUSTER,
    MACHINE,
    CLAIM,
    ADDRESS,
    kinds::OLD_IN_MEMORY_CLUSTER,
    kinds::OLD_IN_MEMORY_MACHINE,
];

#[tokio::test]
async fn cluster_with_addresses_from_a_pool_works_with_cluster_api_of_contract_v1beta1() -> anyhow::Result<()>
{
    let bare = super::management("v1beta1").await?;
    let scope = Scope::on(bare.management.clone(), "release").await?;
    let range = json!({"addresses": ["10.80.0.10-10.80.0.20"], "prefix": 24, "gateway": "10.80.0.1"});
    scope.pool(kinds::IP_POOL, "machines", range).await?;
    bare.management.apply(&scope.namespace, &objects("old")).await?;
    let cluster = Cluster {
        management: bare.management.clone(),
        namespace: scope.namespace.clone(),
        name: "old".to_owned(),
    };
    running(&cluster, 3, 2).await?;
    let found = bare.management.get(CLUSTER, &scope.namespace, "old").await?;
    let domains = json!({"zone-a": {"controlPlane": true}, "zone-b": {"controlPlane": true}});
    assert_eq!(found["status"]["failureDomains"], domains);
    assert_eq!(found["status"]["infrastructureReady"], true);

    let machines = bare.management.list(MACHINE, &scope.namespace, "").await?;
    let goner = machines.first().map(state::name).unwrap_or_default();
    bare.management.delete(MACHINE, &scope.namespace, goner).await?;
    until(&format!("{goner} to go"), LIMIT, async || {
        let found = bare.management.find(MACHINE, &scope.namespace, goner).await?;
        Ok(Look::when(found.is_none(), || {
            found.iter().map(state::line).collect()
        }))
    })
    .await?;
    running(&cluster, 3, 2).await?;

    bare.management.delete(CLUSTER, &scope.namespace, "old").await?;
    until("everything to be gone", LIMIT, async || {
        let mut left = Vec::new();
        for kind in MADE {
            left.extend(
                bare.management
                    .list(kind, &scope.namespace, "")
                    .await?
                    .iter()
                    .map(state::line),
            );
        }
        Ok(Look::when(left.is_empty(), || left.join("\n")))
    })
    .await?;
    bare.down().await
}

/// Waits until all machines run, each with a Node and an address from the pool, and the cluster is ready.
async fn running(cluster: &Cluster, control_plane: usize, workers: usize) -> anyhow::Result<()> {
    let count = control_plane + workers;
    until(&format!("{count} machines to run"), LIMIT, async || {
        let found = cluster
            .management
            .get(CLUSTER, &cluster.namespace, &cluster.name)
            .await?;
        let machines = cluster.management.list(MACHINE, &cluster.namespace, "").await?;
        let running = machines.iter().filter(|machine| {
            machine["status"]["phase"] == "Running" && machine["status"]["nodeRef"]["name"].is_string()
        });
        let names: BTreeSet<_> = running.map(|machine| state::name(machine).to_owned()).collect();
        let addresses: BTreeSet<_> = machines.iter().filter_map(address).collect();
        let of_pool =
            addresses.iter().all(|address| address.starts_with("10.80.0.")) && addresses.len() == count;
        let nodes = match cluster.kubeconfig().await {
            Ok(kubeconfig) => Workload::connect(&kubeconfig)
                .await?
                .nodes()
                .await
                .unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let nodes: BTreeSet<_> = nodes.into_iter().filter_map(|node| node.metadata.name).collect();
        let holds = machines.len() == count
            && names.len() == count
            && nodes == names
            && of_pool
            && state::is(&found, "ControlPlaneInitialized", "True")
            && state::is(&found, "Ready", "True");
        Ok(Look::when(holds, || {
            let lines: Vec<_> = [&found].into_iter().chain(&machines).map(state::line).collect();
            format!("{}\nnodes {nodes:?}, addresses {addresses:?}", lines.join("\n"))
        }))
    })
    .await
}

/// The internal address of a machine.
fn address(machine: &Value) -> Option<String> {
    let addresses = machine["status"]["addresses"].as_array()?;
    let internal = addresses.iter().find(|address| address["type"] == "InternalIP")?;
    internal["address"].as_str().map(str::to_owned)
}

/// A cluster of three control plane machines and two workers over two zones, with all objects in `v1beta1`.
fn objects(name: &str) -> Vec<Value> {
    let reference = |group: &str, kind: &str| json!({"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta1"), "kind": kind, "name": name});
    let object = |group: &str, kind: &str, spec: Value| {
        let group = if group.is_empty() {
            String::new()
        } else {
            format!("{group}.")
        };
        json!({
            "apiVersion": format!("{group}cluster.x-k8s.io/v1beta1"), "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        })
    };
    let pool = json!({"apiGroup": "ipam.cluster.x-k8s.io", "kind": "InClusterIPPool", "name": "machines"});
    let machine = json!({"network": {"addressesFromPools": [pool]}});
    let node = json!({"nodeRegistration": {}});
    vec![
        object(
            "",
            "Cluster",
            json!({
                "clusterNetwork": {
                    "pods": {"cidrBlocks": ["192.168.0.0/16"]}, "services": {"cidrBlocks": ["10.128.0.0/12"]},
                    "serviceDomain": "cluster.local",
                },
                "infrastructureRef": reference("infrastructure", "InMemoryCluster"),
                "controlPlaneRef": reference("controlplane", "KubeadmControlPlane"),
            }),
        ),
        object(
            "infrastructure",
            "InMemoryCluster",
            json!({
                "failureDomains": {"zone-a": {"controlPlane": true}, "zone-b": {"controlPlane": true}},
            }),
        ),
        object(
            "infrastructure",
            "InMemoryMachineTemplate",
            json!({"template": {"spec": machine}}),
        ),
        object(
            "controlplane",
            "KubeadmControlPlane",
            json!({
                "replicas": 3,
                "version": VERSION,
                // From the first two, Cluster API knows which machine starts a cluster and which ones join.
                "kubeadmConfigSpec": {"clusterConfiguration": {}, "initConfiguration": node, "joinConfiguration": node},
                "machineTemplate": {"infrastructureRef": reference("infrastructure", "InMemoryMachineTemplate")},
            }),
        ),
        object(
            "bootstrap",
            "KubeadmConfigTemplate",
            json!({"template": {"spec": {"joinConfiguration": node}}}),
        ),
        object(
            "",
            "MachineDeployment",
            json!({
                "clusterName": name,
                "replicas": 2,
                "selector": {},
                "template": {"spec": {
                    "clusterName": name,
                    "version": VERSION,
                    "bootstrap": {"configRef": reference("bootstrap", "KubeadmConfigTemplate")},
                    "infrastructureRef": reference("infrastructure", "InMemoryMachineTemplate"),
                }},
            }),
        ),
    ]
}
