//! Clusters come and go.

use std::{io::ErrorKind, time::Duration};

use anyhow::Context;
use futures::future::try_join_all;
use nephele_e2e::{
    Look, Scope, Shape,
    manager::{self, Provider},
    until,
};
use tokio::net::TcpStream;

const ROUNDS: usize = 20;
/// Rounds that go on side by side.
const LANES: usize = 4;
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn port_of_a_deleted_cluster_is_free() -> anyhow::Result<()> {
    let scope = Scope::new("port").await?;
    let first = scope.plain("first", Shape::new(1, 0)).await?;
    first.available().await?;
    let (host, port) = first.endpoint().await?;
    TcpStream::connect((host.as_str(), port)).await.context("the API server does not listen")?;

    first.delete().await?;
    scope.nothing_is_left().await?;
    until("the port to be closed", SETTLE_LIMIT, async || {
        Ok(match TcpStream::connect((host.as_str(), port)).await {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        })
    })
    .await?;

    // The next cluster can have it.
    let second = scope
        .plain_with("second", Shape::new(1, 0), |object| {
            if object["kind"] == "InMemoryCluster" {
                object["spec"] = serde_json::json!({"controlPlaneEndpoint": {"port": port}});
            }
        })
        .await?;
    second.available().await?;
    assert_eq!(second.endpoint().await?, (host, port));
    scope.finish().await
}

#[tokio::test]
async fn memory_is_given_back_when_clusters_go() -> anyhow::Result<()> {
    let scope = Scope::new("memory").await?;
    // What is only ever allocated once is no leak.
    rounds(&scope, 1).await?;
    let pid = manager::process(Provider::Infrastructure)?;
    let before = manager::resident_kib(pid)?;
    rounds(&scope, ROUNDS / LANES).await?;
    until("memory to be what it was, within 10 %", SETTLE_LIMIT, async || {
        let now = manager::resident_kib(pid)?;
        Ok(Look::when(now * 10 <= before * 11, || {
            format!("{before} KiB before, {now} KiB after {ROUNDS} clusters")
        }))
    })
    .await?;
    scope.finish().await
}

/// Creates a cluster in each lane, waits for it and deletes it, so many times over.
async fn rounds(scope: &Scope, rounds: usize) -> anyhow::Result<()> {
    for round in 0..rounds {
        try_join_all((0..LANES).map(async |lane| {
            let cluster = scope.plain(&format!("round-{round}-{lane}"), Shape::new(1, 1)).await?;
            cluster.available().await?;
            cluster.delete().await
        }))
        .await?;
        scope.nothing_is_left().await?;
    }
    Ok(())
}
