use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};
use tokio::time::Instant;

use crate::{failures::ObjectKey, registered::registered};

/// Buckets from no delay to one minute.
const SECONDS: [f64; 8] = [0.0001, 0.001, 0.01, 0.1, 0.5, 1.0, 10.0, 60.0];
/// The most waiting objects of a controller that are tracked: 65,536 entries of about 150 bytes are 10 MiB. Further
/// objects are counted when their reconcile starts, as if they had not waited.
const WAITING_MAX: usize = 65_536;

/// The metrics of all work queues, with the names of client-go (`k8s.io/client-go/util/workqueue/metrics.go`,
/// controller-runtime, `pkg/internal/metrics/workqueue.go`).
///
/// The queue itself belongs to kube-runtime and cannot be inspected: additions and starts are recorded here.
#[derive(Clone)]
pub(crate) struct WorkQueues {
    adds: IntCounterVec,
    retries: IntCounterVec,
    waited: HistogramVec,
    worked: HistogramVec,
    gauges: Gauges,
}

impl WorkQueues {
    /// # Errors
    ///
    /// When the registry already has a metric of one of these names.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), &LABELS)?)
        };
        let histograms = |name: &str, help: &str| {
            let opts = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
            registered(registry, HistogramVec::new(opts, &LABELS)?)
        };
        Ok(Self {
            adds: counters("workqueue_adds_total", "Objects added to the work queue.")?,
            retries: counters("workqueue_retries_total", "Objects requeued after a failure.")?,
            waited: histograms(
                "workqueue_queue_duration_seconds",
                "Time an object waits in the queue.",
            )?,
            worked: histograms(
                "workqueue_work_duration_seconds",
                "Time a reconcile takes, from its start.",
            )?,
            gauges: registered(registry, Gauges::new()?)?,
        })
    }

    /// The queue of a controller; replaces an earlier one of the same name.
    pub(crate) fn of(&self, controller: &'static str) -> Arc<WorkQueue> {
        let labels = [controller, controller];
        let queue = Arc::new(WorkQueue {
            state: Mutex::default(),
            adds: self.adds.with_label_values(&labels),
            retries: self.retries.with_label_values(&labels),
            waited: self.waited.with_label_values(&labels),
            worked: self.worked.with_label_values(&labels),
        });
        self.gauges.queues.lock().insert(controller, Arc::clone(&queue));
        queue
    }
}

const LABELS: [&str; 2] = ["name", "controller"];

/// Metrics that are computed when they are read.
#[derive(Clone)]
struct Gauges {
    queues: Arc<Mutex<BTreeMap<&'static str, Arc<WorkQueue>>>>,
    depth: IntGaugeVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
}

impl Gauges {
    fn new() -> Result<Self, prometheus::Error> {
        let gauges = |name: &str, help: &str| GaugeVec::new(Opts::new(name, help), &LABELS);
        Ok(Self {
            queues: Arc::default(),
            depth: IntGaugeVec::new(
                Opts::new("workqueue_depth", "Objects in the work queue that are due."),
                &["name", "controller", "priority"],
            )?,
            unfinished: gauges(
                "workqueue_unfinished_work_seconds",
                "Time that all running reconciles have taken so far.",
            )?,
            longest: gauges(
                "workqueue_longest_running_processor_seconds",
                "Time that the longest running reconcile has taken so far.",
            )?,
        })
    }
}

impl Collector for Gauges {
    fn desc(&self) -> Vec<&Desc> {
        [self.depth.desc(), self.unfinished.desc(), self.longest.desc()].concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = Instant::now();
        for (controller, queue) in &*self.queues.lock() {
            let seen = queue.state.lock().seen(now);
            // These queues have no priorities.
            self.depth
                .with_label_values(&[controller, controller, ""])
                .set(seen.depth);
            let labels = [*controller, *controller];
            self.unfinished
                .with_label_values(&labels)
                .set(seen.unfinished.as_secs_f64());
            self.longest
                .with_label_values(&labels)
                .set(seen.longest.as_secs_f64());
        }
        [
            self.depth.collect(),
            self.unfinished.collect(),
            self.longest.collect(),
        ]
        .concat()
    }
}

/// The work queue of one controller.
pub(crate) struct WorkQueue {
    state: Mutex<State>,
    adds: IntCounter,
    retries: IntCounter,
    waited: Histogram,
    worked: Histogram,
}

impl WorkQueue {
    /// An object has to be reconciled.
    pub(crate) fn add(&self, key: ObjectKey) {
        self.add_at(key, Instant::now());
    }

    /// An object has to be reconciled later.
    pub(crate) fn add_after(&self, key: ObjectKey, wait: Duration) {
        // A time beyond the range of the clock never comes.
        if let Some(due) = Instant::now().checked_add(wait) {
            self.add_at(key, due);
        }
    }

    fn add_at(&self, key: ObjectKey, due: Instant) {
        if self.state.lock().add(key, due, Instant::now()) {
            self.adds.inc();
        }
    }

