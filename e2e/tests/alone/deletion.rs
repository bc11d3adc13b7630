//! Clusters are created and deleted.

use std::{io::ErrorKind, time::Duration};

use anyhow::Context;
use futures::future::try_join_all;
use nephele_e2e::{
    Look, Management, Scope, Shape,
    manager::{self, Provider},
    slope, until,
};
use tokio::net::TcpStream;

/// Rounds of clusters that are created and deleted, after a first round.
const ROUNDS: usize = 5;
/// Clusters of a round, in parallel.
const LANES: usize = 4;
/// Bytes that a cluster may leave behind. Without a leak these are 14 to 20 KiB, because the journal fills up: it keeps
/// its last 4,096 records, and these clusters write fewer. The test has to find a leak of 40 KiB.
const LEFT_MAX: f64 = 32.0 * 1024.0;
/// How often the manager's memory is read: for six seconds in all.
const LOOKS: u32 = 12;
const LOOK_EVERY: Duration = Duration::from_millis(500);
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

    // The next cluster can have the port.
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
async fn clusters_that_went_leave_no_memory_behind() -> anyhow::Result<()> {
    let management = Management::connect().await?;
    manager::add_arguments(
        &management,
        Provider::Infrastructure,
        &["--insecure-diagnostics=true".to_owned()],
    )
    .await?;
    let scope = Scope::on(management, "memory").await?;
    // The first round shows what is allocated only once, which is not a leak.
    round(&scope, "first").await?;
    let mut allocated = vec![quiet(&scope.management).await?];
    for number in 0..ROUNDS {
        round(&scope, &format!("round-{number}")).await?;
        allocated.push(quiet(&scope.management).await?);
    }
    let left = slope::of(&allocated) / LANES as f64;
    println!("{left:.0} bytes are left of a cluster; allocated after each {LANES}: {allocated:?}");
    assert!(
        left < LEFT_MAX,
        "{left:.0} bytes are left of a cluster; allocated after each {LANES}: {allocated:?}"
    );
    scope.finish().await
}

/// Creates a cluster in each lane, waits for it and deletes it.
async fn round(scope: &Scope, name: &str) -> anyhow::Result<()> {
    try_join_all((0..LANES).map(async |lane| {
        let cluster = scope.plain(&format!("{name}-{lane}"), Shape::new(1, 1)).await?;
        cluster.available().await?;
        cluster.delete().await
    }))
    .await?;
    scope.nothing_is_left().await
}

/// The bytes that the quiet manager has allocated: the minimum of several readings, because work only adds to it.
async fn quiet(management: &Management) -> anyhow::Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..LOOKS {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = manager::allocated_bytes(management, Provider::Infrastructure).await?;
        least = least.min(now as f64);
    }
    Ok(least)
}
