//! Clusters in a SimulatedCloud. Their machines are spread over its zones, and have the capacity of their types.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use nephele_e2e::{Cluster, Look, Scope, Shape, cluster::Role, management::kinds, state, until, wait::LIMIT};
use serde_json::{Value, json};

use super::faults::begin;

const ZONES: [&str; 3] = ["north-1a", "north-1b", "north-1c"];

/// A cloud with one region of these zones; `edge` is not for control planes.
fn cloud(zones: &[&str], types: &[&str]) -> Value {
    let zones: Vec<_> = zones.iter().map(|zone| json!({"name": zone})).collect();
    let edge = json!({"name": "edge-1a", "controlPlane": false});
    let types: Vec<_> = types
        .iter()
        .map(|name| json!({"name": name, "cpu": 16, "memory": "64Gi", "pods": 250, "architecture": "arm64"}))
        .collect();
    json!({
        "apiVersion": "cloud.nephele.dev/v1alpha1",
        "kind": "SimulatedCloud",
        "metadata": {"name": "north"},
        "spec": {
            "regions": [{"name": "north-1", "zones": zones}, {"name": "edge-1", "zones": [edge]}],
            "instanceTypes": types,
        },
    })
}

fn in_the_cloud(object: &mut Value) {
    if object["kind"] == "InMemoryCluster" {
        object["spec"]["cloudRef"] = json!({"name": "north"});
    }
    if object["kind"] == "InMemoryMachineTemplate" {
        object["spec"]["template"]["spec"]["instanceType"] = json!("m.large");
    }
}

/// A second MachineDeployment like that in the template, in its own failure domain.
async fn workers_in(cluster: &Cluster, zone: &str) -> anyhow::Result<()> {
    let mut object = cluster
        .object(kinds::MACHINE_DEPLOYMENT, &cluster.workers())
        .await?;
    let name = format!("{}-{zone}", cluster.workers());
    object["metadata"] = json!({"name": name, "namespace": cluster.namespace});
    object["status"].take();
    object.as_object_mut().map(|fields| fields.remove("status"));
    let spec = &mut object["spec"];
    spec["replicas"] = json!(1);
    spec["selector"] = json!({"matchLabels": {}});
    spec["template"]
        .as_object_mut()
        .map(|fields| fields.remove("metadata"));
    spec["template"]["spec"]["failureDomain"] = json!(zone);
    cluster.management.apply(&cluster.namespace, &[object]).await
}

