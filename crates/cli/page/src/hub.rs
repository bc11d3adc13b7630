//! The tasks behind the pages: one that follows, and one for each namespace that is viewed. Without viewers there are none.
//!
//! ```text
//!  follow ──Objects──▶ task of namespace a ──▶ Feed ──▶ viewers
//!                  └─▶ task of all         ──▶ Feed ──▶ viewers
//! ```

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::SignedDuration;
use nephele_controller::Clock;
use parking_lot::Mutex;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{
    feed::Feed,
    follow::{Source, follow},
    objects::Objects,
};

/// How long a task runs without a viewer: a browser that reloads a page, or whose connection broke, is back before.
const LINGER: SignedDuration = SignedDuration::from_secs(10);
/// How often a task looks whether it has viewers.
const LOOK: Duration = Duration::from_secs(2);
/// Namespaces that are viewed at a time.
pub(crate) const FEEDS_MAX: usize = 64;

/// The feeds of all namespaces that are viewed.
#[derive(Clone)]
pub(crate) struct Hub {
    source: Source,
    clock: Clock,
    stop: CancellationToken,
    running: Arc<Mutex<Running>>,
}

#[derive(Default)]
struct Running {
    /// The objects that are followed, if they are.
    followed: Option<watch::Sender<Option<Arc<Objects>>>>,
    feeds: BTreeMap<Option<String>, Arc<Feed>>,
    /// How many feeds there were, for their names.
    started: u64,
}

impl Hub {
    /// A hub without tasks. Those that it starts end with `stop`.
    pub(crate) fn new(source: Source, clock: Clock, stop: CancellationToken) -> Self {
        Self {
            source,
            clock,
            stop,
            running: Arc::default(),
        }
    }

    /// The feed of a namespace, or of all. It is kept up to date while the caller holds it, and some seconds longer. None if
    /// too many namespaces are viewed.
    pub(crate) fn feed(&self, namespace: Option<&str>) -> Option<Arc<Feed>> {
        let mut running = self.running.lock();
        let namespace = namespace.map(str::to_owned);
        let now = (self.clock)();
        if let Some(feed) = running.feeds.get(&namespace) {
            feed.touch(now);
            return Some(Arc::clone(feed));
        }
        if running.feeds.len() == FEEDS_MAX {
            return None;
        }
        running.started += 1;
        let epoch = format!("{:x}.{}", now.as_millisecond(), running.started);
        let feed = Arc::new(Feed::new(epoch, now));
        running.feeds.insert(namespace.clone(), Arc::clone(&feed));
        let objects = self.objects(&mut running);
        drop(running);
        let task = self.clone().keep(namespace, Arc::clone(&feed), objects);
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(task));
        Some(feed)
    }

    /// The objects, which are followed from now on.
    fn objects(&self, running: &mut Running) -> watch::Receiver<Option<Arc<Objects>>> {
        if let Some(followed) = &running.followed {
            return followed.subscribe();
        }
        let (followed, objects) = watch::channel(None);
        running.followed = Some(followed.clone());
        let state = Arc::clone(&self.running);
        let is_over = move || {
            let mut running = state.lock();
            let is_read = running
                .followed
                .as_ref()
                .is_some_and(|followed| followed.receiver_count() > 0);
            if !is_read {
                running.followed = None;
            }
            !is_read
        };
        let following = follow(self.source.clone(), followed, is_over);
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(following));
        objects
    }

    /// Publishes what a namespace shows, until nothing else holds the feed.
    async fn keep(
        self,
        namespace: Option<String>,
        feed: Arc<Feed>,
        mut objects: watch::Receiver<Option<Arc<Objects>>>,
    ) {
        // Another feed may have begun the watches: what they have so far is no change.
        let known = objects.borrow_and_update().clone();
        if let Some(known) = known {
            feed.publish(known, namespace.as_deref());
        }
        loop {
            tokio::select! {
                changed = objects.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    let now = objects.borrow_and_update().clone();
                    if let Some(now) = now {
                        feed.publish(now, namespace.as_deref());
                    }
                }
                () = sleep(LOOK) => {}
            }
            let mut running = self.running.lock();
            // The map and this task hold it.
            if Arc::strong_count(&feed) > 2 {
                feed.touch((self.clock)());
            } else if feed.is_stale(LINGER, (self.clock)()) {
                running.feeds.remove(&namespace);
                return;
            }
        }
        self.running.lock().feeds.remove(&namespace);
    }

    /// How many tasks run.
    #[cfg(test)]
    pub(crate) fn tasks(&self) -> usize {
        let running = self.running.lock();
        running.feeds.len() + usize::from(running.followed.is_some())
    }
}

#[cfg(test)]
mod tests;
