use std::{
    any::Any, convert::Infallible, fmt::Debug, num::NonZeroU16, panic::AssertUnwindSafe, sync::Arc,
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt, future, stream};
use kube::{
    Api, Resource, ResourceExt,
    runtime::{
        Controller,
        controller::{self, Action},
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use nephele_error_chain::chain;
use nephele_poll_time::timed;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, error, info, info_span, warn};

use crate::{
    backoff::Backoff,
    by_namespace::ByNamespace,
    events::{Event, Events, Severity},
    failures::{Failures, ObjectKey},
    filter::WatchFilter,
    gone::{Deletions, Gone},
    listed::Listed,
    metrics::ControllerMetrics,
    outcome::{Outcome, ReconcileError, Retry},
    own_task::own_task,
    readable::{Kind, Readable},
    readiness::Gate,
    services::Services,
    stretch::Stretch,
    watch::{Cache, Change, followed, key_of, reference},
    work_queue::WorkQueue,
};

/// Why a controller ended before `shutdown`.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The stream of reconciles ended.
    #[error("controller {0} ended by itself")]
    Ended(&'static str),
    /// A cache that the controller reads never became ready.
    #[error("controller {0} lost a cache before it was ready")]
    CacheLost(&'static str),
}

/// How long a reconcile may take. kube-runtime reconciles an object again only after its last reconcile has ended, so one
/// that waits for ever would leave its object alone until the next start. The clients give up a request after 45 s of
/// silence, and a reconcile has a dozen of them.
const RECONCILE_MAX: Duration = Duration::from_secs(600);

/// A reconcile that did not end.
#[derive(Debug, thiserror::Error)]
#[error("the reconcile did not end within {0:?}")]
struct TooLong(Duration);

impl ReconcileError for TooLong {
    fn category(&self) -> &'static str {
        "timeout"
    }

    fn retry(&self) -> Retry {
        Retry::BackOff
    }
}

/// One controller: watches objects of the kind `K` and calls a reconcile function for each change.
///
/// Each call has a span with kind, namespace and name; metrics; a guard against panics; a backoff per object that
/// grows with each failure in a row; and an Event about a failure.
pub struct Runner<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
{
    name: &'static str,
    controller: Controller<K>,
    store: Store<K>,
    by_namespace: ByNamespace<K>,
    listed: Listed,
    services: Services,
    concurrency: NonZeroU16,
    failures: Arc<Failures>,
    queue: Arc<WorkQueue>,
    caches: Vec<future::BoxFuture<'static, bool>>,
    gate: Gate,
    deletions: Arc<Deletions<K>>,
    /// The work of the task since others ran. kube-runtime takes all that the streams name whenever it begins a reconcile: one poll
    /// of a controller with thousands of objects kept its thread for 100 ms.
    stretch: Stretch,
}

impl<K: Kind> Runner<K> {
    /// A controller of the objects that `api` and `filter` select: other managers write the others. It reconciles at most
    /// `concurrency` objects at a time, and never the same object twice at a time.
    ///
    /// `name` is the kind in lower case, for metrics and the readiness gate.
    #[must_use]
    pub fn new(
        name: &'static str,
        services: &Services,
        api: Api<Readable<K>>,
        filter: &WatchFilter,
        concurrency: NonZeroU16,
    ) -> Self {
        Self::of(name, services, api, filter.watch_config(), concurrency)
    }

    /// As [`Runner::new`], for objects that may each be as large as an object can be: reads so many at a time, because the
    /// text of an answer is taken apart all at once.
    #[must_use]
    pub fn of_large(
        name: &'static str,
        services: &Services,
        api: Api<Readable<K>>,
        filter: &WatchFilter,
        concurrency: NonZeroU16,
        page: u32,
    ) -> Self {
        Self::of(
            name,
            services,
            api,
            filter.watch_config().page_size(page),
            concurrency,
        )
    }

    fn of(
        name: &'static str,
        services: &Services,
        api: Api<Readable<K>>,
        config: watcher::Config,
        concurrency: NonZeroU16,
    ) -> Self {
        let failures = Arc::new(Failures::new(Backoff::default()));
        let (store, by_namespace, listed, changes) = followed(api, config, services);
        let queue = services.metrics.work_queue(name);
        let reader = store.clone();
        let forgetting = Arc::clone(&failures);
        let added = Arc::clone(&queue);
        let removed = Arc::clone(&queue);
        let deletions = Deletions::new();
        let leaving = Arc::clone(&deletions);
        let forget = move |object: &Arc<K>| {
            forgetting.forget(&key(&**object));
            removed.forget(&key(&**object));
        };
        let applied = changes.flat_map(move |change| {
            stream::iter(match change {
                Change::Applied(object) => vec![object],
                Change::Deleted(object) => {
                    forget(&object);
                    leaving.left(&key(&*object), &object);
                    vec![]
                }
                Change::Listed { gone } => {
                    gone.iter().for_each(&forget);
                    // Who looks for its name finds the object that has the name now.
                    let replaced = gone
                        .iter()
                        .filter(|object| reader.get(&reference(&***object)).is_some());
                    replaced.for_each(|object| leaving.left(&key(&**object), object));
                    leaving.listed_without(gone.iter().map(|object| (key(&**object), object)));
                    reader.state()
                }
            })
        });
        let stretch = Stretch::default();
        let applied = stretch
            .within(applied)
            .inspect(move |object| added.add(key(&**object)));
        let runner = Self {
            name,
            controller: Controller::for_shared_stream(applied, store.clone()),
            store,
            by_namespace,
            listed,
            services: services.clone(),
            concurrency,
            failures,
            queue,
            caches: Vec::new(),
            gate: services.readiness.gate(name),
            deletions,
            stretch,
        };
        match services.resync {
            Some(period) => runner.reconcile_all_on(ticks(period)),
            None => runner,
        }
    }

    /// Objects that are gone from now on, even if no reconcile saw their deletion. The store does not have them any
    /// more. An object that goes during its reconcile is reported again when that has ended, because the reconcile may
    /// have created again what was deleted for the first report.
    pub fn gone(&self) -> impl Stream<Item = Gone<K>> + Send + 'static {
        self.deletions.listen()
    }

    /// The local copy of the controller's objects.
    #[must_use]
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// The controller's objects by their namespace.
    #[must_use]
    pub fn by_namespace(&self) -> ByNamespace<K> {
        self.by_namespace.clone()
    }

    /// Whether the store has its first list.
    #[must_use]
    pub fn listed(&self) -> Listed {
        self.listed.clone()
    }

    /// Reconciles the objects that `mapper` returns whenever an object of the cache was created, changed or
    /// deleted. The controller starts only when the cache is ready.
    #[must_use]
    pub fn watches<Other, I>(
        self,
        cache: &Cache<Other>,
        mapper: impl Fn(&Other) -> I + Send + Sync + 'static,
    ) -> Self
    where
        Other: Kind,
        I: IntoIterator<Item = ObjectRef<K>>,
    {
        let refs = cache.touched().flat_map(move |object| {
            let refs: Vec<ObjectRef<K>> = mapper(&object).into_iter().collect();
            stream::iter(refs)
        });
        self.reads(cache).reconcile_on(refs)
    }

    /// Delays the start of the controller until the cache is ready, because the reconcile function reads the cache.
    #[must_use]
    pub fn reads<Other: Kind>(mut self, cache: &Cache<Other>) -> Self {
        let cache = cache.clone();
        self.caches.push(async move { cache.ready().await }.boxed());
        self
    }

    /// Delays the start of the controller until another one has its first list, because the reconcile function reads that
    /// one's store. Its own list comes before its first reconcile in any case.
    #[must_use]
    pub fn follows(mut self, listed: Listed) -> Self {
        if listed.is_same(&self.listed) {
            return self;
        }
        self.caches.push(async move { listed.wait().await }.boxed());
        self
    }

    /// Reconciles each object that the stream names.
    #[must_use]
    pub fn reconcile_on(mut self, refs: impl Stream<Item = ObjectRef<K>> + Send + 'static) -> Self {
        let queue = Arc::clone(&self.queue);
        let refs = self
            .stretch
            .within(refs)
            .inspect(move |object| queue.add(key_of(object)));
        self.controller = self.controller.reconcile_on(refs);
        self
    }

    /// Reconciles every object each time the stream yields.
    #[must_use]
    pub fn reconcile_all_on(self, ticks: impl Stream<Item = ()> + Send + 'static) -> Self {
        let store = self.store.clone();
        self.reconcile_on(ticks.flat_map(move |()| {
            let objects = stream::iter(store.state());
            objects.map(|object| reference(&*object))
        }))
    }

    /// Runs until `shutdown`, then lets the reconciles in flight finish. The reconcile function captures its
    /// context.
    ///
    /// # Errors
    ///
    /// When the controller ends before `shutdown`.
    pub fn run<F, Fut, E>(
        self,
        reconcile: F,
        shutdown: CancellationToken,
    ) -> impl Future<Output = Result<(), RunError>> + Send + 'static
    where
        F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, E>> + Send + 'static,
        E: ReconcileError,
    {
        own_task(self.name, self.run_parts(reconcile, shutdown))
    }

    async fn run_parts<F, Fut, E>(self, reconcile: F, shutdown: CancellationToken) -> Result<(), RunError>
    where
        F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, E>> + Send + 'static,
        E: ReconcileError,
    {
        let Self {
            name,
            controller,
            store: _,
            by_namespace: _,
            listed,
            services,
            concurrency,
            failures,
            queue,
            caches,
            gate,
            deletions,
            stretch,
        } = self;
        let Some(ready) = shutdown.run_until_cancelled(future::join_all(caches)).await else {
            return Ok(());
        };
        if ready.contains(&false) {
            return if shutdown.is_cancelled() {
                Ok(())
            } else {
                Err(RunError::CacheLost(name))
            };
        }
        info!(controller = name, concurrency = concurrency.get(), "Starting");
        let round = Arc::new(Round {
            reconcile,
            metrics: services.metrics.controller(name, i64::from(concurrency.get())),
            events: services.events,
            failures: Arc::clone(&failures),
            queue: Arc::clone(&queue),
            deletions,
        });
        let results = controller
            .with_config(controller::Config::default().concurrency(concurrency.get()))
            .graceful_shutdown_on(shutdown.clone().cancelled_owned())
            .run(
                move |object, round: Arc<Round<K, F>>| {
                    // kube-runtime makes a task of it.
                    timed(name, round.visit(object)).map(Ok::<_, Infallible>)
                },
                |_, never: &Infallible, _| match *never {},
                round,
            );
        // Each costs kube-runtime a look at all objects that wait or are reconciled: with hundreds of them, hundreds of reconciles
        // that ended together kept the thread for 100 ms.
        let work = stretch.read(results).for_each(|result| {
            if let Err(controller::Error::ObjectNotFound(object)) = result {
                // Deleted while it was in the queue.
                let key = ObjectKey {
                    namespace: object.namespace.clone().unwrap_or_default(),
                    name: object.name.clone(),
                };
                failures.forget(&key);
                queue.forget(&key);
            }
            future::ready(())
        });
        let open = async {
            if listed.clone().wait().await {
                gate.open();
            }
        };
        // Before the first list no reconcile is in flight, and kube-runtime does not notice the shutdown.
        let asked_before_the_first_list = async {
            shutdown.cancelled().await;
            if listed.already() {
                future::pending::<()>().await;
            }
        };
        tokio::select! {
            _ = future::join(work, open) => {}
            () = asked_before_the_first_list => {}
        }
        if shutdown.is_cancelled() {
            info!(controller = name, "Stopped");
            Ok(())
        } else {
            Err(RunError::Ended(name))
        }
    }
}

