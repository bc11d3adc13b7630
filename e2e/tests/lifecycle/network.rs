//! The program where the network is poor: only IPv6, a proxy that does not answer, few open files, no kubeconfig.

use std::{env, fs};

use anyhow::Context as _;
use nephele_e2e::shell::Shell;
use serde_json::Value;

/// A network of its own that has only ::1, and what else may be wrong there.
const POOR: &str = "ip link set lo up && ip addr del 127.0.0.1/8 dev lo && ulimit -Sn 1024 && \
                    export HTTPS_PROXY=http://[::1]:9 KUBECONFIG=missing:also-missing";
const OBJECTS: &str = r"
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: small, namespace: default}
spec:
  topology:
    classRef: {name: in-memory}
    version: v1.36.3
    controlPlane: {replicas: 1}
";

#[tokio::test]
async fn demo_and_up_work_with_only_ipv6_a_dead_proxy_few_files_and_without_a_kubeconfig()
-> anyhow::Result<()> {
    let program = env::var("NEPHELE_PROGRAM").context("run cargo xtask e2e")?;
    let shell = Shell::new("network")?;
    fs::write(shell.folder().join("objects.yaml"), OBJECTS).context("failed to write the objects")?;
    let inside = |command: &str| format!("unshare --net bash -euc '{POOR} && {command}'");
    let demo = shell.run(&inside(&format!("{program} demo --once"))).await?;
    assert!(demo.contains("All clusters are available"), "{demo}");
    // It ends with its standard input.
    let up = shell
        .run(&inside(&format!(
            "sleep 15 | {program} up --json -f objects.yaml"
        )))
        .await?;
    let up: Value = serde_json::from_str(&up).context("the line is not JSON")?;
    for server in [&up["management"]["server"], &up["clusters"][0]["server"]] {
        assert!(
            server
                .as_str()
                .is_some_and(|server| server.starts_with("https://[::1]:")),
            "{up}"
        );
    }
    // A manager asks its own webhooks at 127.0.0.1 whether they are up, so this is refused at once.
    let refused = shell.run(&inside(&format!("{program} up --cluster-api"))).await;
    let refused = refused.expect_err("there is no 127.0.0.1").to_string();
    assert!(refused.contains("this machine has no 127.0.0.1"), "{refused}");
    Ok(())
}
