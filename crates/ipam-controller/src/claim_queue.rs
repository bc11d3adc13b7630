//! The queue of claims: which are looked at, and whose turn it is to send requests.
//!
//! ```text
//!  wake ──▶ due ──listen──▶ controller ──▶ reconcile ──turn──▶ requests ──drop──▶ the next is called: due
//!                                             └─ no turn free: queued, by pool and by age
//! ```
//!
//! To look at a claim takes memory only, and needs no turn. To send requests for it needs one, and there are as many as
//! claims are to be worked on at a time. Claims of one pool get them first in, first out, and pools in rotation, so that a
//! claim never waits behind all the claims of another pool. A claim without a turn is put down by name and returns to the
//! controller when it is called, so a waiting claim costs no more than its name.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, stream};
use jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use nephele_api::ipam::v1beta2::IPAddressClaim;
use nephele_ipam::Owner;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::context::owner;
use crate::pool::PoolKey;

/// A claim that is called comes at once. If the controller lost it, another has its turn after this time.
const CALL_LASTS: Duration = Duration::from_secs(5);

/// The queue of all claims. Cheap to clone. Bounded by the claims that exist: each is in it once as due and once as
/// queued.
#[derive(Clone)]
pub(crate) struct ClaimQueue {
    shared: Arc<Shared>,
}

struct Shared {
    /// How many turns there are.
    max: usize,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Claims to look at, in order.
    due: VecDeque<Owner>,
    is_due: HashSet<Owner>,
    /// Turns that are taken, or that a claim was called to.
    taken: usize,
    /// Claims that were called, and when.
    called: HashMap<Owner, Instant>,
    queued: BTreeMap<PoolKey, BTreeSet<Place>>,
    is_queued: HashSet<Owner>,
    arrivals: u64,
    /// The pool whose claim was called last.
    last: Option<PoolKey>,
}

/// A place in the queue of a pool: by the time since when the claim has had something to do, then as they came.
type Place = (Timestamp, u64, Owner);

/// The turn of a claim. Over when it is dropped.
pub(crate) struct Turn<'a>(&'a ClaimQueue);

impl ClaimQueue {
    pub(crate) fn new(max: usize) -> Self {
        let shared = Shared { max, state: Mutex::default(), changed: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// These claims are looked at soon.
    pub(crate) fn wake(&self, owners: impl IntoIterator<Item = Owner>) {
        let mut state = self.shared.state.lock();
        for owner in owners {
            state.wake(owner);
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// A turn for a claim on this pool; none when it has to wait until it is called.
    pub(crate) fn turn(&self, pool: &PoolKey, claim: &IPAddressClaim) -> Option<Turn<'_>> {
        let mut state = self.shared.state.lock();
        let name = owner(&claim.metadata);
        if state.called.remove(&name).is_some() {
            return Some(Turn(self));
        }
        if state.taken < self.shared.max && state.queued.is_empty() {
            state.taken += 1;
            return Some(Turn(self));
        }
        if state.is_queued.insert(name.clone()) {
            state.arrivals += 1;
            let place = (since(claim), state.arrivals, name);
            state.queued.entry(pool.clone()).or_default().insert(place);
        }
        None
    }

    /// The claim needs no turn: one that it was called to is another's.
    pub(crate) fn pass(&self, owner: &Owner) {
        let mut state = self.shared.state.lock();
        if state.called.remove(owner).is_some() {
            self.give_on(state);
        }
    }

    /// A turn is free: it is the next claim's.
    fn give_on(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        state.taken -= 1;
        state.call(self.shared.max, Instant::now());
        drop(state);
        self.shared.changed.notify_one();
    }

    /// The claims to look at, as the controller names them. Those that are not in the store are left out.
    pub(crate) fn listen(
        &self,
        claims: Store<IPAddressClaim>,
    ) -> impl Stream<Item = ObjectRef<IPAddressClaim>> + Send + 'static {
        stream::unfold((self.clone(), claims), |(queue, claims)| async move {
            loop {
                let shared = Arc::clone(&queue.shared);
                let changed = shared.changed.notified();
                let (next, alarm) = shared.state.lock().next_due(shared.max, Instant::now());
                if let Some(owner) = next {
                    let claim = ObjectRef::new(owner.name()).within(owner.namespace());
                    if claims.get(&claim).is_some() {
                        return Some((claim, (queue, claims)));
                    }
                    queue.pass(&owner);
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

impl Drop for Turn<'_> {
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

    /// The next claim to look at; without one, when a call is over that nobody has followed.
    fn next_due(&mut self, max: usize, now: Instant) -> (Option<Owner>, Option<Instant>) {
        let before = self.called.len();
        self.called.retain(|_, since| now.duration_since(*since) < CALL_LASTS);
        self.taken -= before - self.called.len();
        self.call(max, now);
        let next = self.due.pop_front();
        if let Some(owner) = &next {
            self.is_due.remove(owner);
        }
        (next, self.called.values().min().map(|since| *since + CALL_LASTS))
    }

    /// Calls the claims whose turn it is.
    fn call(&mut self, max: usize, now: Instant) {
        while self.taken < max {
            let Some(owner) = self.next() else { break };
            self.taken += 1;
            self.called.insert(owner.clone(), now);
            self.wake(owner);
        }
    }

    /// The first claim of the next pool.
    fn next(&mut self) -> Option<Owner> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = self.last.as_ref().and_then(|last| self.queued.range((Excluded(last), Unbounded)).next());
        let pool = after.or_else(|| self.queued.first_key_value()).map(|(pool, _)| pool.clone())?;
        let places = self.queued.get_mut(&pool)?;
        let first = places.pop_first();
        if places.is_empty() {
            self.queued.remove(&pool);
        }
        self.last = Some(pool);
        let (.., owner) = first?;
        self.is_queued.remove(&owner);
        Some(owner)
    }
}

/// Since when a claim has had something to do: its deletion, or its creation.
fn since(claim: &IPAddressClaim) -> Timestamp {
    let meta = &claim.metadata;
    let since = meta.deletion_timestamp.as_ref().or(meta.creation_timestamp.as_ref());
    since.map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

#[cfg(test)]
mod tests;
