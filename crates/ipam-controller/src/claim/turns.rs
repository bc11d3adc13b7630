//! Whose turn it is when more claims ask than are served at a time: pools take turns, and the claims of each in the order
//! in which they came. Otherwise a claim on a pool of its own would wait behind all that want another one.
//!
//! A claim that has to wait is not looked at meanwhile, so that those that wait cost no more than their names; it is
//! called when its turn has come.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use nephele_ipam::Owner;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::pool::{PoolKey, Woken};

/// One that is called comes at once, unless it is gone: then its turn is another's after this time.
const CALL_LASTS: Duration = Duration::from_secs(5);

/// Owned by the claim controller. Bounded by the claims that there are.
pub(crate) struct Turns {
    max: usize,
    woken: Woken,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Those that have a turn, or were called to it.
    running: usize,
    called: HashMap<Owner, Instant>,
    lines: BTreeMap<PoolKey, VecDeque<Owner>>,
    waiting: HashSet<Owner>,
    /// The pool that was served last.
    last: Option<PoolKey>,
}

/// A turn; over when it is dropped.
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    pub(crate) fn new(max: usize, woken: Woken) -> Self {
        Self { max, woken, state: Mutex::default() }
    }

    /// A turn for a claim on this pool; none when it has to wait until it is called.
    pub(crate) fn take(&self, pool: &PoolKey, owner: &Owner, now: Instant) -> Option<Turn<'_>> {
        let mut state = self.state.lock();
        state.forget_calls(now);
        if state.called.remove(owner).is_some() {
            return Some(Turn(self));
        }
        if state.running < self.max && state.waiting.is_empty() {
            state.running += 1;
            return Some(Turn(self));
        }
        if state.waiting.insert(owner.clone()) {
            state.lines.entry(pool.clone()).or_default().push_back(owner.clone());
        }
        let calls = state.call(self.max, now);
        drop(state);
        self.woken.wake(calls);
        None
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.running -= 1;
        let calls = state.call(self.0.max, Instant::now());
        drop(state);
        self.0.woken.wake(calls);
    }
}

impl State {
    /// Those whose turn it is now.
    fn call(&mut self, max: usize, now: Instant) -> Vec<Owner> {
        let mut calls = Vec::new();
        while self.running < max {
            let Some(owner) = self.next() else { break };
            self.running += 1;
            self.called.insert(owner.clone(), now);
            calls.push(owner);
        }
        calls
    }

    /// The first of the next pool.
    fn next(&mut self) -> Option<Owner> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = self.last.as_ref().and_then(|last| self.lines.range((Excluded(last), Unbounded)).next());
        let pool = after.or_else(|| self.lines.first_key_value()).map(|(pool, _)| pool.clone())?;
        let line = self.lines.get_mut(&pool)?;
        let owner = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&pool);
        }
        self.last = Some(pool);
        if let Some(owner) = &owner {
            self.waiting.remove(owner);
        }
        owner
    }

    fn forget_calls(&mut self, now: Instant) {
        let before = self.called.len();
        self.called.retain(|_, since| now.duration_since(*since) < CALL_LASTS);
        self.running -= before - self.called.len();
    }
}

#[cfg(test)]
mod tests {
    use nephele_api::ipam::PoolKind;

    use super::*;

    fn pool(name: &str) -> PoolKey {
        PoolKey { kind: PoolKind::InClusterIPPool, namespace: "ns".into(), name: name.into() }
    }

    fn owner(name: &str) -> Owner {
        Owner::new("ns", name)
    }

    #[tokio::test]
    async fn a_claim_on_a_pool_of_its_own_does_not_wait_behind_those_that_want_another() {
        let turns = Turns::new(2, Woken::default());
        let now = Instant::now();
        let take = |claim: &str, of: &str| turns.take(&pool(of), &owner(claim), now);
        let called = || turns.state.lock().called.keys().cloned().collect::<Vec<_>>();
        let running = [take("a1", "a"), take("a2", "a")];
        assert!(running.iter().all(Option::is_some));
        for claim in ["a3", "a4", "a5"] {
            assert!(take(claim, "a").is_none());
        }
        assert!(take("b1", "b").is_none());
        // Who asks again while it waits has no second place.
        assert!(take("a3", "a").is_none());
        let [first, second] = running;
        drop(first);
        assert_eq!(called(), [owner("a3")]);
        let third = take("a3", "a");
        assert!(third.is_some());
        drop(second);
        assert_eq!(called(), [owner("b1")]);
        assert!(take("b1", "b").is_some());
        // Its turn was over at once.
        assert_eq!(called(), [owner("a4")]);
    }

    #[tokio::test]
    async fn a_claim_that_is_gone_when_it_is_called_keeps_nobody_waiting() {
        let turns = Turns::new(1, Woken::default());
        let now = Instant::now();
        let running = turns.take(&pool("a"), &owner("a1"), now);
        assert!(turns.take(&pool("a"), &owner("gone"), now).is_none());
        assert!(turns.take(&pool("a"), &owner("a2"), now).is_none());
        drop(running);
        let later = Instant::now() + CALL_LASTS;
        assert!(turns.take(&pool("a"), &owner("a2"), later).is_none());
        assert!(turns.take(&pool("a"), &owner("a2"), later).is_some());
    }
}