#[tokio::test]
async fn cluster_is_spread_over_the_zones_of_its_cloud() -> anyhow::Result<()> {
    let scope = Scope::new("zones").await?;
    scope
        .management
        .apply(&scope.namespace, &[cloud(&ZONES, &["m.large"])])
        .await?;
    let cluster = scope
        .plain_with("cluster", Shape::new(3, 0), in_the_cloud)
        .await?;
    for zone in ZONES {
        workers_in(&cluster, zone).await?;
    }
    cluster.settled(3, 3).await?;
    let object = cluster.get().await?;
    let domain = |zone: &str, control_plane: bool| {
        let region = zone.trim_end_matches(|c: char| c.is_ascii_lowercase());
        json!({"name": zone, "controlPlane": control_plane, "attributes": {"region": region}})
    };
    let all = json!([
        domain("edge-1a", false),
        domain("north-1a", true),
        domain("north-1b", true),
        domain("north-1c", true),
    ]);
    assert_eq!(object["status"]["failureDomains"], all);

    // Each zone has a machine of each role. Machines and Nodes agree.
    let mut of_nodes = placement_of_nodes(&cluster).await?;
    for role in [Role::ControlPlane, Role::Worker] {
        let mut zones = Vec::new();
        for machine in cluster.machines(Some(role)).await? {
            let zone = machine["status"]["failureDomain"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            assert_eq!(
                machine["spec"]["failureDomain"],
                json!(zone),
                "{}",
                state::name(&machine)
            );
            let node = machine["status"]["nodeRef"]["name"].as_str().unwrap_or_default();
            let labels = of_nodes.remove(node);
            assert_eq!(labels, Some((zone.clone(), "north-1".to_owned())), "{node}");
            zones.push(zone);
        }
        zones.sort();
        assert_eq!(zones, ZONES, "{role:?}");
    }
    assert_eq!(of_nodes, BTreeMap::new());

    outage(&scope, &cluster).await?;

    // A deleted zone is no longer a failure domain. Its machines stay.
    let fewer = json!({"spec": cloud(&ZONES[..2], &["m.large"])["spec"]});
    scope
        .management
        .patch(kinds::SIMULATED_CLOUD, &scope.namespace, "north", &fewer)
        .await?;
    until("the zone to be gone from the Cluster", LIMIT, async || {
        let object = cluster.get().await?;
        let domains = object["status"]["failureDomains"]
            .as_array()
            .into_iter()
            .flatten();
        let names: Vec<_> = domains.filter_map(|domain| domain["name"].as_str()).collect();
        Ok(Look::when(names == ["edge-1a", "north-1a", "north-1b"], || {
            format!("{names:?}")
        }))
    })
    .await?;
    cluster.settled(3, 3).await?;
    scope.finish().await
}

/// One of three zones is down and returns: its machines are silent, it gets no new ones, and the others keep running.
async fn outage(scope: &Scope, cluster: &Cluster) -> anyhow::Result<()> {
    let down = ZONES[0];
    let spec = json!({"match": {"zones": [down]}, "effect": {"outage": {"retryAfter": "1s"}}});
    begin(scope, "outage", &spec).await?;
    nodes_are(cluster, |zone| if zone == down { "Unknown" } else { "True" }).await?;
    let deployment = format!("{}-{down}", cluster.workers());
    let replicas = |number: u32| json!({"spec": {"replicas": number}});
    cluster
        .patch(kinds::MACHINE_DEPLOYMENT, &deployment, &replicas(2))
        .await?;
    cluster
        .worker_says("the cloud is not available (Fault outage)")
        .await?;
    scope
        .management
        .delete(kinds::FAULT, &scope.namespace, "outage")
        .await?;
    nodes_are(cluster, |_| "True").await?;
    cluster.settled(3, 4).await?;
    cluster
        .patch(kinds::MACHINE_DEPLOYMENT, &deployment, &replicas(1))
        .await?;
    cluster.settled(3, 3).await
}

/// Waits until the condition Ready of every Node has the status that is expected in its zone.
async fn nodes_are(cluster: &Cluster, expected: impl Fn(&str) -> &'static str) -> anyhow::Result<()> {
    cluster
        .until("the Nodes to be as their zones are", async || {
            let nodes = cluster.workload().await?.nodes().await?;
            let of_node = |node: &Node| {
                let conditions = node
                    .status
                    .iter()
                    .flat_map(|status| status.conditions.iter().flatten());
                let ready = conditions
                    .into_iter()
                    .find(|condition| condition.type_ == "Ready");
                let status = ready
                    .map(|condition| condition.status.clone())
                    .unwrap_or_default();
                (label(node, "topology.kubernetes.io/zone").to_owned(), status)
            };
            let states: Vec<_> = nodes.iter().map(of_node).collect();
            let as_expected = states.iter().all(|(zone, status)| status == expected(zone));
            Ok(Look::when(as_expected, || format!("{states:?}")))
        })
        .await
}

#[tokio::test]
async fn machine_of_an_unknown_type_says_so_and_comes_up_when_the_type_is_there() -> anyhow::Result<()> {
    let scope = Scope::new("types").await?;
    scope
        .management
        .apply(&scope.namespace, &[cloud(&ZONES, &["c.large"])])
        .await?;
    let cluster = scope
        .plain_with("cluster", Shape::new(1, 1), |object| {
            in_the_cloud(object);
            if state::name(object).ends_with("-control-plane") && object["kind"] == "InMemoryMachineTemplate"
            {
                object["spec"]["template"]["spec"]["instanceType"] = json!("c.large");
            }
        })
        .await?;
    cluster
        .worker_says("The cloud has no instance type m.large; it has c.large")
        .await?;
    let template = &format!("{}-workers", cluster.name);
    let offered = cluster
        .object(kinds::IN_MEMORY_MACHINE_TEMPLATE, template)
        .await?;
    assert_eq!(offered["status"]["capacity"], Value::Null);

    let more = json!({"spec": cloud(&ZONES, &["c.large", "m.large"])["spec"]});
    scope
        .management
        .patch(kinds::SIMULATED_CLOUD, &scope.namespace, "north", &more)
        .await?;
    cluster.settled(1, 1).await?;
    let workload = cluster.workload().await?;
    let worker = workload
        .nodes()
        .await?
        .into_iter()
        .find(|node| label(node, INSTANCE_TYPE) == "m.large");
    let status = worker.and_then(|node| node.status).unwrap_or_default();
    for quantities in [status.capacity, status.allocatable] {
        let quantities = serde_json::to_value(quantities)?;
        for (resource, quantity) in [
            ("cpu", "16"),
            ("memory", "64Gi"),
            ("pods", "250"),
            ("ephemeral-storage", "40Gi"),
        ] {
            assert_eq!(quantities[resource], quantity, "{resource}");
        }
    }
    assert_eq!(
        status.node_info.map(|info| info.architecture).as_deref(),
        Some("arm64")
    );

    // The cluster autoscaler reads this status to scale from zero.
    let offered = until("the template to say what its machines have", LIMIT, async || {
        let template = cluster
            .object(kinds::IN_MEMORY_MACHINE_TEMPLATE, template)
            .await?;
        let known = template["status"]["capacity"].is_object();
        Ok(if known {
            Look::Done(template)
        } else {
            Look::NotYet(template.to_string())
        })
    })
    .await?;
    assert_eq!(
        offered["status"],
        json!({
            "capacity": {"cpu": "16", "memory": "64Gi", "pods": "250", "ephemeral-storage": "40Gi"},
            "nodeInfo": {"architecture": "arm64", "operatingSystem": "linux"},
        })
    );
    scope.finish().await
}

#[tokio::test]
async fn cloud_with_a_name_used_twice_is_refused() -> anyhow::Result<()> {
    let scope = Scope::new("clouds").await?;
    let refused = async |cloud: &Value| scope.management.refusal(&scope.namespace, cloud).await;
    assert_eq!(refused(&cloud(&ZONES, &["m.large"])).await?, None);
    let mut twice = cloud(&ZONES, &[]);
    twice["spec"]["regions"][1]["zones"][0]["name"] = json!(ZONES[0]);
    for (cloud, message) in [
        (twice, "the name of a zone is used in one region only"),
        (cloud(&["a", "a"], &[]), "Duplicate value"),
        (cloud(&ZONES, &["m", "m"]), "Duplicate value"),
        (cloud(&["Not_a_zone"], &[]), "spec.regions[0].zones[0].name"),
    ] {
        let told = refused(&cloud).await?.unwrap_or_default();
        assert!(told.contains(message), "{told}");
    }
    scope.finish().await
}

const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

fn label<'a>(node: &'a Node, name: &str) -> &'a str {
    node.metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(name))
        .map_or("", String::as_str)
}

/// Zone and region of each Node, by its labels.
async fn placement_of_nodes(cluster: &Cluster) -> anyhow::Result<BTreeMap<String, (String, String)>> {
    let nodes = cluster.workload().await?.nodes().await?;
    let place = |node: Node| {
        let of = |name: &str| label(&node, name).to_owned();
        let place = (
            of("topology.kubernetes.io/zone"),
            of("topology.kubernetes.io/region"),
        );
        (node.metadata.name.clone().unwrap_or_default(), place)
    };
    Ok(nodes.into_iter().map(place).collect())
}
