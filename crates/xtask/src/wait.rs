//! Waiting on a condition, with its last state in the error.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;

/// What a look at a condition found.
pub(crate) enum Look<T> {
    Done(T),
    /// Not yet; the state as it is now, for the error.
    NotYet(String),
}

/// Looks until it is done, fails, or the limit is over.
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
