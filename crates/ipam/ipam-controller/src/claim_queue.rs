//! The queue of claims: the claims to reconcile, and the slots for claims that send requests.
//!
//! ```text
//!  wake ──▶ due ──listen──▶ controller ──▶ reconcile ──slot──▶ requests ──drop──▶ a slot is reserved for the next: due
//!                                             └─ no slot is free: queued, by pool and by age
//! ```
//!
//! Planning only reads memory and needs no slot. Sending requests for a claim needs a slot; the number of slots limits
//! how many claims send requests at a time. Claims of one pool get slots in the order in which they began to wait.
//! Pools get them in rotation, so that a claim never waits behind all the claims of another pool. A claim without a
//! slot stays in the queue by name and goes back to the controller when a slot is reserved for it, so a waiting claim
//! costs no more than its name.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::{Stream, stream};
use jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use nephele_api::ipam::v1beta2::IPAddressClaim;
use nephele_ipam::Owner;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{owner::owner, pool::PoolKey};

/// How long a slot stays reserved for a claim. The controller reconciles the claim at once; if the claim gets lost on
/// the way, another one gets the slot after this time.
const RESERVATION_LASTS: Duration = Duration::from_secs(5);

/// The queue of all claims. Cheap to clone. Bounded by the claims that exist: each is at most once in `due` and once
/// in `queued`.
#[derive(Clone)]
pub(crate) struct ClaimQueue {
    shared: Arc<Shared>,
}

struct Shared {
    slots: usize,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Claims to reconcile, in order.
    due: VecDeque<Owner>,
    is_due: HashSet<Owner>,
    /// Slots that are in use or reserved.
    taken: usize,
    /// Claims with a reserved slot, and since when.
    reserved: HashMap<Owner, Instant>,
    queued: BTreeMap<PoolKey, BTreeSet<Position>>,
    is_queued: HashSet<Owner>,
    arrivals: u64,
    /// The pool whose claim got the last slot.
    last: Option<PoolKey>,
}

/// A position in the queue of a pool: by the time at which the claim began to wait, then by arrival.
type Position = (Timestamp, u64, Owner);

/// Permission to send requests for a claim. Dropping it frees the slot.
pub(crate) struct Slot<'a>(&'a ClaimQueue);

impl ClaimQueue {
    pub(crate) fn new(slots: usize) -> Self {
        let shared = Shared {
            slots,
            state: Mutex::default(),
            changed: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Requests a reconcile of these claims.
    pub(crate) fn wake(&self, owners: impl IntoIterator<Item = Owner>) {
        let mut state = self.shared.state.lock();
        for owner in owners {
            state.wake(owner);
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// A slot for a claim on this pool; none if the claim has to wait until a slot is reserved for it.
    pub(crate) fn slot(&self, pool: &PoolKey, claim: &IPAddressClaim) -> Option<Slot<'_>> {
        let mut state = self.shared.state.lock();
        let name = owner(&claim.metadata);
        if state.reserved.remove(&name).is_some() {
            return Some(Slot(self));
        }
        if state.taken < self.shared.slots && state.queued.is_empty() {
            state.taken += 1;
            return Some(Slot(self));
        }
        if state.is_queued.insert(name.clone()) {
            state.arrivals += 1;
            let position = (since(claim), state.arrivals, name);
            state.queued.entry(pool.clone()).or_default().insert(position);
        }
        None
    }

    /// The claim needs no slot. If one is reserved for it, the next claim gets it.
    pub(crate) fn decline(&self, owner: &Owner) {
        let mut state = self.shared.state.lock();
        if state.reserved.remove(owner).is_some() {
            self.give_on(state);
        }
    }

    /// Passes on a slot that became free to the next claim.
    fn give_on(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        state.taken -= 1;
        state.reserve(self.shared.slots, Instant::now());
        drop(state);
        self.shared.changed.notify_one();
    }

    /// The claims to reconcile. Claims that are not in the store are left out.
    pub(crate) fn listen(
        &self,
        claims: Store<IPAddressClaim>,
    ) -> impl Stream<Item = ObjectRef<IPAddressClaim>> + Send + 'static {
        stream::unfold((self.clone(), claims), |(queue, claims)| async move {
            loop {
                let shared = Arc::clone(&queue.shared);
                let changed = shared.changed.notified();
                let (next, alarm) = shared.state.lock().next_due(shared.slots, Instant::now());
                if let Some(owner) = next {
                    let claim = ObjectRef::new(owner.name()).within(owner.namespace());
                    if claims.get(&claim).is_some() {
                        return Some((claim, (queue, claims)));
                    }
                    queue.decline(&owner);
                    continue;
                }
                match alarm {
                    Some(at) => tokio::select! {
                        () = changed => {}
                        () = sleep_until(at) => {}
                    },
                    None => changed.await,
                }
            }
        })
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.give_on(self.0.shared.state.lock());
    }
}

impl State {
    fn wake(&mut self, owner: Owner) {
        if self.is_due.insert(owner.clone()) {
            self.due.push_back(owner);
        }
    }

    /// The next claim to reconcile, and when the first reservation ends.
    fn next_due(&mut self, slots: usize, now: Instant) -> (Option<Owner>, Option<Instant>) {
        let before = self.reserved.len();
        self.reserved
            .retain(|_, since| now.duration_since(*since) < RESERVATION_LASTS);
        self.taken -= before - self.reserved.len();
        self.reserve(slots, now);
        let next = self.due.pop_front();
        if let Some(owner) = &next {
            self.is_due.remove(owner);
        }
        (
            next,
            self.reserved
                .values()
                .min()
                .map(|since| *since + RESERVATION_LASTS),
        )
    }

    /// Reserves the free slots for the claims that are next.
    fn reserve(&mut self, slots: usize, now: Instant) {
        while self.taken < slots {
            let Some(owner) = self.next() else { break };
            self.taken += 1;
            self.reserved.insert(owner.clone(), now);
            self.wake(owner);
        }
    }

    /// The first claim in the queue of the next pool.
    fn next(&mut self) -> Option<Owner> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = self
            .last
            .as_ref()
            .and_then(|last| self.queued.range((Excluded(last), Unbounded)).next());
        let pool = after
            .or_else(|| self.queued.first_key_value())
            .map(|(pool, _)| pool.clone())?;
        let positions = self.queued.get_mut(&pool)?;
        let first = positions.pop_first();
        if positions.is_empty() {
            self.queued.remove(&pool);
        }
        self.last = Some(pool);
        let (.., owner) = first?;
        self.is_queued.remove(&owner);
        Some(owner)
    }
}

/// When a claim began to wait: when its deletion was requested, or else when it was created.
fn since(claim: &IPAddressClaim) -> Timestamp {
    let meta = &claim.metadata;
    let since = meta
        .deletion_timestamp
        .as_ref()
        .or(meta.creation_timestamp.as_ref());
    since.map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

#[cfg(test)]
mod tests;
