//! A bounded amount of a resource that clients take before they are authenticated: places for connections, bytes of
//! bodies.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// An amount that is given out in grants. If not enough is left, the least recently used grant that is not pinned is
/// revoked. Cheap to clone; all clones share one amount.
///
/// Revoking visits every grant that can be revoked: some hundreds to some thousands.
#[derive(Clone)]
pub struct Budget {
    table: Arc<Mutex<Table>>,
}

/// All grants. Locked for short synchronous blocks.
struct Table {
    max: usize,
    revocable_max: usize,
    revocable: usize,
    pinned: usize,
    /// The number of the next grant or use.
    next: u64,
    grants: HashMap<u64, Revocable>,
}

/// A grant that can be revoked.
struct Revocable {
    amount: usize,
    used: u64,
    revoked: CancellationToken,
}

/// A share of a [`Budget`], returned when it is dropped.
pub struct Grant {
    table: Arc<Mutex<Table>>,
    id: u64,
    revoked: CancellationToken,
    /// The amount to return, if the grant is pinned; otherwise the table has the amount.
    pinned: Mutex<Option<usize>>,
}

impl Budget {
    /// A budget of `max`, of which at most `revocable_max` may be in grants that are not pinned.
    #[must_use]
    pub fn new(max: usize, revocable_max: usize) -> Self {
        let revocable_max = revocable_max.min(max);
        let table =
            Table { max, revocable_max, revocable: 0, pinned: 0, next: 0, grants: HashMap::default() };
        Self { table: Arc::new(Mutex::new(table)) }
    }

    /// Takes an amount, and revokes other grants if needed. None if there is still no room, because too much is pinned.
    #[must_use]
    pub fn take(&self, amount: usize) -> Option<Grant> {
        let revoked = CancellationToken::new();
        let mut table = self.table.lock();
        if !table.make_room(amount, None) {
            return None;
        }
        let id = table.tick();
        table.revocable += amount;
        table.grants.insert(id, Revocable { amount, used: id, revoked: revoked.clone() });
        drop(table);
        Some(Grant { table: Arc::clone(&self.table), id, revoked, pinned: Mutex::new(None) })
    }

    /// The amount that is granted now.
    #[must_use]
    pub fn granted(&self) -> usize {
        let table = self.table.lock();
        table.revocable + table.pinned
    }
}

impl Table {
    fn tick(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Revokes grants other than `keep` until `amount` fits. Returns false, and revokes nothing, if it cannot fit.
    fn make_room(&mut self, amount: usize, keep: Option<u64>) -> bool {
        let kept = keep.and_then(|id| self.grants.get(&id)).map_or(0, |grant| grant.amount);
        let limit = self.revocable_max.min(self.max.saturating_sub(self.pinned));
        if kept.saturating_add(amount) > limit {
            return false;
        }
        while self.revocable + amount > limit {
            let others = self.grants.iter().filter(|(id, _)| Some(**id) != keep);
            let least_recent = others.min_by_key(|(_, grant)| grant.used).map(|(id, _)| *id);
            let id = least_recent.expect("other grants have the missing amount");
            let grant = self.grants.remove(&id).expect("the id is from this map");
            self.revocable -= grant.amount;
            grant.revoked.cancel();
        }
        true
    }
}

impl Grant {
    /// Marks the grant as used, so that others are revoked before it.
    pub fn touch(&self) {
        let mut table = self.table.lock();
        let now = table.tick();
        if let Some(grant) = table.grants.get_mut(&self.id) {
            grant.used = now;
        }
    }

    /// Takes more, and revokes other grants if needed. False if there is no room, or if this grant is revoked or
    /// pinned.
    #[must_use]
    pub fn grow(&self, amount: usize) -> bool {
        let mut table = self.table.lock();
        if !table.grants.contains_key(&self.id) || !table.make_room(amount, Some(self.id)) {
            return false;
        }
        let now = table.tick();
        table.revocable += amount;
        let grant = table.grants.get_mut(&self.id).expect("it is kept while room is made");
        grant.amount += amount;
        grant.used = now;
        true
    }

    /// Protects the grant from being revoked. False if it was revoked before.
    pub fn pin(&self) -> bool {
        let mut pinned = self.pinned.lock();
        if pinned.is_some() {
            return true;
        }
        let mut table = self.table.lock();
        let Some(grant) = table.grants.remove(&self.id) else { return false };
        table.revocable -= grant.amount;
        table.pinned += grant.amount;
        *pinned = Some(grant.amount);
        true
    }

