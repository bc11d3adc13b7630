//! `nephele up --attach`: a process of this machine beside an API server that calls its webhooks by URL.

use std::fs;

use anyhow::Context;
use nephele_e2e::{Look, shell::Shell, until, wait::LIMIT};

/// A pool, and a claim on it.
const OBJECTS: &str = r"
apiVersion: ipam.cluster.x-k8s.io/v1alpha2
kind: InClusterIPPool
metadata: {name: attached, namespace: default}
spec: {addresses: [10.99.0.10-10.99.0.19], prefix: 24, gateway: 10.99.0.1}
---
apiVersion: ipam.cluster.x-k8s.io/v1beta2
kind: IPAddressClaim
metadata: {name: attached, namespace: default}
spec: {poolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool, name: attached}}
";
/// An object that has to be converted before it can be stored.
const OLDER: &str = r"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: InMemoryCluster
metadata: {name: attached, namespace: default}
";
const CONFIGURATIONS: &str =
    "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations --output name";

#[tokio::test]
async fn an_api_server_calls_the_webhooks_of_an_attached_process_until_that_ends() -> anyhow::Result<()> {
    let program = std::env::var("NEPHELE_PROGRAM").context("run cargo xtask installed")?;
    let shell = Shell::new("attach")?;
    for (name, text) in [("objects.yaml", OBJECTS), ("older.yaml", OLDER)] {
        fs::write(shell.folder().join(name), text).with_context(|| format!("failed to write {name}"))?;
    }
    let before = shell.run(CONFIGURATIONS).await?;
    let up = format!("'{program}' up --attach \"$KUBECONFIG\" --folder up -f objects.yaml");
    let mut attached = shell.start(&up)?;
    let address = until("the claim to be bound by the attached process", LIMIT, async || {
        attached.still_runs()?;
        let address = shell
            .run("kubectl get ipaddressclaims.ipam.cluster.x-k8s.io attached --output jsonpath={.status.addressRef.name}")
            .await;
        let address = address.unwrap_or_else(|error| format!("{error:#}"));
        Ok(if address == "attached" { Look::Done(address) } else { Look::NotYet(address) })
    })
    .await?;
    let spec = format!(
        "kubectl get ipaddresses.ipam.cluster.x-k8s.io {address} --output jsonpath={{.spec.address}}"
    );
    assert_eq!(shell.run(&spec).await?, "10.99.0.10");

    let refused = shell.run("kubectl delete inclusterippool attached").await;
    let refused = refused
        .err()
        .context("a pool was deleted under its addresses")?
        .to_string();
    assert!(refused.contains("Pool has IPAddresses allocated"), "{refused}");
    shell
        .run("kubectl create --dry-run=server --filename older.yaml")
        .await?;

    shell
        .run("kubectl delete ipaddressclaims.ipam.cluster.x-k8s.io attached")
        .await?;
    shell.run("kubectl delete inclusterippool attached").await?;
    let status = attached.interrupt().await?;
    assert!(status.success(), "{status}");
    assert_eq!(shell.run(CONFIGURATIONS).await?, before);
    // It also removes definitions that were not installed.
    shell.run(&format!("'{program}' uninstall")).await.map(drop)
}
