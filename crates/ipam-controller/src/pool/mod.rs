//! Pools: what each knows, the task that writes it, and all of them by name.

mod follow;
mod keeper;
mod key;
mod kinds;
mod ledger;
mod registry;
mod report;
mod space;

use std::sync::Arc;

use jiff::Timestamp;
use nephele_api::ipam::conditions as reasons;
use nephele_ipam::Owner;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

pub(crate) use follow::follow;
pub(crate) use keeper::Keeper;
pub(crate) use key::PoolKey;
pub(crate) use kinds::{PoolObject, PoolSpec};
pub(crate) use ledger::{Answer, Request, Standing, Troubles};
pub(crate) use registry::{Pools, Woken};
pub(crate) use space::{Grant, Place, Space, address_spec, prefix_spec};

use self::ledger::Ledger;
use crate::address::Record;

/// IPAddresses of one pool written at a time.
const WRITES_MAX: usize = 32;

/// One pool, shared by its task, the claims on it and the watch of IPAddresses.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) key: PoolKey,
    ledger: Mutex<Ledger>,
    facts: Mutex<Facts>,
    /// Wakes the pool's task.
    work: Notify,
    writes: Semaphore,
}

/// What a claim has to know of the pool's object. Owned by the pool's task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Empty before the first look.
    pub(crate) uid: String,
    pub(crate) paused: bool,
    pub(crate) deleting: bool,
    /// For how many seconds a released address is held back.
    pub(crate) grace_period_seconds: i64,
}

impl Pool {
    pub(crate) fn new(key: PoolKey) -> Arc<Self> {
        Arc::new(Self {
            key,
            ledger: Mutex::default(),
            facts: Mutex::default(),
            work: Notify::new(),
            writes: Semaphore::new(WRITES_MAX),
        })
    }

    /// What is known of its object.
    pub(crate) fn facts(&self) -> Facts {
        self.facts.lock().clone()
    }

    /// Asks for an address, and waits for the answer: until the next write of the pool at most.
    pub(crate) async fn ask(&self, request: Request) -> Answer {
        let asked = self.ledger.lock().ask(request, Instant::now());
        match asked {
            Ok(answer) => {
                if answer == Answer::Exhausted {
                    // The pool says how many wait.
                    self.work.notify_one();
                }
                answer
            }
            Err(answer) => {
                self.work.notify_one();
                // The pool went, with everybody who asked.
                answer.await.unwrap_or(Answer::Unavailable {
                    reason: reasons::POOL_NOT_READY,
                    message: format!("{} is gone", self.key),
                })
            }
        }
    }

    /// The claim does not want anything for now.
    pub(crate) fn withdraw(&self, owner: &Owner) {
        self.ledger.lock().withdraw(owner);
    }

    /// What a claim that goes leaves behind here.
    pub(crate) fn standing(&self, owner: &Owner, uid: &str) -> Standing {
        self.ledger.lock().standing(owner, uid)
    }

    /// What was decided on will not be made.
    pub(crate) fn drop_intent(&self, owner: &Owner, uid: &str) {
        self.ledger.lock().drop_intent(owner, uid);
        self.work.notify_one();
    }

    /// An IPAddress is there, by the watch or by the answer to a write.
    pub(crate) fn applied(&self, owner: Owner, record: Record) {
        self.ledger.lock().applied(owner, record);
        self.work.notify_one();
    }

    /// This process made an IPAddress, and is about to tell its claim.
    pub(crate) fn made(&self, owner: Owner, record: Record) {
        self.ledger.lock().made(owner, record);
        self.work.notify_one();
    }

    /// The claim was told.
    pub(crate) fn published(&self, owner: &Owner) {
        self.ledger.lock().published(owner);
        self.work.notify_one();
    }

    /// The claim of an IPAddress may be gone.
    pub(crate) fn suspect(&self, owner: &Owner) {
        self.ledger.lock().suspect(owner);
        self.work.notify_one();
    }

    /// An IPAddress is gone, by the watch.
    pub(crate) fn deleted(&self, owner: &Owner, uid: &str) {
        self.ledger.lock().deleted(owner, uid);
        self.work.notify_one();
    }

    /// An IPAddress is gone, by the answer to its deletion.
    pub(crate) fn released(&self, owner: &Owner, uid: &str) {
        self.ledger.lock().released(owner, uid);
        self.work.notify_one();
    }

    /// The watch of IPAddresses had to start over.
    pub(crate) fn relisted(&self) {
        self.ledger.lock().relisted();
        self.work.notify_one();
    }

    /// Its task has something else to tell.
    pub(crate) fn look_again(&self) {
        self.work.notify_one();
    }

    /// The pool is gone, and so are those who wait for it.
    pub(crate) fn gone(&self) {
        let message = format!("{} is gone", self.key);
        self.ledger.lock().close(Some((reasons::POOL_NOT_READY, message)));
    }

    /// Waits for the turn to write an IPAddress.
    pub(crate) async fn turn_to_write(&self) -> SemaphorePermit<'_> {
        self.writes.acquire().await.expect("nobody closes it")
    }
}

/// How long until `since` is `seconds` ago; zero when it is.
pub(crate) fn remaining(since: Timestamp, seconds: i64, now: Timestamp) -> std::time::Duration {
    let past = now.duration_since(since);
    let left = jiff::SignedDuration::from_secs(seconds).saturating_sub(past);
    std::time::Duration::try_from(left).unwrap_or(std::time::Duration::ZERO)
}
