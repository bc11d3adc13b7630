//! Many claims at once. They are created and released with few requests at a time, and followed with watches, so that
//! the load uses little of the machine that it shares with the providers.
//!
//! ```text
//!  Load ──POST, DELETE──▶ API server ──watch claims────▶ Tally     which are bound, which are gone, since when
//!                                    └─watch addresses─▶ Witness   whether two ever had the same one
//! ```

mod tally;
mod witness;

use std::{
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, Resource,
    api::{DeleteParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use nephele_api::{
    core::ObjectReference,
    ipam::v1beta2::{IPAddress, IPAddressClaim, IPAddressClaimSpec},
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
pub use tally::Tally;
use tokio::{sync::watch, task::JoinHandle, time};
pub use witness::Witness;

use crate::{
    Management,
    ipam::{GROUP, LIMIT},
    management::Kind,
};

/// Requests in flight: enough to keep an API server on two cores busy.
const REQUESTS_MAX: usize = 32;

/// Claims in one namespace. Each name is used only once.
pub struct Load {
    claims: Api<IPAddressClaim>,
    bound: Following<Tally>,
    addresses: Following<Witness>,
}

impl Load {
    /// Starts to follow a namespace.
    ///
    /// # Errors
    ///
    /// When its claims and addresses cannot be listed.
    pub async fn start(management: &Management, namespace: &str) -> anyhow::Result<Self> {
        let claims = Api::namespaced(management.client(), namespace);
        let addresses = Api::<IPAddress>::namespaced(management.client(), namespace);
        let load = Self {
            bound: Following::start(claims.clone()),
            addresses: Following::start(addresses),
            claims,
        };
        load.bound
            .until("the claims to be listed", LIMIT, Tally::is_listed)
            .await?;
        load.addresses
            .until("the addresses to be listed", LIMIT, Witness::is_listed)
            .await?;
        Ok(load)
    }

    /// Creates claims, each on its pool.
    ///
    /// # Errors
    ///
    /// When a request is refused.
    pub async fn create(
        &self,
        claims: impl IntoIterator<Item = (String, String)>,
        kind: Kind,
    ) -> anyhow::Result<()> {
        stream::iter(claims)
            .map(async |(name, pool)| {
                let reference = ObjectReference {
                    api_group: GROUP.to_owned(),
                    kind: kind.2.to_owned(),
                    name: pool,
                };
                let claim = IPAddressClaim::new(
                    &name,
                    IPAddressClaimSpec {
                        pool_ref: reference,
                        ..IPAddressClaimSpec::default()
                    },
                );
                self.bound.state.lock().sent(&name, Instant::now());
                let created = self.claims.create(&PostParams::default(), &claim).await;
                created
                    .map(drop)
                    .with_context(|| format!("failed to create claim {name}"))
            })
            .buffer_unordered(REQUESTS_MAX)
            .try_collect()
            .await
    }

    /// Deletes claims, without waiting until they are gone.
    ///
    /// # Errors
    ///
    /// When a request is refused.
    pub async fn delete(&self, names: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
        stream::iter(names)
            .map(async |name| {
                let deleted = self.claims.delete(&name, &DeleteParams::background()).await;
                deleted
                    .map(drop)
                    .with_context(|| format!("failed to delete claim {name}"))
            })
            .buffer_unordered(REQUESTS_MAX)
            .try_collect()
            .await
    }

    /// Waits until a condition holds for the claims.
    ///
    /// # Errors
    ///
    /// When it does not hold in time, with their state.
    pub async fn until(
        &self,
        what: &str,
        limit: Duration,
        holds: impl Fn(&Tally) -> bool,
    ) -> anyhow::Result<()> {
        self.bound.until(what, limit, holds).await
    }

    /// Waits until a condition holds for the addresses.
    ///
    /// # Errors
    ///
    /// When it does not hold in time, with their state.
    pub async fn until_addresses(
        &self,
        what: &str,
        limit: Duration,
        holds: impl Fn(&Witness) -> bool,
    ) -> anyhow::Result<()> {
        self.addresses.until(what, limit, holds).await
    }

    /// Reads the state of the claims.
    pub fn claims<T>(&self, look: impl FnOnce(&Tally) -> T) -> T {
        look(&self.bound.state.lock())
    }

    /// Reads the state of the addresses.
    pub fn addresses<T>(&self, look: impl FnOnce(&Witness) -> T) -> T {
        look(&self.addresses.state.lock())
    }
}

/// State that is built from the events of a watch.
trait Follow: Debug + Default + Send + 'static {
    type Kind;

    fn apply(&mut self, event: watcher::Event<Self::Kind>, now: Instant);
}

/// State that a watch keeps up to date until it is dropped.
struct Following<S> {
    state: Arc<Mutex<S>>,
    changed: watch::Receiver<()>,
    task: JoinHandle<()>,
}

impl<S: Follow> Following<S> {
    fn start(api: Api<S::Kind>) -> Self
    where
        S::Kind: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let state = Arc::new(Mutex::new(S::default()));
        let (sender, changed) = watch::channel(());
        let followed = Arc::clone(&state);
        let task = tokio::spawn(async move {
            // Errors are not reported: the error of a wait shows what is missing.
            let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
            while let Some(event) = events.next().await {
                let Ok(event) = event else { continue };
                followed.lock().apply(event, Instant::now());
                sender.send_replace(());
            }
        });
        Self { state, changed, task }
    }

    async fn until(&self, what: &str, limit: Duration, holds: impl Fn(&S) -> bool) -> anyhow::Result<()> {
        let mut changed = self.changed.clone();
        let wait = async {
            while !holds(&self.state.lock()) {
                changed.changed().await.context("the watch has ended")?;
            }
            anyhow::Ok(())
        };
        match time::timeout(limit, wait).await {
            Ok(result) => result,
            Err(_) => bail!(
                "waited {limit:?} for {what}; last state:\n{:?}",
                self.state.lock()
            ),
        }
    }
}

impl<S> Drop for Following<S> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
