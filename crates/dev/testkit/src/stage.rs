//! Controllers over a management API, from their start to their stop.

use std::{fmt::Debug, time::Duration};

use kube::Client;
use nephele_controller::{Clock, Events, Metrics, Readiness, Reporter, Services};
use prometheus::Registry;
use tokio::{
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::patience::PATIENCE;

/// What controllers are started with, as a manager makes it.
pub struct Backstage {
    /// Reaches the management API, or what a test lets through to it; Events take the same way.
    pub client: Client,
    /// Where the controllers register their metrics.
    pub registry: Registry,
    /// What all of the controllers share.
    pub services: Services,
    /// Stops the controllers, and the task that publishes their Events.
    pub shutdown: CancellationToken,
}

impl Backstage {
    /// Starts to publish Events. Needs a Tokio runtime.
    #[must_use]
    pub fn of(client: Client, clock: Clock) -> Self {
        let registry = Registry::new();
        let shutdown = CancellationToken::new();
        let metrics = Metrics::register(&registry).expect("a new registry");
        let reporter = Reporter {
            controller: "test".into(),
            instance: "test-0".into(),
        };
        let (events, publish) = Events::new(
            client.clone(),
            reporter,
            clock.clone(),
            metrics.clone(),
            shutdown.clone(),
        );
        tokio::spawn(publish);
        let services = Services {
            metrics,
            events,
            clock,
            readiness: Readiness::default(),
            resync: None,
        };
        Self {
            client,
            registry,
            services,
            shutdown,
        }
    }
}

/// Controllers that run, and what plays the rest of the world for them.
pub struct Stage {
    shutdown: CancellationToken,
    controllers: JoinHandle<()>,
    /// These end together with the stage.
    actors: JoinSet<()>,
}

impl Stage {
    /// Runs controllers until the token stops them.
    pub fn of<E: Debug>(
        shutdown: CancellationToken,
        run: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Self {
        let controllers =
            tokio::spawn(async move { run.await.expect("the controllers run until they shall stop") });
        Self {
            shutdown,
            controllers,
            actors: JoinSet::new(),
        }
    }

    /// Lets this future act until the stage ends, for example as the cloud.
    #[must_use]
    pub fn with(mut self, actor: impl Future<Output = ()> + Send + 'static) -> Self {
        self.actors.spawn(actor);
        self
    }

    /// Stops the controllers, which lose all state in memory.
    pub async fn stop(self) {
        self.shutdown.cancel();
        timeout(PATIENCE, self.controllers)
            .await
            .expect("an end in bounded time")
            .expect("no panic");
    }

    /// Stops the controllers, and kills them if that takes longer.
    pub async fn stop_within(mut self, limit: Duration) {
        self.shutdown.cancel();
        match timeout(limit, &mut self.controllers).await {
            Ok(ended) => ended.expect("no panic"),
            Err(_) => self.kill().await,
        }
    }

    /// Ends the controllers at once. Nothing that has begun is finished, but requests may still arrive.
    pub async fn kill(self) {
        self.controllers.abort();
        // It was aborted, or has ended before.
        drop(self.controllers.await);
        self.shutdown.cancel();
    }
}
