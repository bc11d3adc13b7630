//! A running `nephele up --json`. Threads look after it, because runtimes of tests come and go.

use std::{
    io,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};

use crate::{
    log,
    output::{self, Tail},
    unnamed::Names,
};

/// How long nephele may take to end. It gives its own tasks 10 s.
pub(crate) const STOP_MAX: Duration = Duration::from_secs(20);

/// A process, which ends when this value is dropped.
pub(crate) struct Process {
    /// The process ends when it closes. The kernel closes it when this process is killed.
    life_line: Option<ChildStdin>,
    /// Until it has ended, so that no other process of the same number is killed.
    child: Arc<Mutex<Child>>,
    exit: watch::Receiver<Option<Exit>>,
    stderr: Tail,
    names: Names,
}

/// How a process ended.
#[derive(Clone)]
struct Exit {
    status: String,
    is_success: bool,
}

/// How Nephele ended, in its own words, with the end of its log.
#[derive(thiserror::Error)]
#[error("{0}")]
pub struct Ended(String);
crate::debug::in_words!(Ended);

impl Ended {
    fn new(said: &str, status: &str) -> Self {
        if said.is_empty() {
            return Self(format!("nephele ended with {status} and said nothing"));
        }
        let log = log::named_in(said).map(|path| log::describe(&path));
        Self(format!("{said} ({status}){}", log.unwrap_or_default()))
    }
}

impl Process {
    /// Starts a process. Its first line is sent as soon as it prints it.
    pub(crate) fn spawn(
        mut command: Command,
        names: Names,
    ) -> io::Result<(Self, oneshot::Receiver<Vec<u8>>)> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let life_line = child.stdin.take();
        let pid = Pid::from_child(&child);
        let (line_sender, line) = oneshot::channel();
        let stderr = Tail::default();
        let mut readers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            readers.push(thread::spawn(move || output::first_line(stdout, line_sender)));
        }
        if let Some(text) = child.stderr.take() {
            let tail = stderr.clone();
            readers.push(thread::spawn(move || tail.read(text)));
        }
        let child = Arc::new(Mutex::new(child));
        let (exit_sender, exit) = watch::channel(None);
        thread::spawn({
            let child = child.clone();
            move || {
                let exit = wait(pid, &child);
                for reader in readers {
                    // A reader that has panicked has no more to say.
                    let _ = reader.join();
                }
                exit_sender.send_replace(Some(exit));
            }
        });
        Ok((
            Self {
                life_line,
                child,
                exit,
                stderr,
                names,
            },
            line,
        ))
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    /// Waits until the process has ended.
    pub(crate) async fn ended(&self) -> Ended {
        let exit = self.exit().await;
        Ended::new(&self.said(), &exit.status)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.exit.borrow().is_some()
    }

    /// Closes the life line and waits. Kills the process when it does not end, and returns an error then.
    pub(crate) async fn end(&mut self) -> io::Result<()> {
        self.life_line = None;
        if timeout(STOP_MAX, self.exit()).await.is_ok() {
            return Ok(());
        }
        self.kill()?;
        self.exit().await;
        Err(io::ErrorKind::TimedOut.into())
    }

    /// How the process ended, if not well.
    pub(crate) fn failure(&self) -> Option<Ended> {
        let exit = self.exit.borrow().clone()?;
        (!exit.is_success).then(|| Ended::new(&self.said(), &exit.status))
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).kill()
    }

    /// The end of what the process printed for people.
    pub(crate) fn said(&self) -> String {
        let said = self.stderr.text();
        let said = said.trim();
        self.names.replace(said.strip_prefix("Error: ").unwrap_or(said))
    }

    async fn exit(&self) -> Exit {
        let mut exit = self.exit.clone();
        match exit.wait_for(Option::is_some).await.map(|exit| exit.clone()) {
            Ok(Some(exit)) => exit,
            // Only a thread that has panicked sends nothing.
            Ok(None) | Err(_) => Exit {
                status: "an unknown status".to_owned(),
                is_success: false,
            },
        }
    }
}

/// Waits outside of the lock, so that the process can be killed meanwhile.
pub(crate) fn status(pid: Pid, child: &Mutex<Child>) -> io::Result<ExitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    // With another error the wait that follows has the same one.
    while waitid(WaitId::Pid(pid), options).is_err_and(|error| error == rustix::io::Errno::INTR) {}
    child.lock().unwrap_or_else(PoisonError::into_inner).wait()
}

fn wait(pid: Pid, child: &Mutex<Child>) -> Exit {
    match status(pid, child) {
        Ok(status) => Exit {
            status: status.to_string(),
            is_success: status.success(),
        },
        Err(error) => Exit {
            status: format!("an unknown status ({error})"),
            is_success: false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_is_told_in_the_words_of_the_program() {
        let ended = Ended::new("failed to read a.yaml (--file): no such file", "exit status: 1");
        assert_eq!(
            ended.to_string(),
            "failed to read a.yaml (--file): no such file (exit status: 1)"
        );
        let ended = Ended::new("", "signal: 9 (SIGKILL)");
        assert_eq!(
            ended.to_string(),
            "nephele ended with signal: 9 (SIGKILL) and said nothing"
        );
    }

    #[tokio::test]
    async fn process_ends_when_its_life_line_closes() {
        let (mut process, line) = Process::spawn(Command::new("cat"), Names::default()).unwrap();
        assert!(!process.has_ended());
        process.end().await.unwrap();
        assert!(process.failure().is_none());
        assert!(line.await.is_err());
    }

    #[tokio::test]
    async fn end_of_a_process_has_what_it_said_last() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first; echo second; echo Error: broken >&2; exit 3"]);
        let (process, line) = Process::spawn(command, Names::default()).unwrap();
        assert_eq!(line.await.unwrap(), b"first\n");
        assert_eq!(process.ended().await.to_string(), "broken (exit status: 3)");
    }
}
