//! Waits for what a test expects.

use std::{error::Error, fmt, time::Duration};

use tokio::time::{sleep, timeout};

use crate::{
    cluster::{self, Cluster},
    log,
    nephele::Nephele,
    process::Ended,
};

/// Short, because a request takes about a millisecond and no other program uses the API server.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long an error waits for the Faults that it names.
const FAULTS_WITHIN: Duration = Duration::from_secs(5);

/// Why a wait has failed.
#[derive(thiserror::Error)]
pub enum WaitError {
    /// It took too long.
    #[error("failed to wait until {what}: it is not so after {limit:?}{log}")]
    Time {
        what: String,
        /// The limit of this wait.
        limit: Duration,
        /// The Faults that there are, the path of Nephele's log and its last lines, and the address of its page.
        log: String,
        /// The last answer of the condition.
        source: LastSeen,
    },
    /// Nephele has ended meanwhile.
    #[error("failed to wait until {what}: nephele has ended")]
    Ended { what: String, source: Ended },
}
crate::debug::in_words!(WaitError);

/// The last error of a condition: what was seen in place of what is wanted.
pub struct LastSeen(pub Box<dyn Error + Send + Sync>);
crate::debug::in_words!(LastSeen);

impl fmt::Display for LastSeen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "last seen: {}", self.0)
    }
}

impl Error for LastSeen {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl Nephele {
    /// Waits until a Cluster exists and is available, and returns it.
    ///
    /// # Errors
    ///
    /// As [`wait_until`](Self::wait_until).
    pub async fn wait_for_cluster(&self, namespace: &str, name: &str) -> Result<Cluster, WaitError> {
        let client = cluster::client(&self.config());
        self.wait_until(
            &format!("the Cluster {namespace}/{name} is available"),
            async || {
                let client = client.as_ref().map_err(ToString::to_string)?.clone();
                cluster::check_available(client, namespace, name).await?;
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(self.cluster(namespace, name).await?)
            },
        )
        .await
    }

    /// Calls a condition until it returns something else than an error. Its errors are what is seen in place of what
    /// is wanted, and can also be texts:
    ///
    /// ```no_run
    /// # async fn wait(nephele: nepheletest::Nephele, small: nepheletest::Cluster) -> Result<(), nepheletest::WaitError> {
    /// nephele
    ///     .wait_until("the worker is gone", async || {
    ///         let machines = small.machines().await.map_err(|error| error.to_string())?;
    ///         if machines.len() == 1 { Ok(()) } else { Err(format!("the Machines are {machines:?}")) }
    ///     })
    ///     .await
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// After [`Builder::wait_limit`](crate::Builder::wait_limit), and as soon as Nephele ends. The error has what was
    /// seen last, the Faults that there are, the end of Nephele's log, and the address of [`page`](Self::page).
    pub async fn wait_until<T, E>(
        &self,
        what: &str,
        mut condition: impl AsyncFnMut() -> Result<T, E>,
    ) -> Result<T, WaitError>
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let limit = self.wait_limit();
        let mut last_seen = None;
        let polled = async {
            loop {
                match condition().await {
                    Ok(found) => return Ok(found),
                    // A request that the limit interrupts says less than the answer before it.
                    Err(error) => last_seen = Some(error.into()),
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        let found = timeout(limit, async {
            tokio::select! {
                found = polled => found,
                ended = self.process().ended() => Err(ended),
            }
        });
        let what = || what.to_owned();
        match found.await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(source)) => Err(WaitError::Ended { what: what(), source }),
            Err(_elapsed) => {
                let last_seen =
                    last_seen.unwrap_or_else(|| "nothing, because the condition has not returned".into());
                let log = self.describe_faults().await
                    + &log::describe(self.log())
                    + &log::describe_page(self.page());
                Err(WaitError::Time {
                    what: what(),
                    limit,
                    log,
                    source: LastSeen(last_seen),
                })
            }
        }
    }
    /// The Faults that there are, for the end of an error: one that is forgotten explains much. Empty without any, and when
    /// nothing answers soon.
    async fn describe_faults(&self) -> String {
        let said = timeout(FAULTS_WITHIN, self.run(["get", "faults", "--all-namespaces"]));
        match said.await {
            Ok(Ok(said)) if !said.is_empty() => format!("\nthere are Faults:\n{}", said.trim()),
            _ => String::new(),
        }
    }
}