    /// An object has to be reconciled again after a failure.
    pub(crate) fn retry_after(&self, key: ObjectKey, wait: Duration) {
        self.retries.inc();
        self.add_after(key, wait);
    }

    /// The reconcile of an object starts; it ends when the guard is dropped.
    pub(crate) fn start(self: &Arc<Self>, key: &ObjectKey) -> ReconcileGuard {
        let started = self.state.lock().start(key, Instant::now());
        if started.is_new {
            self.adds.inc();
        }
        self.waited.observe(started.waited.as_secs_f64());
        ReconcileGuard {
            queue: Arc::clone(self),
            key: key.clone(),
        }
    }

    /// An object is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.state.lock().waiting.remove(key);
    }
}

/// A reconcile in progress.
pub(crate) struct ReconcileGuard {
    queue: Arc<WorkQueue>,
    key: ObjectKey,
}

impl Drop for ReconcileGuard {
    fn drop(&mut self) {
        let started = self.queue.state.lock().running.remove(&self.key);
        if let Some(started) = started {
            self.queue.worked.observe(started.elapsed().as_secs_f64());
        }
    }
}

#[derive(Default)]
struct State {
    waiting: HashMap<ObjectKey, QueuedObject>,
    /// When each running reconcile started.
    running: HashMap<ObjectKey, Instant>,
}

struct QueuedObject {
    due: Instant,
    /// Whether it was counted as added: an object that is due later is not in the queue yet.
    is_counted: bool,
}

struct Started {
    is_new: bool,
    waited: Duration,
}

struct Seen {
    depth: i64,
    unfinished: Duration,
    longest: Duration,
}

impl State {
    /// Whether the object is to be counted as added.
    fn add(&mut self, key: ObjectKey, due: Instant, now: Instant) -> bool {
        let is_due = due <= now;
        if let Some(waiting) = self.waiting.get_mut(&key) {
            let is_counted = waiting.is_counted;
            // The earlier of two times counts.
            if due < waiting.due {
                *waiting = QueuedObject {
                    due,
                    is_counted: is_counted || is_due,
                };
                return is_due && !is_counted;
            }
            return false;
        }
        if self.waiting.len() < WAITING_MAX {
            self.waiting.insert(
                key,
                QueuedObject {
                    due,
                    is_counted: is_due,
                },
            );
            return is_due;
        }
        false
    }

    fn start(&mut self, key: &ObjectKey, now: Instant) -> Started {
        self.running.insert(key.clone(), now);
        match self.waiting.remove(key) {
            Some(QueuedObject { due, is_counted }) => Started {
                is_new: !is_counted,
                waited: now.saturating_duration_since(due),
            },
            None => Started {
                is_new: true,
                waited: Duration::ZERO,
            },
        }
    }

    fn seen(&self, now: Instant) -> Seen {
        let depth = self.waiting.values().filter(|waiting| waiting.due <= now).count();
        let spent = || {
            self.running
                .values()
                .map(|started| now.saturating_duration_since(*started))
        };
        Seen {
            depth: i64::try_from(depth).expect("fewer than the bound"),
            unfinished: spent().sum(),
            longest: spent().max().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            namespace: "default".into(),
            name: name.into(),
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_object_that_waits_already_is_not_added_again() {
        let mut state = State::default();
        let now = Instant::now();
        assert!(state.add(key("a"), now, now));
        assert!(!state.add(key("a"), now, now + SECOND));
        assert_eq!(state.seen(now).depth, 1);
        let started = state.start(&key("a"), now + SECOND);
        assert_eq!((started.is_new, started.waited), (false, SECOND));
    }

    #[test]
    fn what_is_due_later_is_added_when_it_is_due_or_wanted_earlier() {
        let mut state = State::default();
        let now = Instant::now();
        for name in ["a", "b"] {
            assert!(!state.add(key(name), now + 10 * SECOND, now));
        }
        assert_eq!(state.seen(now).depth, 0);
        assert!(state.add(key("a"), now + SECOND, now + SECOND));
        assert_eq!(state.seen(now + SECOND).depth, 1);
        let started = state.start(&key("a"), now + 2 * SECOND);
        assert_eq!((started.is_new, started.waited), (false, SECOND));
        let started = state.start(&key("b"), now + 11 * SECOND);
        assert_eq!((started.is_new, started.waited), (true, SECOND));
        assert_eq!(state.waiting.len(), 0);
    }

    #[test]
    fn turns_of_now_are_summed_and_the_longest_is_told() {
        let mut state = State::default();
        let now = Instant::now();
        state.start(&key("a"), now);
        state.start(&key("b"), now + SECOND);
        let seen = state.seen(now + 3 * SECOND);
        assert_eq!((seen.unfinished, seen.longest), (5 * SECOND, 3 * SECOND));
    }

    #[test]
    fn no_more_objects_are_followed_than_the_bound() {
        let mut state = State::default();
        let now = Instant::now();
        for number in 0..=WAITING_MAX {
            state.add(key(&number.to_string()), now, now);
        }
        assert_eq!(state.waiting.len(), WAITING_MAX);
    }
}