/// State for each reconcile.
struct Round<K, F> {
    reconcile: F,
    metrics: ControllerMetrics,
    events: Events,
    failures: Arc<Failures>,
    queue: Arc<WorkQueue>,
    deletions: Arc<Deletions<K>>,
}

impl<K, F> Round<K, F>
where
    K: Resource<DynamicType = ()>,
{
    /// Calls the reconcile function and turns its result into an action of kube-runtime.
    fn visit<Fut, E>(self: Arc<Self>, object: Arc<K>) -> impl Future<Output = Action> + Send + 'static
    where
        K: Send + Sync + 'static,
        F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, E>> + Send + 'static,
        E: ReconcileError,
    {
        let span = info_span!(
            "reconcile",
            kind = %K::kind(&()),
            namespace = object.namespace().unwrap_or_default(),
            // Not `name`: a span has its own name, and in JSON logs both would have the same key.
            object = object.name_any(),
        );
        let key = key(&*object);
        // Now, when kube-runtime has taken the object from the store, and not when this is polled first.
        let in_flight = self.deletions.start(key.clone());
        async move {
            let running = (self.metrics.running(), self.queue.start(&key), in_flight);
            let started = Instant::now();
            let reconcile = AssertUnwindSafe(async { (self.reconcile)(Arc::clone(&object)).await });
            let result = timeout(RECONCILE_MAX, reconcile.catch_unwind()).await;
            let took = started.elapsed();
            drop(running);
            let Ok(result) = result else {
                return self.failed(&*object, &key, &TooLong(RECONCILE_MAX), took);
            };
            match result {
                Ok(Ok(outcome)) => {
                    self.failures.forget(&key);
                    self.settled(&key, outcome, took)
                }
                Ok(Err(error)) => self.failed(&*object, &key, &error, took),
                Err(payload) => self.panicked(&*object, &key, &*payload, took),
            }
        }
        .instrument(span)
    }

    fn settled(&self, key: &ObjectKey, outcome: Outcome, took: Duration) -> Action {
        let (result, word, action) = match outcome {
            Outcome::Done => ("success", "done", Action::await_change()),
            Outcome::WaitingOn(what) => ("success", what, Action::await_change()),
            Outcome::After(wait) => {
                self.queue.add_after(key.clone(), wait);
                ("requeue_after", "after", Action::requeue(wait))
            }
        };
        debug!(outcome = word, took_ms = millis(took), "Reconciled");
        self.metrics.ended(result, took);
        self.metrics.outcome(word);
        action
    }

    fn failed<E>(&self, object: &K, key: &ObjectKey, error: &E, took: Duration) -> Action
    where
        E: ReconcileError,
    {
        let category = error.category();
        let message = chain(error);
        let retry = error.retry();
        self.metrics.ended("error", took);
        self.metrics.failed(category, retry == Retry::WaitForChange);
        match retry {
            Retry::After(wait) => {
                debug!(
                    category,
                    error = message,
                    retry_in_ms = millis(wait),
                    "Reconcile postponed"
                );
                self.queue.add_after(key.clone(), wait);
                Action::requeue(wait)
            }
            Retry::BackOff => {
                let wait = self.failures.record(key);
                warn!(
                    category,
                    error = message,
                    retry_in_ms = millis(wait),
                    "Reconcile failed"
                );
                self.queue.retry_after(key.clone(), wait);
                self.report(object, message);
                Action::requeue(wait)
            }
            Retry::WaitForChange => {
                self.failures.forget(key);
                warn!(
                    category,
                    error = message,
                    "Reconcile failed; waiting for a change"
                );
                self.report(object, message);
                Action::await_change()
            }
        }
    }

    fn panicked(&self, object: &K, key: &ObjectKey, payload: &(dyn Any + Send), took: Duration) -> Action {
        let wait = self.failures.record(key);
        let message = panic_message(payload);
        error!(panic = message, retry_in_ms = millis(wait), "Reconcile panicked");
        self.metrics.ended("error", took);
        self.metrics.failed("panic", false);
        self.metrics.panicked();
        self.queue.retry_after(key.clone(), wait);
        self.report(object, format!("internal error: {message}"));
        Action::requeue(wait)
    }

    fn report(&self, object: &K, note: String) {
        self.events.publish(Event {
            regarding: object.object_ref(&()),
            severity: Severity::Warning,
            reason: "ReconcileFailed",
            action: "Reconcile",
            note,
        });
    }
}

fn key<K: Resource<DynamicType = ()>>(object: &K) -> ObjectKey {
    key_of(&reference(object))
}

fn panic_message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Yields once every period, for the first time after one period.
fn ticks(period: Duration) -> impl Stream<Item = ()> + Send + 'static {
    stream::unfold((), move |()| async move {
        sleep(period).await;
        Some(((), ()))
    })
}
