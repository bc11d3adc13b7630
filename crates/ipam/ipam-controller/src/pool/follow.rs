//! The watch of one kind of pools, with a task for each pool.

use std::{
    collections::{HashMap, HashSet},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _};
use kube::{Api, runtime::watcher};
use nephele_controller::{Gate, Listing, Readable, Services, watch_failed, watched};
use nephele_poll_time::timed;
use tokio::{sync::watch, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use super::{Pool, PoolKey, PoolObject, PoolTask};
use crate::context::Context;

/// How long to wait before a task that panicked is started again.
const AFTER_PANIC: Duration = Duration::from_secs(5);

/// Watches the pools of one kind until `shutdown`; tells the readers of `first_list` when it is complete.
pub(crate) async fn follow<K: PoolObject>(
    context: Arc<Context>,
    services: Services,
    api: Api<Readable<K>>,
    gate: Gate,
    first_list: Listing,
    shutdown: CancellationToken,
) {
    let events = watched(&services, api, watcher::Config::default());
    let mut events = std::pin::pin!(events);
    let mut followed = Followed::<K> {
        context,
        known: HashMap::new(),
        tasks: JoinSet::new(),
        shutdown: shutdown.clone(),
    };
    let mut listing = HashSet::new();
    loop {
        let event = tokio::select! {
            () = shutdown.cancelled() => break,
            ended = followed.tasks.join_next(), if !followed.tasks.is_empty() => {
                if let Some(Ok(Some(key))) = ended {
                    followed.start_again(&key);
                }
                continue;
            }
            event = events.next() => event,
        };
        match event {
            None => break,
            Some(Ok(watcher::Event::Init)) => listing.clear(),
            Some(Ok(watcher::Event::InitApply(object))) => {
                listing.insert(object.key());
                followed.applied(object);
            }
            Some(Ok(watcher::Event::InitDone)) => {
                followed.retain(&listing);
                gate.open();
                first_list.finished();
            }
            Some(Ok(watcher::Event::Apply(object))) => followed.applied(object),
            Some(Ok(watcher::Event::Delete(object))) => followed.gone(&object.key()),
            Some(Err(error)) => watch_failed(K::KIND.as_str(), &error),
        }
    }
    // All tasks end on the same `shutdown`.
    while followed.tasks.join_next().await.is_some() {}
}

/// The pools of one kind. Owned by the task that follows them.
struct Followed<K: PoolObject> {
    context: Arc<Context>,
    known: HashMap<PoolKey, Known<K>>,
    /// The tasks of the pools. A task returns the pool's key if it has to be started again.
    tasks: JoinSet<Option<PoolKey>>,
    shutdown: CancellationToken,
}

struct Known<K> {
    pool: Arc<Pool>,
    uid: Option<String>,
    newest: watch::Sender<Arc<K>>,
}

impl<K: PoolObject> Followed<K> {
    fn applied(&mut self, object: K) {
        let key = object.key();
        let uid = object.meta().uid.clone();
        if let Some(known) = self.known.get(&key) {
            if known.uid == uid {
                known.newest.send_replace(Arc::new(object));
                return;
            }
            self.gone(&key);
        }
        debug!(pool = %key, "Found a pool");
        self.start(&key, Arc::new(object));
    }

    fn start(&mut self, key: &PoolKey, object: Arc<K>) {
        let pool = Pool::new(key.clone());
        self.context.pools.insert(Arc::clone(&pool));
        let uid = object.meta().uid.clone();
        let (newest, seen) = watch::channel(object);
        let task = PoolTask::new(Arc::clone(&self.context), Arc::clone(&pool), seen);
        self.known.insert(key.clone(), Known { pool, uid, newest });
        let shutdown = self.shutdown.clone();
        let ended = key.clone();
        self.tasks.spawn(timed("pool", async move {
            let work = AssertUnwindSafe(task.run(shutdown.clone())).catch_unwind();
            work.await.err()?;
            error!(pool = %ended, "The task of a pool panicked; restarting it");
            shutdown.run_until_cancelled(sleep(AFTER_PANIC)).await?;
            Some(ended)
        }));
        self.context.wake_claims_of(key);
    }

    fn start_again(&mut self, key: &PoolKey) {
        let Some(known) = self.known.remove(key) else {
            return;
        };
        known.pool.gone();
        let object = Arc::clone(&known.newest.borrow());
        self.start(key, object);
    }

    fn gone(&mut self, key: &PoolKey) {
        let Some(known) = self.known.remove(key) else {
            return;
        };
        debug!(pool = %key, "A pool is gone");
        self.context.pools.remove(key);
        known.pool.gone();
        self.context.metrics.forget(key);
        for other in self.context.overlaps.specify(key, None) {
            if let Some(other) = self.context.pools.get(&other) {
                other.look_again();
            }
        }
        self.context.wake_claims_of(key);
    }

    fn retain(&mut self, listed: &HashSet<PoolKey>) {
        let gone: Vec<PoolKey> = self
            .known
            .keys()
            .filter(|key| !listed.contains(key))
            .cloned()
            .collect();
        for key in gone {
            self.gone(&key);
        }
    }
}
