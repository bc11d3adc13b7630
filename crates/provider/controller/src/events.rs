//! Kubernetes Events: published once, counted when repeated, dropped rather than waited for.

mod cut;
mod event;
mod series;

use k8s_openapi::{
    api::events::v1::{Event as Published, EventSeries},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use nephele_error_chain::chain;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::debug;

pub use self::event::{Event, Severity};
use self::{
    cut::cut,
    series::{Say, SeriesLog},
};
use crate::{clock::Clock, metrics::Metrics};

/// The most Events that wait to be published. Further Events are dropped and counted: 256 are enough for a reconcile
/// failure of each of 250 objects within the time of one request.
const QUEUE_MAX: usize = 256;
/// The API server refuses longer notes (events.k8s.io/v1, `note`).
const NOTE_BYTES_MAX: usize = 1024;

/// The reporter of Events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// The name of the controller, for instance `nephele.dev/manager`.
    pub controller: String,
    /// The name of the pod.
    pub instance: String,
}

/// Passes Events to the publisher. Never waits. Cheap to clone.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<Event>,
    metrics: Metrics,
}

impl Events {
    /// The handle, and the future that publishes until `shutdown`.
    pub fn new(
        client: Client,
        reporter: Reporter,
        clock: Clock,
        metrics: Metrics,
        shutdown: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let publisher = Publisher {
            client,
            reporter,
            clock,
            metrics: metrics.clone(),
            log: SeriesLog::default(),
        };
        (Self { queue, metrics }, publisher.run(waiting, shutdown))
    }

    /// Publishes an Event; drops it if too many wait already.
    pub fn publish(&self, event: Event) {
        if self.queue.try_send(event).is_err() {
            self.metrics.event("dropped").inc();
        }
    }
}

/// Publishes Events and remembers those it has published.
struct Publisher {
    client: Client,
    reporter: Reporter,
    clock: Clock,
    metrics: Metrics,
    log: SeriesLog,
}

impl Publisher {
    async fn run(mut self, mut waiting: mpsc::Receiver<Event>, shutdown: CancellationToken) {
        while let Some(event) = shutdown.run_until_cancelled(waiting.recv()).await.flatten() {
            let result = match self.log.note((self.clock)(), &event) {
                Say::First { name } => self.create(&event, &name).await.map(|()| "published"),
                Say::Again { name, count } => self.count(&event, &name, count).await.map(|()| "repeated"),
                Say::Nothing => Ok("repeated"),
            };
            let result = result.unwrap_or_else(|error| {
                debug!(error = %chain(&error), reason = event.reason, "Failed to publish an Event");
                self.log.forget(&event);
                "failed"
            });
            self.metrics.event(result).inc();
        }
    }

    async fn create(&self, event: &Event, name: &str) -> Result<(), kube::Error> {
        let published = Published {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace(event).to_owned()),
                ..ObjectMeta::default()
            },
            action: Some(event.action.to_owned()),
            reason: Some(event.reason.to_owned()),
            type_: Some(event.severity.as_str().to_owned()),
            note: Some(cut(&event.note, NOTE_BYTES_MAX).to_owned()),
            regarding: Some(event.regarding.clone()),
            event_time: Some(MicroTime((self.clock)())),
            reporting_controller: Some(self.reporter.controller.clone()),
            reporting_instance: Some(self.reporter.instance.clone()),
            ..Published::default()
        };
        self.api(event)
            .create(&PostParams::default(), &published)
            .await
            .map(|_| ())
    }

    async fn count(&self, event: &Event, name: &str, count: i32) -> Result<(), kube::Error> {
        let series = EventSeries {
            count,
            last_observed_time: MicroTime((self.clock)()),
        };
        let patch = json!({ "series": series });
        self.api(event)
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .map(|_| ())
    }

    fn api(&self, event: &Event) -> Api<Published> {
        Api::namespaced(self.client.clone(), namespace(event))
    }
}

/// Events about objects without a namespace live in `default`.
fn namespace(event: &Event) -> &str {
    event.regarding.namespace.as_deref().unwrap_or("default")
}
