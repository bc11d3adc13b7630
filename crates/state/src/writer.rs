//! The thread that commits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pending::Batch;
use crate::state::{Failure, Shared};

/// Time between two attempts to commit while the file takes nothing. A disk that was full is known to have room a
/// second later at most, and an attempt costs less than a millisecond.
const RETRY: Duration = Duration::from_secs(1);

/// Commits what is pending, again and again, until it is told to close.
pub(crate) fn run(shared: &Shared) {
    while let Some(batch) = next(shared) {
        let started = Instant::now();
        match shared.file.commit(&batch) {
            Ok(()) => {
                shared.observer.committed(started.elapsed(), shared.file.bytes());
                let failed = shared.progress.borrow().failed.clone();
                if failed.is_some() {
                    tracing::info!(path = %shared.file.path().display(), "The state file is written again");
                }
                shared.progress.send_modify(|progress| {
                    progress.committed = batch.sequence;
                    progress.failed = None;
                });
            }
            Err(error) => fail(shared, batch, &error),
        }
    }
    shared.file.close();
    shared.progress.send_modify(|progress| progress.closed = true);
}

/// Waits for something to commit. None when there is nothing more, nor will be.
fn next(shared: &Shared) -> Option<Batch> {
    let mut pending = shared.pending.lock();
    loop {
        if !pending.batch.is_empty() {
            return Some(pending.batch.take());
        }
        if pending.closing {
            return None;
        }
        shared.wake.wait(&mut pending);
    }
}

/// Tells those who wait, and makes ready for another attempt.
fn fail(shared: &Shared, batch: Batch, error: &redb::Error) {
    shared.observer.failed();
    let message: Arc<str> = crate::file::message(error).into();
    let path = shared.file.path().display();
    if shared.progress.borrow().failed.is_none() {
        tracing::error!(%path, error = %message, "Failed to write the state file; trying again until it succeeds");
    }
    let until = batch.sequence;
    let failure = Failure { until, message: Arc::clone(&message) };
    let mut pending = shared.pending.lock();
    pending.batch.put_back(batch);
    shared.progress.send_modify(|progress| progress.failed = Some(failure));
    if pending.closing {
        tracing::error!(%path, error = %message, "Left the state file without the latest changes");
        pending.batch.take();
        return;
    }
    // Whoever closes wakes it; others who write do too, and wait for the rest of the second with it.
    let again = Instant::now() + RETRY;
    while !pending.closing && !shared.wake.wait_until(&mut pending, again).timed_out() {}
    drop(pending);
    if let Err(error) = shared.file.reopen() {
        tracing::debug!(%path, %error, "Failed to open the state file again");
    }
}
