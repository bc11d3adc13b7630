//! Commands of documents, as a shell runs them that a user has pasted them into.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context, bail};

use crate::{Look, program, until, wait::LIMIT};

/// A shell in an empty folder of its own, which is removed when this is dropped.
pub struct Shell {
    folder: PathBuf,
    environment: Vec<(String, OsString)>,
}

impl Shell {
    /// A shell in a folder with this name among temporary ones.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("nephele-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        // Otherwise clusterctl asks GitHub for a newer version of itself.
        let environment = vec![("CLUSTERCTL_DISABLE_VERSIONCHECK".to_owned(), "true".into())];
        Ok(Self { folder, environment })
    }

    /// Lets commands find a program as `nephele`, before all others.
    ///
    /// # Errors
    ///
    /// When it cannot be linked.
    pub fn with_nephele(self, program: impl AsRef<Path>) -> anyhow::Result<Self> {
        let folder = self.programs();
        fs::create_dir_all(&folder).context("failed to create a folder for programs")?;
        symlink(program, folder.join("nephele")).context("failed to link our program")?;
        let rest = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{rest}", folder.display());
        Ok(self.with("PATH", path))
    }

    /// The folder whose programs commands find first after [`Shell::with_nephele`].
    #[must_use]
    pub fn programs(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// Sets a variable for all commands.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// The folder in which commands run.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn command(&self, text: &str) -> Command {
        let mut shell = Command::new("bash");
        shell
            .args(["-o", "pipefail", "-euc", text])
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        shell.envs(self.environment.iter().map(|(name, value)| (name, value)));
        shell
    }

    /// Runs commands to their end and returns their output.
    ///
    /// # Errors
    ///
    /// When one of them fails, with what it said.
    pub async fn run(&self, text: &str) -> anyhow::Result<String> {
        program::output(text, self.command(text)).await
    }

    /// Runs commands to their end and returns what a person sees in the terminal: also what they say about errors.
    ///
    /// # Errors
    ///
    /// When one of them fails, of commands in a pipe the last one, with what they said.
    pub async fn show(&self, text: &str) -> anyhow::Result<String> {
        // A person's shell has no `pipefail`, and `head` ends the command before it.
        let shown = format!("exec 2>&1\nset +o pipefail\n{text}");
        program::output(text, self.command(&shown)).await
    }

    /// Starts a command that runs on. It is killed when the result is dropped.
    ///
    /// # Errors
    ///
    /// When there is no shell.
    pub fn start(&self, text: &str) -> anyhow::Result<Started> {
        // The command takes the place of the shell, so that signals reach it.
        let mut command = self.command(&format!("exec {text}"));
        // A command with --json ends with its standard input.
        let process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Ok(Started {
            process: process.with_context(|| format!("failed to start {text}"))?,
        })
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // What is left there does no harm.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A command that runs.
pub struct Started {
    process: Child,
}

impl Started {
    /// Interrupts the command, as Ctrl-C does, and waits for its end.
    ///
    /// # Errors
    ///
    /// When it does not end.
    pub async fn interrupt(mut self) -> anyhow::Result<ExitStatus> {
        let pid = self.process.id().to_string();
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .context("failed to interrupt a command")?;
        until("an interrupted command to end", LIMIT, async || {
            let status = self.process.try_wait().context("failed to wait for a command")?;
            Ok(status.map_or_else(|| Look::NotYet("it runs".to_owned()), Look::Done))
        })
        .await
    }

    /// Fails when the command has ended.
    ///
    /// # Errors
    ///
    /// With its status.
    pub fn still_runs(&mut self) -> anyhow::Result<()> {
        match self.process.try_wait().context("failed to wait for a command")? {
            Some(status) => bail!("it ended: {status}"),
            None => Ok(()),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_that_fails_ends_the_text_with_what_it_said() {
        let shell = Shell::new("shell-test").expect("a folder").with("WORD", "set");
        assert_eq!(
            shell
                .run("echo $WORD | cat\npwd >/dev/null")
                .await
                .expect("it works"),
            "set\n"
        );
        let error = shell
            .run("echo before; (echo why >&2; false) | cat; echo after")
            .await;
        let error = error.expect_err("it fails").to_string();
        assert!(error.ends_with(": exit status: 1: why\nbefore\n"), "{error}");
    }
}
