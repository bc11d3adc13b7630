//! Commands of the program against a running Nephele.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use rustix::process::Pid;
use tokio::sync::oneshot;

use crate::{
    nephele::Nephele,
    output::Tail,
    process::{self, Ended},
};

/// They would lead requests for this machine elsewhere.
const PROXIES: [&str; 6] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
];

/// Why a command of the program has not succeeded.
#[derive(thiserror::Error)]
pub enum CommandError {
    /// The program refuses or fails.
    #[error("failed to run {} ({status}): {}", line(arguments), said(stderr))]
    Failed {
        /// Those of the command, without the program.
        arguments: Vec<OsString>,
        /// The exit code, or the signal that ended the program.
        status: ExitStatus,
        /// The end of what the program said.
        stderr: String,
    },
    /// The program cannot be run.
    #[error("failed to run {}", line(arguments))]
    Run {
        /// Those of the command, without the program.
        arguments: Vec<OsString>,
        source: io::Error,
    },
    /// Nephele has ended before or meanwhile.
    #[error("failed to run {}: nephele has ended", line(arguments))]
    Ended {
        /// Those of the command, without the program.
        arguments: Vec<OsString>,
        source: Ended,
    },
    /// `fault add` does not name a Fault that is in force.
    #[error("failed to find the Fault in what `nephele fault add` says: {said}")]
    NoFault {
        /// What the program printed instead of a name.
        said: String,
    },
    /// A line of the journal is not a record.
    #[error("failed to read record {number} of the journal")]
    Record {
        /// Its place in what the program printed, from 1.
        number: usize,
        source: serde_json::Error,
    },
}
crate::debug::in_words!(CommandError);

impl Nephele {
    /// Runs a command of the program against this Nephele, and returns what it prints: every command of the book that
    /// takes a kubeconfig, with all its flags.
    ///
    /// ```no_run
    /// # async fn run(nephele: nepheletest::Nephele) -> Result<(), nepheletest::CommandError> {
    /// let machines = nephele.run(["get", "machines"]).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The program is the one that runs as Nephele, and `KUBECONFIG` names [`kubeconfig`](Self::kubeconfig). Proxies of
    /// the environment are left out. The command is killed when its future is dropped, and as soon as Nephele ends.
    ///
    /// # Errors
    ///
    /// When the program refuses or fails, in its words, and when Nephele ends.
    pub async fn run(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<String, CommandError> {
        let arguments: Vec<OsString> = arguments
            .into_iter()
            .map(|argument| argument.as_ref().to_owned())
            .collect();
        let command = command(self.program(), self.kubeconfig(), &arguments);
        let finished = tokio::select! {
            finished = finish(command) => Some(finished),
            _ = self.process().ended() => None,
        };
        match finished {
            Some(Err(source)) => Err(CommandError::Run { arguments, source }),
            Some(Ok(Finished { status, stdout, .. })) if status.success() => Ok(stdout),
            Some(Ok(Finished { status, stderr, .. })) if !self.process().has_ended() => {
                Err(CommandError::Failed {
                    arguments,
                    status,
                    stderr,
                })
            }
            Some(Ok(_)) | None => Err(CommandError::Ended {
                arguments,
                source: self.process().ended().await,
            }),
        }
    }

    /// Runs a command with flags.
    pub(crate) async fn run_with(&self, command: &[&str], flags: &[&str]) -> Result<String, CommandError> {
        self.run(command.iter().chain(flags)).await
    }
}

fn command(program: &Path, kubeconfig: &Path, arguments: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", kubeconfig);
    for proxy in PROXIES {
        command.env_remove(proxy);
    }
    command
}

/// A command that is over.
struct Finished {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

/// Kills a command that is not over.
struct KilledOnDrop(Arc<Mutex<Child>>);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // With an error it has ended.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }
}

/// Runs a command to its end. Threads look after it, because tokio's own processes need a feature that others do not.
async fn finish(mut command: Command) -> io::Result<Finished> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let pid = Pid::from_child(&child);
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let child = Arc::new(Mutex::new(child));
    let _killed = KilledOnDrop(child.clone());
    let (sender, finished) = oneshot::channel();
    thread::spawn(move || {
        let tail = Tail::default();
        let errors = stderr.map(|text| {
            let tail = tail.clone();
            thread::spawn(move || tail.read(text))
        });
        let mut printed = Vec::new();
        let read = stdout.map_or(Ok(0), |mut text| text.read_to_end(&mut printed));
        if let Some(errors) = errors {
            // A reader that has panicked has no more to say.
            let _ = errors.join();
        }
        let status = process::status(pid, &child);
        // Without a receiver the command is not wanted any more.
        let _ = sender.send(read.and(status).map(|status| Finished {
            status,
            stdout: String::from_utf8_lossy(&printed).into_owned(),
            stderr: tail.text(),
        }));
    });
    // Only a thread that has panicked sends nothing.
    finished
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// What a developer would type.
fn line(arguments: &[OsString]) -> String {
    let is_plain = |argument: &str| {
        let is_harmless = |char: char| char.is_ascii_alphanumeric() || "-_./:=,@%+".contains(char);
        !argument.is_empty() && argument.chars().all(is_harmless)
    };
    let mut line = "`nephele".to_owned();
    for argument in arguments {
        let argument = argument.to_string_lossy();
        line.push(' ');
        if is_plain(&argument) {
            line.push_str(&argument);
        } else {
            line.extend(["'", &argument.replace('\'', r"'\''"), "'"]);
        }
    }
    line.push('`');
    line
}

/// What the program says, without the word that our error begins with.
fn said(stderr: &str) -> &str {
    let said = stderr.trim();
    let said = said.strip_prefix("Error: ").unwrap_or(said);
    said.strip_prefix("error: ").unwrap_or(said)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tokio::time::timeout;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn command_that_is_over_has_said_all() {
        let finished = finish(shell("echo one; echo two; echo three >&2; exit 3"))
            .await
            .unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!(
            (finished.stdout.as_str(), finished.stderr.as_str()),
            ("one\ntwo\n", "three\n")
        );
    }

    #[tokio::test]
    async fn command_that_is_dropped_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let script = format!("echo $$ > {}; exec sleep 60", path.display());
        let started = Instant::now();
        assert!(
            timeout(Duration::from_millis(200), finish(shell(&script)))
                .await
                .is_err()
        );
        let pid = std::fs::read_to_string(&path).unwrap();
        let is_running = || {
            let mut kill = Command::new("kill");
            let kill = kill.args(["-0", pid.trim()]).stderr(Stdio::null());
            kill.status().unwrap().success()
        };
        while is_running() {
            assert!(started.elapsed() < Duration::from_secs(20), "{pid} runs");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    #[test]
    fn proxies_are_left_out() {
        let command = command(
            Path::new("nephele"),
            Path::new("/a/kubeconfig"),
            &["clock".into()],
        );
        let removed: Vec<_> = command
            .get_envs()
            .filter_map(|(name, value)| value.is_none().then_some(name))
            .collect();
        assert_eq!(removed.len(), PROXIES.len());
        let kubeconfig = command.get_envs().find(|(name, _)| *name == "KUBECONFIG");
        assert_eq!(kubeconfig.unwrap().1, Some(OsStr::new("/a/kubeconfig")));
    }

    #[test]
    fn line_can_be_typed() {
        let arguments = ["fault", "add", "fail: {reason: 'Timeout'}", ""].map(OsString::from);
        assert_eq!(
            line(&arguments),
            r"`nephele fault add 'fail: {reason: '\''Timeout'\''}' ''`"
        );
    }
}
