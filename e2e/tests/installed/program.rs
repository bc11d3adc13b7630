//! Our program, as people run it.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, ensure};
use nephele_e2e::{Look, kubectl, until, wait::LIMIT};

use super::clusterctl::run;

/// Runs the program to its end and returns its output.
pub(crate) async fn nephele(arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = program()?;
    command.args(arguments);
    run(command).await
}

fn program() -> anyhow::Result<Command> {
    let program = std::env::var_os("NEPHELE_PROGRAM")
        .context("NEPHELE_PROGRAM is not set: run cargo xtask installed")?;
    Ok(Command::new(program))
}

/// `nephele connect`, which is killed when a test fails.
pub(crate) struct Connected {
    process: Child,
    folder: PathBuf,
}

impl Connected {
    /// Connects to the clusters of a namespace.
    pub(crate) fn start(namespace: &str) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("nephele-connect-{namespace}"));
        let mut command = program()?;
        command.args(["connect", "--all", "--namespace", namespace, "--folder"]).arg(&folder);
        let process = command.stdin(Stdio::null()).spawn().context("failed to start nephele connect")?;
        Ok(Self { process, folder })
    }

    /// The Nodes of a cluster, one a line, as soon as this many are ready.
    pub(crate) async fn ready_nodes(&mut self, name: &str, number: usize) -> anyhow::Result<String> {
        let file = self.folder.join(format!("{name}.kubeconfig"));
        until(&format!("{number} Nodes to be ready"), LIMIT, async || {
            let ended = self.process.try_wait().context("failed to check nephele connect")?;
            ensure!(ended.is_none(), "nephele connect ended: {ended:?}");
            let Ok(kubeconfig) = fs::read_to_string(&file) else {
                return Ok(Look::NotYet("there is no kubeconfig yet".to_owned()));
            };
            let nodes = kubectl::run(&kubeconfig, &["get", "nodes", "--no-headers"]).await;
            let nodes = nodes.unwrap_or_else(|error| format!("{error:#}"));
            let ready = nodes.lines().filter(|line| line.split_whitespace().nth(1) == Some("Ready")).count();
            Ok(if ready == number { Look::Done(nodes) } else { Look::NotYet(nodes) })
        })
        .await
    }

    /// Interrupts it. It ends with success and removes its kubeconfigs.
    pub(crate) async fn interrupt(mut self) -> anyhow::Result<()> {
        let pid = self.process.id().to_string();
        Command::new("kill").args(["-INT", &pid]).status().context("failed to interrupt nephele connect")?;
        let status = until("nephele connect to end", LIMIT, async || {
            let status = self.process.try_wait().context("failed to check nephele connect")?;
            Ok(status.map_or_else(|| Look::NotYet("it runs".to_owned()), Look::Done))
        })
        .await?;
        ensure!(status.success(), "nephele connect ended: {status}");
        ensure!(!self.folder.exists(), "its kubeconfigs are left");
        Ok(())
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
