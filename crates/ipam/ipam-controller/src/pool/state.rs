//! The state of one pool.

use std::sync::Arc;

use jiff::Timestamp;
use nephele_api::ipam::conditions as reasons;
use nephele_ipam::Owner;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit},
    time::Instant,
};

use super::{
    allocations::{Allocation, Allocations, Answer, Request},
    key::PoolKey,
};
use crate::{
    address::Record,
    fault::{Faults, Subject, Verdict},
};

/// The number of IPAddresses of one pool that are written at a time.
const WRITES_MAX: usize = 32;

/// One pool, shared by its task, the claims on it and the watch of IPAddresses.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) key: PoolKey,
    pub(super) allocations: Mutex<Allocations>,
    pub(super) facts: Mutex<Facts>,
    pub(super) work: Notify,
    writes: Semaphore,
}

/// The fields of the pool's object that claims need. Written by the pool's task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Empty until the task has read the object.
    pub(crate) uid: String,
    pub(crate) paused: bool,
    pub(crate) deleting: bool,
    /// How long a released address is held back, in seconds.
    pub(crate) grace_period_seconds: i64,
}

impl Pool {
    pub(crate) fn new(key: PoolKey) -> Arc<Self> {
        Arc::new(Self {
            key,
            allocations: Mutex::default(),
            facts: Mutex::default(),
            work: Notify::new(),
            writes: Semaphore::new(WRITES_MAX),
        })
    }

    /// The facts of the pool's object.
    pub(crate) fn facts(&self) -> Facts {
        self.facts.lock().clone()
    }

    /// Asks for an address. If the answer changes later, the claim is reconciled.
    pub(crate) fn ask(&self, request: Request) -> Answer {
        let answer = self.allocations.lock().ask(request, Instant::now());
        if matches!(answer, Answer::Queued | Answer::Exhausted) {
            // The status of the pool says how many claims wait.
            self.work.notify_one();
        }
        answer
    }

    /// Asks for an address, unless a Fault holds the claim.
    pub(crate) fn ask_faults_first(
        &self,
        request: Request,
        faults: &Faults,
        subject: &Subject,
        now: Timestamp,
    ) -> Answer {
        let mut allocations = self.allocations.lock();
        if allocations.is_undecided(&request) {
            let answer = match faults.ask(subject, &self.key, allocations.next(&request), now) {
                Verdict::Passes => None,
                Verdict::Unrecorded => Some(Answer::Unrecorded),
                Verdict::Held(hold) => Some(Answer::Held(hold)),
            };
            if let Some(answer) = answer {
                allocations.withdraw(&request.owner);
                // The claim may have met a conflict just now.
                allocations.quarantine(&faults.quarantined(&self.key, now));
                return answer;
            }
        }
        drop(allocations);
        self.ask(request)
    }

    /// The claim does not want an address for now.
    pub(crate) fn withdraw(&self, owner: &Owner) {
        self.allocations.lock().withdraw(owner);
    }

    /// The allocation of the claim of this uid.
    pub(crate) fn allocation(&self, owner: &Owner, uid: &str) -> Allocation {
        self.allocations.lock().allocation(owner, uid)
    }

    /// The claim does not want the address that was decided on.
    pub(crate) fn drop_decision(&self, owner: &Owner, uid: &str) {
        self.allocations.lock().drop_decision(owner, uid);
        self.work.notify_one();
    }

    /// A request to create the IPAddress of a claim is about to be sent. Returns until when it may take effect.
    pub(crate) fn sending(&self, owner: &Owner, uid: &str) -> Instant {
        self.allocations.lock().sending(owner, uid, Instant::now())
    }

    /// The management API has answered that request.
    pub(crate) fn answered(&self, owner: &Owner, uid: &str, until: Instant) {
        self.allocations.lock().answered(owner, uid, until);
    }

    /// An IPAddress exists, according to the watch or the response to a write.
    pub(crate) fn applied(&self, owner: &Owner, record: Record) {
        self.allocations.lock().applied(owner, record);
        self.work.notify_one();
    }

    /// This process created an IPAddress, and the status of its claim does not name it yet.
    pub(crate) fn created(&self, owner: &Owner, record: Record) {
        self.allocations.lock().created(owner, record);
        self.work.notify_one();
    }

    /// The status of the claim names its IPAddress.
    pub(crate) fn published(&self, owner: &Owner) {
        if self.allocations.lock().published(owner) {
            self.work.notify_one();
        }
    }

    /// The claim of an IPAddress may be gone.
    pub(crate) fn suspect(&self, owner: &Owner) {
        self.allocations.lock().suspect(owner);
        self.work.notify_one();
    }

    /// An IPAddress is gone, according to the watch.
    pub(crate) fn deleted(&self, owner: &Owner, uid: &str) {
        self.allocations.lock().deleted(owner, uid);
        self.work.notify_one();
    }

    /// An IPAddress is gone, according to the response to its deletion.
    pub(crate) fn released(&self, owner: &Owner, uid: &str) {
        self.allocations.lock().released(owner, uid);
        self.work.notify_one();
    }

    /// The watch of IPAddresses had to start over.
    pub(crate) fn relisted(&self) {
        self.allocations.lock().relisted();
        self.work.notify_one();
    }

    /// Wakes the pool's task, because the status may have to change.
    pub(crate) fn look_again(&self) {
        self.work.notify_one();
    }

    /// The pool is gone. The caller has to wake its claims.
    pub(crate) fn gone(&self) {
        let message = format!("{} is gone", self.key);
        self.allocations
            .lock()
            .close(Some((reasons::POOL_NOT_READY, message)));
    }

    /// Waits until an IPAddress may be written.
    pub(crate) async fn write_permit(&self) -> SemaphorePermit<'_> {
        self.writes
            .acquire()
            .await
            .expect("the semaphore is never closed")
    }
}
