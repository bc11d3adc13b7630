//! What belongs to a process as a whole: threads, signals, the provider of cryptography.

use std::{process::ExitCode, thread::available_parallelism};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code of a process that was told twice to stop: 128 and the number of SIGINT.
const TOLD_TWICE: i32 = 130;

/// Runs a command until it ends. SIGTERM and SIGINT cancel the token that it is given; a second one ends the process
/// on the spot.
pub(crate) fn block_on<F>(command: impl FnOnce(CancellationToken) -> F) -> anyhow::Result<ExitCode>
where
    F: Future<Output = anyhow::Result<ExitCode>>,
{
    // An error means that there is a provider already, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // The work is many small tasks that mostly wait: two to four threads serve thousands of clusters, and each
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
    // Blocking tasks, such as a name lookup, are not worth waiting for.
    runtime.shutdown_background();
    result
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
                std::process::exit(TOLD_TWICE);
            }
            shutdown.cancel();
        }
    });
    Ok(())
}
