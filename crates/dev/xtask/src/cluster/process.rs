//! Processes that outlive this program, identified by process id and start time.

use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::{
    command::tail,
    wait::{self, LOOK_EVERY, Look},
};

/// The processes of an API server without a node.
pub(super) const CONTROL_PLANE: &[&str] = &[
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];
/// The processes of a cluster without a node, besides the managers of providers.
pub(super) const BARE: &[&str] = &[
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "certificates",
];
/// The processes of a cluster.
pub(super) const ALL: &[&str] = &[
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "containerd",
    "kubelet",
    "kube-proxy",
    "certificates",
];

/// How much garbage the programs, which are in Go, leave before they collect it, in percent of what is in use. Test runs
/// are short of CPU time rather than memory: with Go's own 100, a fifth of the API server's time is garbage collection.
const GOGC: &str = "400";

/// How long a process may take to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Processes {
    pid_files: PathBuf,
    logs: PathBuf,
}

/// A started process. Process ids are reused, but a process id and a start time identify one process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Started {
    pid: i32,
    /// Clock ticks between boot and start (proc_pid_stat(5), field 22).
    start_ticks: u64,
}

impl Processes {
    pub(super) fn new(pid_files: PathBuf, logs: PathBuf) -> anyhow::Result<Self> {
        for folder in [&pid_files, &logs] {
            fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        }
        Ok(Self { pid_files, logs })
    }

    /// Starts a process in its own process group, so that Ctrl-C here does not end it.
    pub(super) fn start(&self, name: &str, command: &mut Command) -> anyhow::Result<()> {
        let log = self.log(name);
        let log = File::create(&log).with_context(|| format!("failed to create {}", log.display()))?;
        let errors = log.try_clone().context("failed to share a log file")?;
        let child = command
            .env("GOGC", GOGC)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .with_context(|| format!("failed to start {name}"))?;
        let pid = i32::try_from(child.id()).context("process id out of range")?;
        let Some(start_ticks) = start_ticks(pid) else {
            bail!("{name} ended at once: {}", self.log_tail(name))
        };
        let text =
            serde_json::to_string(&Started { pid, start_ticks }).context("failed to write a process id")?;
        let file = self.pid_file(name);
        fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))
    }

    /// The processes that were started and not stopped, running or not, sorted by name.
    pub(super) fn names(&self) -> anyhow::Result<Vec<String>> {
        let attempt = || format!("failed to list {}", self.pid_files.display());
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.pid_files).with_context(attempt)? {
            names.extend(entry.with_context(attempt)?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    pub(super) fn is_running(&self, name: &str) -> bool {
        self.running(name).is_some()
    }

    /// Fails with the end of the log when a process is not running.
    pub(super) fn check(&self, name: &str) -> anyhow::Result<()> {
        if self.is_running(name) {
            Ok(())
        } else {
            bail!("{name} is not running: {}", self.log_tail(name))
        }
    }

    /// Terminates a process, kills it if it does not end, and waits until it is gone.
    pub(super) fn stop(&self, name: &str) -> anyhow::Result<()> {
        if let Some(Started { pid, .. }) = self.running(name) {
            let what = format!("{name} (process {pid}) to end");
            signal(pid, Signal::TERM)?;
            let gone = || {
                if self.is_running(name) {
                    Look::NotYet("running".to_owned())
                } else {
                    Look::Done(())
                }
            };
            if wait::until(&what, PATIENCE, LOOK_EVERY, || Ok(gone())).is_err() {
                signal(pid, Signal::KILL)?;
                wait::until(&what, PATIENCE, LOOK_EVERY, || Ok(gone()))?;
            }
        }
        match fs::remove_file(self.pid_file(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("failed to forget {name}"))
            }
            _ => Ok(()),
        }
    }

    /// The last lines a process logged.
    pub(super) fn log_tail(&self, name: &str) -> String {
        let log = fs::read(self.log(name)).unwrap_or_default();
        tail(String::from_utf8_lossy(&log).trim(), 2000).to_owned()
    }

    fn running(&self, name: &str) -> Option<Started> {
        let text = fs::read_to_string(self.pid_file(name)).ok()?;
        let started: Started = serde_json::from_str(&text).ok()?;
        (start_ticks(started.pid) == Some(started.start_ticks)).then_some(started)
    }

    fn pid_file(&self, name: &str) -> PathBuf {
        self.pid_files.join(name)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }
}

/// Sends a signal. Succeeds if the process is already gone.
pub(super) fn signal(pid: i32, signal: Signal) -> anyhow::Result<()> {
    let pid = Pid::from_raw(pid).context("not a process id")?;
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("failed to signal process {pid:?}")),
    }
}

/// When a process started; `None` if it has ended, even if it is a zombie.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    parse_start_ticks(&stat)
}

fn parse_start_ticks(stat: &str) -> Option<u64> {
    // The second field is the program's name in parentheses, and may itself contain spaces and parentheses.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    if state == "Z" {
        None
    } else {
        fields.nth(18)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_read_past_any_name() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 8765 1 1";
        assert_eq!(parse_start_ticks(stat), Some(8765));
    }

    #[test]
    fn a_process_that_ended_has_no_start_time() {
        let stat = "42 (a) Z 1 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 8765 1 1";
        assert_eq!(parse_start_ticks(stat), None);
    }

    #[test]
    fn a_process_is_found_again_stopped_and_forgotten() {
        let folder = std::env::temp_dir().join(format!("nephele-xtask-{}", std::process::id()));
        let processes = Processes::new(folder.join("pid"), folder.join("log")).expect("writable");
        processes
            .start("sleep", Command::new("sleep").arg("600"))
            .expect("starts");
        assert!(processes.is_running("sleep"));
        assert_eq!(processes.names().expect("readable"), ["sleep"]);
        processes.stop("sleep").expect("stops");
        assert!(!processes.is_running("sleep"));
        assert!(processes.check("sleep").is_err());
        fs::remove_dir_all(folder).expect("removable");
    }
}
