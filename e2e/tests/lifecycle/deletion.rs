//! Clusters are created and deleted.

use std::{io::ErrorKind, time::Duration};

use anyhow::Context;
use nephele_e2e::{Look, Scope, Shape, until};
use tokio::net::TcpStream;

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
