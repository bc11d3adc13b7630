//! Waits for a condition.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// How long a cluster may take to reach a state, on a small machine that runs other tests too.
pub const LIMIT: Duration = Duration::from_secs(300);

/// The time between two checks.
const EVERY: Duration = Duration::from_millis(500);

/// The result of a check.
#[derive(Debug)]
pub enum Look<T> {
    /// The condition holds.
    Done(T),
    /// The condition does not hold yet. The text is the current state.
    NotYet(String),
    /// The condition will never hold. The text says why.
    Failed(String),
}

impl Look<()> {
    /// `Done` when the condition holds. Otherwise the state, which is only built if needed.
    pub fn when(holds: bool, state: impl FnOnce() -> String) -> Self {
        if holds {
            Self::Done(())
        } else {
            Self::NotYet(state())
        }
    }
}

/// Checks until the condition holds.
///
/// # Errors
///
/// When the condition does not hold within the limit, with the last state. A failed check counts as a state, because
/// the API server may be busy. At once when the condition will never hold.
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
            Ok(Look::Failed(why)) => bail!("waited for {what}, in vain: {why}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_wait_for_what_will_never_hold() {
        let mut looks = vec![
            Ok(Look::Failed("it is gone".to_owned())),
            Err(anyhow::anyhow!("busy")),
        ];
        let waited = until::<()>("a", LIMIT, async || {
            looks.pop().unwrap_or_else(|| panic!("it is over"))
        })
        .await;
        let error = format!("{:#}", waited.expect_err("it fails"));
        assert_eq!(
            (error.as_str(), looks.len()),
            ("waited for a, in vain: it is gone", 0)
        );
    }
}
