//! Waiting for what takes time, with a bound and with what was seen last.

use std::{fmt::Debug, time::Duration};

use kube::{Api, Resource, runtime::wait::await_condition};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{sleep, timeout};

/// How long tests wait. Generous, because tests share the computer; no test waits that long if all is well.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The time between two looks: short, so that a paused clock hardly advances.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Looks until there is a value, and returns it. What a look sees instead is in the message of the test that fails.
pub async fn eventually<T, S: Debug>(what: &str, mut look: impl AsyncFnMut() -> Result<T, S>) -> T {
    let mut last = None;
    let looking = async {
        loop {
            match look().await {
                Ok(found) => return found,
                Err(seen) => last = Some(seen),
            }
            sleep(LOOK_EVERY).await;
        }
    };
    let found = timeout(PATIENCE, looking).await;
    found.unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}; last seen: {last:?}"))
}

/// Watches until an object, or its absence, is as wanted, and returns it.
pub async fn eventually_of<K>(
    api: &Api<K>,
    name: &str,
    what: &str,
    wanted: impl Fn(Option<&K>) -> bool + Send + Sync,
) -> Option<K>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let mut refused = None;
    let watching = async {
        loop {
            match await_condition(api.clone(), name, &wanted).await {
                Ok(found) => return found,
                // A watch whose version expires starts again.
                Err(error) => refused = Some(error),
            }
            sleep(LOOK_EVERY).await;
        }
    };
    match timeout(PATIENCE, watching).await {
        Ok(found) => found,
        Err(_) => {
            let last = api.get_opt(name).await.expect("the API answers");
            let last = serde_json::to_string_pretty(&last).expect("an object is JSON");
            let place = api.resource_url();
            panic!("waited {PATIENCE:?} for {name} of {place} {what}; it is {last}; its watch: {refused:?}")
        }
    }
}
