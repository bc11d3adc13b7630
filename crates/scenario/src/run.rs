//! Runs the controller.

use std::num::NonZeroU16;
use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;
use nephele_api::cloud::v1alpha1::Scenario;
use nephele_kit::{RunError, Runner, Services, WatchFilter, scoped};
use tokio_util::sync::CancellationToken;

use crate::reconcile::{Context, reconcile};

/// Which scenarios run, and how many are looked at at a time.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The namespace to watch; none means all namespaces.
    pub watch_namespace: Option<String>,
    /// The value of the label `cluster.x-k8s.io/watch-filter` that a scenario must have; none means all scenarios.
    pub watch_filter: Option<String>,
    /// How many scenarios are looked at at a time. All of them go on at the same time.
    pub concurrency: NonZeroU16,
}

/// Runs the controller until `shutdown`.
///
/// The future is boxed so that this crate generates its code, once, and not every crate that awaits it.
///
/// # Errors
/// When the controller ends before `shutdown`.
pub fn run(
    client: Client,
    services: Services,
    settings: Settings,
    shutdown: CancellationToken,
) -> BoxFuture<'static, Result<(), RunError>> {
    Box::pin(async move {
        let Settings { watch_namespace, watch_filter, concurrency } = settings;
        let filter = WatchFilter::new(watch_filter.as_deref());
        let runner: Runner<Scenario> = Runner::new(
            "scenario",
            &services,
            scoped(client.clone(), watch_namespace.as_deref()),
            filter.watch_config(),
            concurrency,
        );
        let context =
            Arc::new(Context { client, events: services.events.clone(), clock: services.clock.clone() });
        runner.run(move |object| reconcile(object, Arc::clone(&context)), shutdown).await
    })
}
