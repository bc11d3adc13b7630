//! Clusters are deleted, and created again.

use std::{io::ErrorKind, time::Duration};

use anyhow::Context;
use nephele_e2e::{Cluster, Look, Scope, Shape, until};
use serde_json::json;
use tokio::net::TcpStream;

const SETTLE_LIMIT: Duration = Duration::from_secs(60);
/// The last port of the manager, which no cluster of another test gets: the lowest free port is handed out.
const PORT: u16 = 29_999;

#[tokio::test]
async fn port_of_a_deleted_cluster_is_free() -> anyhow::Result<()> {
    let scope = Scope::new("port").await?;
    let first = with_the_port(&scope, "first").await?;
    let (host, port) = first.endpoint().await?;
    assert_eq!(port, PORT);
    TcpStream::connect((host.as_str(), port))
        .await
        .context("the API server does not listen")?;

    first.delete().await?;
    scope.nothing_is_left().await?;
    until("the port to be closed", SETTLE_LIMIT, async || {
        Ok(match TcpStream::connect((host.as_str(), port)).await {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        })
    })
    .await?;

    let second = with_the_port(&scope, "second").await?;
    assert_eq!(second.endpoint().await?, (host, port));
    scope.finish().await
}

/// An available cluster whose endpoint has the port.
async fn with_the_port(scope: &Scope, name: &str) -> anyhow::Result<Cluster> {
    let cluster = scope
        .plain_with(name, Shape::new(1, 0), |object| {
            if object["kind"] == "InMemoryCluster" {
                object["spec"] = json!({"controlPlaneEndpoint": {"port": PORT}});
            }
        })
        .await?;
    cluster.available().await?;
    Ok(cluster)
}
