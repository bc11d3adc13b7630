//! Threads, signals and the cryptography provider of the process.

use std::{process::ExitCode, thread::available_parallelism};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code of what a signal ended: 128 plus the number of SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// Runs a command until it ends. SIGTERM and SIGINT cancel its token; a second signal ends the process at once.
pub(crate) fn block_on<F>(command: impl FnOnce(CancellationToken) -> F) -> anyhow::Result<ExitCode>
where
    F: Future<Output = anyhow::Result<ExitCode>>,
{
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

/// Runs a command that has nothing to put in order at the end. The first SIGTERM or SIGINT ends it.
pub(crate) fn block_on_interruptible(
    command: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    block_on(|shutdown| async move {
        shutdown.run_until_cancelled(command).await.unwrap_or(Ok(ExitCode::from(INTERRUPTED)))
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
