//! The records follow the machines.
//!
//! With an API server alone, this test would write the status of Clusters and Machines itself, and put a mock in place
//! of the workload cluster. Here Machines come and go, the workload cluster answers, and the controller runs as in
//! production.

use anyhow::{Context, ensure};
use dns_addon::{ENABLED_LABEL, RECORDS_ANNOTATION, RECORDS_NAME, RECORDS_NAMESPACE};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DynamicObject, PostParams},
};
use nepheletest::{Cluster, Nephele};
use serde_json::json;

#[tokio::test]
async fn records_follow_the_machines() -> anyhow::Result<()> {
    let nephele = Nephele::builder().file("tests/clusters.yaml").start().await?;
    let controller = tokio::spawn(dns_addon::run(nephele.client()?));

    // A cluster of the file has a record for each machine.
    let small = nephele.wait_for_cluster("default", "small").await?;
    expect_records(&nephele, &small, None).await?;

    // A cluster that is created later has its records, too.
    create_cluster(nephele.client()?, "later").await?;
    let later = nephele.wait_for_cluster("default", "later").await?;
    expect_records(&nephele, &later, None).await?;

    // The record of a terminated worker makes room for that of its replacement.
    let machines = small.machines().await?;
    let worker = machines
        .iter()
        .find(|machine| !machine.is_control_plane)
        .context("it has no workers")?;
    small.terminate_machine(&worker.name).await?;
    expect_records(&nephele, &small, Some(&worker.name)).await?;

    controller.abort();
    Ok(nephele.stop().await?)
}

/// A mock of the workload cluster answers always. Here its API server does not for a while, and afterwards the records
/// follow the machines again.
///
/// Without the time limit in the client of the workload cluster, this test fails: the controller still waits for the answer
/// to a request of that time, and `small` gets no records.
#[tokio::test]
async fn cluster_that_answers_again_has_its_records() -> anyhow::Result<()> {
    let nephele = Nephele::builder().file("tests/clusters.yaml").start().await?;
    let effect = "apiServer: {latency: {duration: 1h}}";
    let silence = nephele.fault(effect, &["--target", "small"]).await?;
    let controller = tokio::spawn(dns_addon::run(nephele.client()?));

    // When another cluster has its records, the controller has asked this one, too.
    create_cluster(nephele.client()?, "later").await?;
    let later = nephele.wait_for_cluster("default", "later").await?;
    expect_records(&nephele, &later, None).await?;

    silence.heal().await?;
    let small = nephele.wait_for_cluster("default", "small").await?;
    expect_records(&nephele, &small, None).await?;

    controller.abort();
    Ok(nephele.stop().await?)
}

/// Waits until a cluster has the records of exactly its Machines, and one of them is gone.
async fn expect_records(nephele: &Nephele, cluster: &Cluster, gone: Option<&str>) -> anyhow::Result<()> {
    let config_maps = Api::<ConfigMap>::namespaced(cluster.client()?, RECORDS_NAMESPACE);
    let clusters = Api::<dns_addon::Cluster>::namespaced(nephele.client()?, cluster.namespace());
    nephele
        .wait_until(
            &format!("{} has a record for each machine", cluster.name()),
            async || {
                let machines = cluster.machines().await?;
                let names: Vec<_> = machines.into_iter().map(|machine| machine.name).collect();
                let records = config_maps.get(RECORDS_NAME).await?.data.unwrap_or_default();
                let owner = clusters.get(cluster.name()).await?;
                let count = owner.annotations().get(RECORDS_ANNOTATION);
                ensure!(
                    records.keys().eq(&names)
                        && count == Some(&names.len().to_string())
                        && !names.iter().any(|name| Some(name.as_str()) == gone),
                    "the Machines are {names:?}, the records {records:?}, and their number is {count:?}"
                );
                Ok(())
            },
        )
        .await?;
    Ok(())
}

/// Creates a Cluster that asks for the add-on, with one control plane machine and one worker.
async fn create_cluster(management: Client, name: &str) -> anyhow::Result<()> {
    let workers = json!([{"class": "default-worker", "name": "workers", "replicas": 1}]);
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": dns_addon::Cluster::api_version(&()),
        "kind": dns_addon::Cluster::kind(&()),
        "metadata": {"name": name, "labels": {ENABLED_LABEL: "true"}},
        "spec": {"topology": {
            "classRef": {"name": "in-memory"},
            "version": "v1.36.3",
            "controlPlane": {"replicas": 1},
            "workers": {"machineDeployments": workers},
        }},
    }))?;
    let clusters = Api::namespaced_with(
        management,
        "default",
        &kube::api::ApiResource::erase::<dns_addon::Cluster>(&()),
    );
    clusters.create(&PostParams::default(), &object).await?;
    Ok(())
}
