//! Waiting on a condition.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// How long a cluster may take to come to a state, on a small machine with others at work.
pub const LIMIT: Duration = Duration::from_secs(300);

/// How often is looked.
const EVERY: Duration = Duration::from_millis(500);

/// What a look found.
#[derive(Debug)]
pub enum Look<T> {
    /// It has happened.
    Done(T),
    /// It has not; this is how things are.
    NotYet(String),
}

impl Look<()> {
    /// Done when it holds; else the state, which is only made when needed.
    pub fn when(holds: bool, state: impl FnOnce() -> String) -> Self {
        if holds { Self::Done(()) } else { Self::NotYet(state()) }
    }
}

/// Looks until it has happened.
///
/// # Errors
///
/// When it has not within the limit, with the last state; a look that fails counts as a state, since the API server
/// may be busy.
pub async fn until<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> anyhow::Result<Look<T>>,
) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        let state = match look().await {
            Ok(Look::Done(value)) => return Ok(value),
            Ok(Look::NotYet(state)) => state,
            Err(error) if start.elapsed() >= limit => {
                return Err(error).with_context(|| format!("waited {limit:?} for {what}"));
            }
            Err(error) => format!("{error:#}"),
        };
        if start.elapsed() >= limit {
            bail!("waited {limit:?} for {what}; last state:\n{state}");
        }
        tokio::time::sleep(EVERY).await;
    }
}
