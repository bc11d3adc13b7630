//! The commands that `helm install` prints, run by a shell as they are printed.

use std::{
    env::temp_dir,
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, bail};
use nephele_e2e::{Look, until, wait::LIMIT};

use super::chart::{helm, kubectl};

/// Indents commands in the notes.
const INDENT: &str = "     ";
/// The cluster of the commands.
const CLUSTER: &str = "demo";

/// Creates a cluster with the commands, reaches it and deletes it.
pub(crate) async fn create_and_reach_a_cluster() -> anyhow::Result<()> {
    let notes = helm("get", &["notes"]).await?;
    let shell = Shell::new()?;
    let mut forward = None;
    let commands = commands(&notes);
    for command in &commands {
        if command.contains("port-forward") {
            forward = Some(shell.start(command)?);
        } else if command.contains("get nodes") {
            until("the Nodes by the commands of the notes", LIMIT, async || {
                Ok(match shell.run(command).await {
                    Ok(nodes) => Look::when(nodes.matches(" Ready ").count() == 2, || nodes),
                    Err(error) => Look::NotYet(format!("{error:#}")),
                })
            })
            .await?;
        } else {
            shell.run(command).await?;
        }
    }
    let reached = forward.is_some() && commands.iter().any(|command| command.contains("get nodes"));
    assert!(reached, "the notes do not lead to a cluster:\n{notes}");
    kubectl(&["delete", "cluster", CLUSTER]).await.map(drop)
}

/// The commands of the notes, each on one line.
fn commands(notes: &str) -> Vec<String> {
    let joined = notes.replace("\\\n", " ");
    joined.lines().filter_map(|line| line.strip_prefix(INDENT)).map(str::to_owned).collect()
}

/// A shell in a folder of its own.
struct Shell {
    folder: PathBuf,
}

impl Shell {
    fn new() -> anyhow::Result<Self> {
        let folder = temp_dir().join(format!("nephele-notes-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        Ok(Self { folder })
    }

    fn command(&self, line: &str) -> Command {
        let mut shell = Command::new("bash");
        shell.args(["-o", "pipefail", "-euc", line]).current_dir(&self.folder);
        shell.env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true");
        shell
    }

    /// Runs a line to its end and returns its output.
    async fn run(&self, line: &str) -> anyhow::Result<String> {
        let mut command = self.command(line);
        let output = tokio::task::spawn_blocking(move || command.output()).await.context("given up")?;
        let output = output.with_context(|| format!("failed to run {line}"))?;
        if !output.status.success() {
            bail!("{line}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        String::from_utf8(output.stdout).with_context(|| format!("the output of {line} is not text"))
    }

    /// Starts a line that runs until the result is dropped.
    fn start(&self, line: &str) -> anyhow::Result<Started> {
        // The last program takes the place of the shell, so that killing the process ends it.
        let mut command = self.command(&format!("exec {line}"));
        let process = command.stdout(Stdio::null()).spawn();
        Ok(Started(process.with_context(|| format!("failed to start {line}"))?))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // What is left there harms nobody.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_several_lines_is_one() {
        let notes = "Installed.\n\n     one \\\n       two | three\n\n   Text.\n     four\n";
        assert_eq!(commands(notes), ["one         two | three", "four"]);
    }
}
