//! Standard input as a life line: it closes when the process that started this one ends, however that happens.

use std::{
    io::{ErrorKind, Read as _},
    thread,
};

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

/// Why a run ends before it has printed what it was started for.
#[derive(Debug, thiserror::Error)]
#[error(
    "standard input has ended before all Clusters were available, and --json ends with it; keep it open, in a script \
     for example with `sleep 3600 | nephele up --json …`, or leave out --json"
)]
pub(super) struct EndedEarly;

/// Cancels `end` at the end of standard input. The read blocks a thread of its own, which nothing waits for, so the
/// process can end for other reasons.
pub(super) fn cancel_at_end_of_input(end: CancellationToken) -> anyhow::Result<()> {
    let read = move || {
        let mut ignored = [0; 1024];
        let mut input = std::io::stdin().lock();
        loop {
            match input.read(&mut ignored) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        end.cancel();
    };
    let thread = thread::Builder::new()
        .name("standard input".to_owned())
        .spawn(read);
    thread
        .map(drop)
        .context("failed to start the thread that reads standard input")
}
