//! The tasks behind the pages: one that follows, and one for each namespace that is viewed. Without viewers there are none.
//!
//! ```text
//!  follow ──Objects──▶ task of namespace a ──▶ Feed ──▶ viewers
//!                  └─▶ task of all         ──▶ Feed ──▶ viewers
//! ```

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::FutureExt as _;
use jiff::SignedDuration;
use nephele_controller::Clock;
use parking_lot::Mutex;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{instrument::WithSubscriber as _, subscriber::NoSubscriber};

use crate::{
    feed::Feed,
    follow::{Source, follow},
    objects::Objects,
};

/// How long a task runs without a viewer: a browser that reloads a page, or whose connection broke, is back before.
const LINGER: SignedDuration = SignedDuration::from_secs(10);
/// How often a task looks whether it has viewers.
const LOOK: Duration = Duration::from_secs(2);
/// Why there is no feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoFeed {
    #[error("too many namespaces are viewed")]
    Full,
    #[error(
        "the objects are more than this page may hold now; it tries again after a minute, and `nephele page` shows them on your own machine"
    )]
    Exceeded,
    #[error("the page ends")]
    Over,
}

/// The feeds of all namespaces that are viewed.
#[derive(Clone)]
pub(crate) struct Hub {
    source: Source,
    /// Namespaces that are viewed at a time.
    feeds_max: usize,
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
    pub(crate) fn new(source: Source, feeds_max: usize, clock: Clock, stop: CancellationToken) -> Self {
        Self {
            source,
            feeds_max,
            clock,
            stop,
            running: Arc::default(),
        }
    }

    /// The feed of a namespace, or of all. It is kept up to date while the caller holds it, and some seconds longer.
    pub(crate) fn feed(&self, namespace: Option<&str>) -> Result<Arc<Feed>, NoFeed> {
        let now = (self.clock)();
        if self.source.allowance.is_exceeded(now) {
            return Err(NoFeed::Exceeded);
        }
        if self.stop.is_cancelled() {
            return Err(NoFeed::Over);
        }
        let mut running = self.running.lock();
        let namespace = namespace.map(str::to_owned);
        if let Some(feed) = running.feeds.get(&namespace) {
            feed.touch(now);
            return Ok(Arc::clone(feed));
        }
        if running.feeds.len() == self.feeds_max {
            return Err(NoFeed::Full);
        }
        running.started += 1;
        let epoch = format!("{:x}.{}", now.as_millisecond(), running.started);
        let feed = Arc::new(Feed::new(epoch, now));
        running.feeds.insert(namespace.clone(), Arc::clone(&feed));
        let objects = self.objects(&mut running);
        drop(running);
        let task = self.clone().keep(namespace, Arc::clone(&feed), objects);
        let task = self.stop.clone().run_until_cancelled_owned(task);
        let kept = Arc::clone(&feed);
        tokio::spawn(async move {
            task.await;
            kept.close();
        });
        Ok(feed)
    }

    /// The objects, which are followed from now on.
    fn objects(&self, running: &mut Running) -> watch::Receiver<Option<Arc<Objects>>> {
        if let Some(followed) = &running.followed {
            return followed.subscribe();
        }
        let (followed, objects) = watch::channel(None);
        running.followed = Some(followed.clone());
        let state = Arc::clone(&self.running);
        let over = Arc::clone(&self.running);
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
        let following = follow(self.source.clone(), followed.clone(), is_over);
        // What the API server answers one of many viewers is no news of the process, and they could fill its log.
        let following = match self.source.allowance.is_limited() {
            true => following.with_subscriber(NoSubscriber::new()).left_future(),
            false => following.right_future(),
        };
        let following = self.stop.clone().run_until_cancelled_owned(following);
        tokio::spawn(async move {
            following.await;
            // Where that was because of too many objects, those who wait for them hear of it, and the next one begins again.
            followed.send_replace(None);
            let mut running = over.lock();
            if running
                .followed
                .as_ref()
                .is_some_and(|known| known.same_channel(&followed))
            {
                running.followed = None;
            }
        });
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
            if self.source.allowance.is_exceeded((self.clock)()) {
                break;
            }
            let mut running = self.running.lock();
            // The map and this task, twice, hold it.
            if Arc::strong_count(&feed) > 3 {
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