    /// Waits until the grant is revoked; for ever if that never happens. The holder then has to stop and drop the
    /// grant.
    pub async fn revoked(&self) {
        self.revoked.cancelled().await;
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if let Some(amount) = self.pinned.get_mut().take() {
            table.pinned -= amount;
        } else if let Some(grant) = table.grants.remove(&self.id) {
            table.revocable -= grant.amount;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_revoked(grant: &Grant) -> bool {
        grant.revoked.is_cancelled()
    }

    #[test]
    fn a_newcomer_takes_the_place_of_the_one_that_was_used_least_recently() {
        let budget = Budget::new(3, 3);
        let grants: Vec<Grant> = (0..3).map(|_| budget.take(1).expect("room")).collect();
        grants[0].touch();
        let newcomer = budget.take(1).expect("room is made");
        let revoked: Vec<bool> = grants.iter().map(is_revoked).collect();
        assert_eq!((revoked, is_revoked(&newcomer), budget.granted()), (vec![false, true, false], false, 3));
    }

    #[test]
    fn what_is_pinned_stays_and_newcomers_are_refused_when_all_is_pinned() {
        let budget = Budget::new(2, 1);
        let first = budget.take(1).expect("room");
        assert!(first.pin());
        let second = budget.take(1).expect("room");
        assert!(second.pin());
        assert!(budget.take(1).is_none());
        drop(first);
        let third = budget.take(1).expect("room again");
        assert!(budget.take(1).is_some() && is_revoked(&third) && !is_revoked(&second));
    }

    #[test]
    fn one_that_was_revoked_can_neither_grow_nor_be_pinned() {
        let budget = Budget::new(1, 1);
        let first = budget.take(1).expect("room");
        let _second = budget.take(1).expect("room is made");
        assert_eq!((first.grow(0), first.pin(), budget.granted()), (false, false, 1));
    }

    /// What a client does with one of four grants.
    #[derive(Debug, Clone)]
    enum Step {
        Take { slot: usize, amount: usize },
        Grow { slot: usize, amount: usize },
        Touch { slot: usize },
        Pin { slot: usize },
        Drop { slot: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        let (slot, amount) = (0..4_usize, 0..6_usize);
        prop_oneof![
            (slot.clone(), amount.clone()).prop_map(|(slot, amount)| Step::Take { slot, amount }),
            (slot.clone(), amount).prop_map(|(slot, amount)| Step::Grow { slot, amount }),
            slot.clone().prop_map(|slot| Step::Touch { slot }),
            slot.clone().prop_map(|slot| Step::Pin { slot }),
            slot.prop_map(|slot| Step::Drop { slot }),
        ]
    }

    proptest! {
        #[test]
        fn no_more_is_granted_than_there_is_and_all_of_it_comes_back(
            steps in proptest::collection::vec(step(), 1..60), max in 0..8_usize, revocable_max in 0..8_usize,
        ) {
            let budget = Budget::new(max, revocable_max);
            // The amount of each grant, and whether it is pinned.
            let mut slots: [Option<(Grant, usize, bool)>; 4] = Default::default();
            for step in steps {
                match step {
                    Step::Take { slot, amount } => {
                        slots[slot] = None;
                        slots[slot] = budget.take(amount).map(|grant| (grant, amount, false));
                    }
                    Step::Grow { slot, amount } => {
                        if let Some((grant, held, _)) = &mut slots[slot] && grant.grow(amount) {
                            *held += amount;
                        }
                    }
                    Step::Touch { slot } => if let Some((grant, ..)) = &slots[slot] { grant.touch(); },
                    Step::Pin { slot } => {
                        if let Some((grant, _, pinned)) = &mut slots[slot] { *pinned = grant.pin(); }
                    }
                    Step::Drop { slot } => slots[slot] = None,
                }
                let live = || slots.iter().flatten().filter(|(grant, ..)| !is_revoked(grant));
                let sum: usize = live().map(|(_, held, _)| held).sum();
                let revocable: usize = live().filter(|(.., pinned)| !pinned).map(|(_, held, _)| held).sum();
                prop_assert_eq!(budget.granted(), sum);
                prop_assert!(sum <= max && revocable <= revocable_max);
            }
            drop(slots);
            prop_assert_eq!(budget.granted(), 0);
        }
    }
}
