//! A running Nephele.

use std::{
    fmt,
    fs::File,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use kube::{Client, Config, config::Kubeconfig};
use tokio::{sync::oneshot, time::timeout};

use crate::{
    cluster::{self, Cluster, ClusterError},
    log,
    process::{Ended, Process, STOP_MAX},
    program::{self, Program},
    report::Report,
    settings::Settings,
    start_error::StartError,
    unnamed::UnnamedFiles,
};

/// What a start may take beyond the time limit for Clusters: an attached API server may take 15 s until it serves our
/// definitions.
const START_MARGIN: Duration = Duration::from_secs(30);

/// What the managers of providers, and an API server for them, may take on top of that.
const PROVIDERS_MARGIN: Duration = Duration::from_secs(150);

/// A running `nephele up`: a management API, and the workload clusters that it describes. It ends with
/// [`stop`](Self::stop), or soon after it is dropped.
pub struct Nephele {
    process: Process,
    program: PathBuf,
    report: Report,
    config: Config,
    kubeconfig: PathBuf,
    wait_limit: Duration,
}

/// Why Nephele has not ended well.
#[derive(thiserror::Error)]
pub enum StopError {
    /// It had ended before.
    #[error("nephele ended before the test")]
    Early(#[source] Ended),
    /// It did not end by itself, and was killed.
    #[error("failed to end nephele within {STOP_MAX:?} after its standard input closed; it was killed")]
    Killed(#[source] io::Error),
    /// It ended with an error.
    #[error("failed to end nephele in an orderly way")]
    Disorderly(#[source] Ended),
}
crate::debug::in_words!(StopError);

impl Nephele {
    pub(crate) async fn start(settings: Settings) -> Result<Self, StartError> {
        if settings.stand_in && settings.attach.is_none() {
            return Err(StartError::StandInWithoutAttach);
        }
        let attach = settings.attach.clone();
        let wait_limit = settings.wait_limit;
        let (mut process, program, report) = launch(settings).await?;
        match connect(&report, attach).await {
            Ok((config, kubeconfig)) => Ok(Self {
                process,
                program,
                report,
                config,
                kubeconfig,
                wait_limit,
            }),
            Err(error) => {
                // The first error is the one to show.
                let _ = process.end().await;
                Err(error)
            }
        }
    }

    /// Ends Nephele, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// When Nephele ended before, or does not end well.
    pub async fn stop(mut self) -> Result<(), StopError> {
        if self.process.has_ended() {
            return Err(StopError::Early(self.process.ended().await));
        }
        self.process.end().await.map_err(StopError::Killed)?;
        self.process
            .failure()
            .map_or(Ok(()), |ended| Err(StopError::Disorderly(ended)))
    }

    /// How clients reach the management API.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// A new client of the management API, for the runtime that calls this.
    ///
    /// # Errors
    ///
    /// When kube cannot use the [`config`](Self::config).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn client(&self) -> kube::Result<Client> {
        Client::try_from(self.config.clone())
    }

    /// The path of a kubeconfig for the management API, for other programs such as kubectl.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Has kubeconfigs, log and journal. It is removed at the end, unless [`Builder::folder`](crate::Builder::folder) names
    /// it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.report.folder
    }

    /// The path of Nephele's log. The environment variable `RUST_LOG` sets what it contains.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.report.log
    }

    /// The path of the journal of the simulated cloud: every call and every event.
    #[must_use]
    pub fn journal(&self) -> &Path {
        &self.report.journal
    }

    /// The address of the live page, which shows the clusters in a browser until Nephele ends. None if there is none.
    #[must_use]
    pub fn page(&self) -> Option<&str> {
        self.report.page.as_deref()
    }

    /// The number of the process.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Finds a workload cluster whose API server is up, also one that was created after the start.
    ///
    /// # Errors
    ///
    /// When there is no such cluster, or when its API server is not up yet.
    pub async fn cluster(&self, namespace: &str, name: &str) -> Result<Cluster, ClusterError> {
        Cluster::find(&self.config, self.folder(), namespace, name).await
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn wait_limit(&self) -> Duration {
        self.wait_limit
    }
}

impl fmt::Debug for Nephele {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Nephele")
            .field("folder", &self.report.folder)
            .finish_non_exhaustive()
    }
}

/// The fields close the life line.
impl Drop for Nephele {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(
                clippy::print_stderr,
                reason = "the output of a failed test is where its developer looks"
            )]
            {
                eprintln!("{}", log::describe(self.log()).trim_start());
            }
        }
    }
}

/// Starts the program and waits until it is up. Returns its path, too.
async fn launch(mut settings: Settings) -> Result<(Process, PathBuf, Report), StartError> {
    let Program {
        path: program,
        origin,
    } = Program::find(settings.program.take());
    let margin = if settings.providers.is_empty() {
        START_MARGIN
    } else {
        START_MARGIN + PROVIDERS_MARGIN
    };
    let limit = settings.time_limit.saturating_add(margin);
    // Until the program is up: then it has its own copies.
    let mut unnamed = UnnamedFiles::default();
    let mut command = Command::new(&program);
    command.args(program::arguments(settings, &mut unnamed)?);
    let spawned = Process::spawn(command, unnamed.names());
    let spawned = spawned.map_err(|source| StartError::Program {
        program: program.clone(),
        origin,
        source,
    });
    let (mut process, line) = spawned?;
    let up = match timeout(limit, up(&process, line)).await {
        Ok(Ok(line)) => Report::parse(&line).map_err(|source| StartError::Report {
            program: program.clone(),
            source,
        }),
        Ok(Err(ended)) => Err(StartError::Ended(ended)),
        Err(_elapsed) => Err(StartError::Time {
            limit,
            said: process.said(),
        }),
    };
    match up {
        Ok(report) => Ok((process, program, report)),
        Err(error) => {
            // The first error is the one to show.
            let _ = process.end().await;
            Err(error)
        }
    }
}

async fn up(process: &Process, line: oneshot::Receiver<Vec<u8>>) -> Result<Vec<u8>, Ended> {
    match line.await {
        Ok(line) => Ok(line),
        Err(_closed) => Err(process.ended().await),
    }
}

/// Prepares the access to the management API.
async fn connect(report: &Report, attach: Option<Kubeconfig>) -> Result<(Config, PathBuf), StartError> {
    let (path, kubeconfig) = match attach {
        None => {
            let path = report.management.kubeconfig.clone();
            (
                path.clone(),
                Kubeconfig::read_from(&path).map_err(StartError::Kubeconfig)?,
            )
        }
        Some(kubeconfig) => {
            // The program read it from a file without a name. Other programs need one with a name.
            let path = report.folder.join("management.kubeconfig");
            let written = serde_json::to_vec(&kubeconfig).map_err(io::Error::from);
            let written = written.and_then(|content| write_private(&path, &content));
            written.map_err(|source| StartError::File {
                path: path.clone(),
                source,
            })?;
            (path, kubeconfig)
        }
    };
    let config = cluster::without_environment(kubeconfig).await;
    Ok((config.map_err(StartError::Kubeconfig)?, path))
}

fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?
        .write_all(content)
}
