//! Time that passes at once when every task waits.

use std::{future::Future, time::Duration};

/// The longest that an answer may take, in simulated time. Servers give idle clients minutes.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Runs a future until it ends, on simulated time.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime starts").block_on(async {
        tokio::time::timeout(PATIENCE, future)
            .await
            .expect("the server answers or gives up")
    })
}
