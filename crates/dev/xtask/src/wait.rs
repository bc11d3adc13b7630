//! Waits for a condition; an error includes its last state.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;

/// How often to check a state of this machine while waiting for it.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The result of one check of a condition.
pub(crate) enum Look<T> {
    Done(T),
    /// The condition does not hold yet. The text is the current state, for the error.
    NotYet(String),
}

/// Checks until the condition holds, fails, or the time limit passes.
pub(crate) fn until<T>(
    what: &str,
    limit: Duration,
    every: Duration,
    mut look: impl FnMut() -> anyhow::Result<Look<T>>,
) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        let state = match look()? {
            Look::Done(value) => return Ok(value),
            Look::NotYet(state) => state,
        };
        if start.elapsed() >= limit {
            bail!("{what}: not after {limit:?}; last state: {state}");
        }
        thread::sleep(every);
    }
}
