//! `nephele connect`: a workload cluster from a machine that does not reach its endpoint.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use nephele_e2e::{Look, Scope, Shape, kubectl, until, wait::LIMIT};

/// The program, which is killed when the test fails.
struct Connected {
    process: Child,
    folder: PathBuf,
}

impl Connected {
    fn start(namespace: &str, cluster: &str) -> anyhow::Result<Self> {
        let program = std::env::var("NEPHELE_PROGRAM").context("NEPHELE_PROGRAM is not set")?;
        let folder = std::env::temp_dir().join(format!("nephele-connect-{namespace}"));
        let mut command = Command::new(program);
        command.args(["connect", cluster, "--namespace", namespace, "--folder"]).arg(&folder);
        let process = command.stdin(Stdio::null()).spawn().context("failed to start nephele connect")?;
        Ok(Self { process, folder })
    }

    /// The kubeconfig that it wrote, as soon as it is there.
    async fn kubeconfig(&mut self, name: &str) -> anyhow::Result<String> {
        let file = self.folder.join(format!("{name}.kubeconfig"));
        until("a kubeconfig", LIMIT, async || {
            if let Some(status) = self.process.try_wait().context("failed to check nephele connect")? {
                return Ok(Look::Done(Err(anyhow::anyhow!("nephele connect ended: {status}"))));
            }
            let text = fs::read_to_string(&file);
            Ok(text.map_or_else(|error| Look::NotYet(error.to_string()), |text| Look::Done(Ok(text))))
        })
        .await?
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn connect_leads_to_a_cluster_until_it_is_interrupted() -> anyhow::Result<()> {
    let scope = Scope::new("connect").await?;
    let cluster = scope.plain("cluster", Shape::new(1, 1)).await?;
    cluster.settled(1, 1).await?;
    let mut connected = Connected::start(&scope.namespace, &cluster.name)?;
    let kubeconfig = connected.kubeconfig(&format!("{}-{}", scope.namespace, cluster.name)).await?;
    assert!(kubeconfig.contains("https://127.0.0.1:"), "{kubeconfig}");
    let nodes = kubectl::run(&kubeconfig, &["get", "nodes", "--no-headers"]).await?;
    assert_eq!(nodes.lines().count(), 2, "{nodes}");

    let pid = connected.process.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().context("failed to interrupt nephele connect")?;
    let status = until("nephele connect to end", LIMIT, async || {
        let status = connected.process.try_wait().context("failed to check nephele connect")?;
        Ok(status.map_or_else(|| Look::NotYet("it runs".to_owned()), Look::Done))
    })
    .await?;
    assert!(status.success(), "{status}");
    assert!(!connected.folder.exists(), "its kubeconfigs are removed");
    scope.finish().await
}
