//! Processes that end with this one, however it ends.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// How long a process may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of a log an error shows.
const TAIL: u64 = 2_000;

/// How processes are started.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// A program that calls [`become_program`] with what follows its arguments: the id of this process, and then a program
    /// with its arguments.
    pub program: PathBuf,
    /// The arguments with which it does.
    pub arguments: Vec<OsString>,
    /// The folder of logs, each named for its process.
    pub logs: PathBuf,
}

/// A process that ends with this one.
#[derive(Debug)]
pub struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Launcher {
    /// Starts a process, with its output in `NAME.log`. Call it from a thread that lives as long as the process should: on
    /// Linux, the end of that thread ends the process.
    ///
    /// # Errors
    /// When the program or the log cannot be opened.
    pub fn start(
        &self,
        name: &str,
        program: &Path,
        prepare: impl FnOnce(&mut Command),
    ) -> anyhow::Result<Process> {
        let log = self.logs.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("failed to create {}", log.display()))?;
        let errors = file.try_clone().context("failed to share a log file")?;
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .arg(std::process::id().to_string())
            .arg(program);
        prepare(&mut command);
        let child = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            // Ctrl-C is for this process, which then stops the others in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("failed to start {name}"))?;
        Ok(Process {
            name: name.to_owned(),
            log,
            child,
        })
    }
}

impl Process {
    /// What it is.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file with its output.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its id; none once it has ended.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Fails with the end of the log if it has ended.
    ///
    /// # Errors
    /// When it has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.ended_with(&status.to_string())),
            Err(error) => Err(self.ended_with(&error.to_string())),
        }
    }

    /// Waits until it ends, which it should not.
    pub async fn ended(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => self.ended_with(&status.to_string()),
            Err(error) => self.ended_with(&error.to_string()),
        }
    }

    fn ended_with(&self, status: &str) -> anyhow::Error {
        anyhow!(
            "{} has ended with {status}; its log {} ends with: {}",
            self.name,
            self.log.display(),
            tail(&self.log)
        )
    }

    /// Terminates it, and kills it if it does not end.
    pub async fn stop(&mut self) {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(id) = id
            && kill_process(id, Signal::TERM).is_ok()
            && timeout(PATIENCE, self.child.wait()).await.is_ok()
        {
            return;
        }
        self.kill().await;
    }

    /// Kills it.
    pub async fn kill(&mut self) {
        // It has ended already, or it ends now.
        drop(self.child.kill().await);
    }
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    // A log may be long, and a message that cannot be read says nothing.
    let read = || {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut text = Vec::new();
        file.take(TAIL).read_to_end(&mut text)?;
        io::Result::Ok(text)
    };
    String::from_utf8_lossy(&read().unwrap_or_default())
        .trim()
        .to_owned()
}

/// Becomes another program that ends when the parent ends. Returns only with the reason why it did not.
#[must_use]
pub fn become_program(parent: u32, program: &Path, arguments: &[OsString]) -> io::Error {
    if let Err(error) = end_with_parent(parent) {
        return error;
    }
    std::process::Command::new(program).args(arguments).exec()
}

#[cfg(target_os = "linux")]
fn end_with_parent(parent: u32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before.
    let is_there = rustix::process::getppid().is_some_and(|id| id.as_raw_pid().cast_unsigned() == parent);
    if is_there {
        Ok(())
    } else {
        Err(io::Error::other("the process that started this one has ended"))
    }
}

/// Other systems have no such signal: the processes end with a regular end of the parent only.
#[cfg(not(target_os = "linux"))]
fn end_with_parent(_parent: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_end_of_a_log_and_no_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("a.log");
        assert_eq!(tail(&log), "");
        std::fs::write(&log, "short\n").expect("written");
        assert_eq!(tail(&log), "short");
        std::fs::write(&log, format!("{}ä{}\n", "a".repeat(5_000), "b".repeat(1_998))).expect("written");
        assert_eq!(tail(&log), format!("\u{fffd}{}", "b".repeat(1_998)));
    }
}
