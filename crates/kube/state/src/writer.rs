//! The writer thread, which commits pending changes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    pending::Batch,
    state::{Failure, Shared},
};

/// The time between two attempts to commit while the file cannot be written. So a disk that has room again is noticed
/// within a second, and an attempt costs less than a millisecond.
const RETRY: Duration = Duration::from_secs(1);

/// Commits pending changes in a loop until the file is closed.
pub(crate) fn run(shared: &Shared) {
    while let Some(batch) = next(shared) {
        if !attempt(shared, batch) {
            wait_to_try_again(shared);
            reopen(shared);
        }
    }
    close(shared);
}

/// Commits pending changes in the caller's thread; if that fails, the next call tries again.
pub(crate) fn run_once(shared: &Shared) {
    let (batch, closing) = {
        let mut pending = shared.pending.lock();
        let batch = (!pending.batch.is_empty()).then(|| pending.batch.take());
        (batch, pending.closing)
    };
    if let Some(batch) = batch {
        // Reopen only now, because there may be room again: on a full disk the file cannot be opened either.
        let has_failed = shared.progress.borrow().failed.is_some();
        if has_failed {
            reopen(shared);
        }
        attempt(shared, batch);
    }
    if closing {
        close(shared);
    }
}

fn close(shared: &Shared) {
    shared.file.close();
    shared.progress.send_modify(|progress| progress.closed = true);
}

/// Returns whether the batch is committed.
fn attempt(shared: &Shared, batch: Batch) -> bool {
    let started = Instant::now();
    if let Err(error) = shared.file.commit(&batch) {
        fail(shared, batch, &error);
        return false;
    }
    shared.observer.committed(started.elapsed(), shared.file.bytes());
    let failed = shared.progress.borrow().failed.clone();
    if failed.is_some() {
        tracing::info!(path = %shared.file.path().display(), "The state file can be written again");
    }
    shared.progress.send_modify(|progress| {
        progress.committed = batch.sequence;
        progress.failed = None;
    });
    true
}

/// Waits for changes to commit. None if the file is being closed and no change is pending.
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

/// Reports the failure to waiting callers, and keeps the batch for another attempt.
fn fail(shared: &Shared, batch: Batch, error: &redb::Error) {
    shared.observer.failed();
    let message: Arc<str> = crate::file::message(error).into();
    let path = shared.file.path().display();
    if shared.progress.borrow().failed.is_none() {
        tracing::error!(%path, error = %message, "Failed to write the state file; trying again until it succeeds");
    }
    let until = batch.sequence;
    let failure = Failure {
        until,
        message: Arc::clone(&message),
    };
    let mut pending = shared.pending.lock();
    pending.batch.put_back(batch);
    shared
        .progress
        .send_modify(|progress| progress.failed = Some(failure));
    if pending.closing {
        tracing::error!(%path, error = %message, "Closed the state file without the latest changes");
        pending.batch.take();
    }
}

fn wait_to_try_again(shared: &Shared) {
    let mut pending = shared.pending.lock();
    // Closing ends the wait. New writes wake the thread, too, which then waits for the rest of the second.
    let again = Instant::now() + RETRY;
    while !pending.closing && !shared.wake.wait_until(&mut pending, again).timed_out() {}
}

fn reopen(shared: &Shared) {
    if shared.pending.lock().closing {
        return;
    }
    if let Err(error) = shared.file.reopen() {
        tracing::debug!(path = %shared.file.path().display(), %error, "Failed to open the state file again");
    }
}
