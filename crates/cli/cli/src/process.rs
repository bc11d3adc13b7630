//! Threads, signals and the cryptography provider of the process.

use std::{process::ExitCode, thread::available_parallelism};

use anyhow::Context;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code of what a signal ended: 128 plus the number of SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// Runs a command until it ends. SIGTERM and SIGINT cancel its token; a second signal ends the process at once.
pub(crate) fn block_on<F>(command: impl FnOnce(CancellationToken) -> F) -> anyhow::Result<ExitCode>
where
    F: Future<Output = anyhow::Result<ExitCode>>,
{
    raise_open_files();
    // An error means that a provider is installed already, which is fine.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // The work is many small tasks that mostly wait. Two to four threads serve thousands of clusters, and each
    // thread costs memory in the allocator.
    let threads = available_parallelism().map_or(2, usize::from).clamp(2, 4);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .context("failed to start the runtime")?;
    let result = runtime.block_on(async {
        let shutdown = CancellationToken::new();
        cancel_on_signal(shutdown.clone())?;
        command(shutdown).await
    });
    // Do not wait for blocking tasks, such as a name lookup.
    runtime.shutdown_background();
    result
}

/// Raises the limit of open files to the most that this process may have, as Go programs do when they start: the usual
/// limit of 1,024, or 256 on macOS, is only a default for programs that use `select`. Each workload cluster needs a
/// listener and some twelve connections of Cluster API's controllers, so 1,024 files serve some 75 clusters.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // macOS refuses more than this, also where it says that there is no limit.
    const OPEN_MAX: u64 = 10_240;
    let usual = limit.maximum.map_or(OPEN_MAX, |most| most.min(OPEN_MAX));
    let raised = |current| {
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current,
                maximum: limit.maximum,
            },
        )
    };
    // With the old limit, fewer clusters work, and the error says so.
    if raised(limit.maximum).is_err() && limit.current.is_some_and(|current| current < usual) {
        let _ = raised(Some(usual));
    }
}

/// Runs a command that has nothing to put in order at the end. The first SIGTERM or SIGINT ends it.
pub(crate) fn block_on_interruptible(
    command: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    block_on(|shutdown| async move {
        shutdown
            .run_until_cancelled(command)
            .await
            .unwrap_or(Ok(ExitCode::from(INTERRUPTED)))
    })
}

fn cancel_on_signal(shutdown: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if shutdown.is_cancelled() {
                std::process::exit(INTERRUPTED.into());
            }
            shutdown.cancel();
        }
    });
    Ok(())
}
