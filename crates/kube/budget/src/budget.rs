//! A bounded amount of a resource that clients take: places for connections, bytes of bodies and of responses.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// An amount that is given out in grants to owners. If an owner asks for more than its share has, or for more than is left
/// of the whole, grants that are not pinned are revoked: of its own, or of the owner that holds most, the ones that were
/// used least recently. No owner loses a grant to one that would then hold more. Cheap to clone; all clones and shares
/// draw on one amount.
///
/// Revoking visits every grant that can be revoked: some hundreds to some thousands.
#[derive(Clone)]
pub struct Budget {
    table: Arc<Mutex<Table>>,
    owner: Owner,
    /// The most that the owner may hold.
    share_max: usize,
}

/// Who holds grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(Id);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Id {
    /// All who have no owner of their own.
    Common,
    Number(u64),
    Peer(IpAddr),
}

/// The number of the next owner.
static NEXT_OWNER: AtomicU64 = AtomicU64::new(0);

impl Owner {
    /// An owner that no other equals.
    #[must_use]
    pub fn unique() -> Self {
        Self(Id::Number(NEXT_OWNER.fetch_add(1, Ordering::Relaxed)))
    }

    /// The owner of everything that comes from an address. A client has a whole network of IPv6 addresses (RFC 6177), so
    /// the first 64 bits count.
    #[must_use]
    pub fn peer(address: IpAddr) -> Self {
        Self(Id::Peer(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
            address @ IpAddr::V4(_) => address,
        }))
    }
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
    held: HashMap<Owner, Held>,
}

/// What an owner holds.
#[derive(Default)]
struct Held {
    revocable: usize,
    pinned: usize,
    /// Its grants, pinned ones too.
    grants: usize,
}

/// A grant that can be revoked.
struct Revocable {
    owner: Owner,
    amount: usize,
    used: u64,
    revoked: CancellationToken,
}

/// A part of a [`Budget`], returned when it is dropped.
pub struct Grant {
    table: Arc<Mutex<Table>>,
    id: u64,
    owner: Owner,
    share_max: usize,
    revoked: CancellationToken,
    /// The amount to return, if the grant is pinned; otherwise the table has the amount.
    pinned: Mutex<Option<usize>>,
}

impl Budget {
    /// A budget of `max`, of which at most `revocable_max` may be in grants that are not pinned. Those who take from it
    /// directly are one owner.
    #[must_use]
    pub fn new(max: usize, revocable_max: usize) -> Self {
        let revocable_max = revocable_max.min(max);
        let table = Table {
            max,
            revocable_max,
            revocable: 0,
            pinned: 0,
            next: 0,
            grants: HashMap::default(),
            held: HashMap::default(),
        };
        Self {
            table: Arc::new(Mutex::new(table)),
            owner: Owner(Id::Common),
            share_max: usize::MAX,
        }
    }

    /// The same amount, for an owner that may hold at most `share_max` of it.
    #[must_use]
    pub fn share(&self, owner: Owner, share_max: usize) -> Self {
        Self {
            table: Arc::clone(&self.table),
            owner,
            share_max,
        }
    }

    /// Takes an amount, and revokes other grants if needed. None if there is still no room, because too much is pinned or
    /// belongs to owners that hold less.
    #[must_use]
    pub fn take(&self, amount: usize) -> Option<Grant> {
        let mut table = self.table.lock();
        if !table.make_room(self.owner, self.share_max, amount, None) {
            return None;
        }
        let revoked = CancellationToken::new();
        let id = table.tick();
        table.revocable += amount;
        let held = table.held.entry(self.owner).or_default();
        held.revocable += amount;
        held.grants += 1;
        let grant = Revocable {
            owner: self.owner,
            amount,
            used: id,
            revoked: revoked.clone(),
        };
        table.grants.insert(id, grant);
        drop(table);
        let table = Arc::clone(&self.table);
        let owner = self.owner;
        let share_max = self.share_max;
        Some(Grant {
            table,
            id,
            owner,
            share_max,
            revoked,
            pinned: Mutex::new(None),
        })
    }

    /// The amount that is granted now, to all owners.
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

    fn held_by(&self, owner: Owner) -> (usize, usize) {
        self.held
            .get(&owner)
            .map_or((0, 0), |held| (held.revocable, held.pinned))
    }

    /// Revokes grants other than `keep` until `amount` fits. Returns false, and revokes nothing, if it cannot fit.
    fn make_room(&mut self, owner: Owner, share_max: usize, amount: usize, keep: Option<u64>) -> bool {
        let Some(victims) = self.victims(owner, share_max, amount, keep) else {
            return false;
        };
        for id in victims {
            let grant = self.grants.remove(&id).expect("the id is from this map");
            self.release(grant.owner, grant.amount, 0);
            grant.revoked.cancel();
        }
        true
    }

    /// The grants that have to go so that `amount` fits.
    fn victims(&self, owner: Owner, share_max: usize, amount: usize, keep: Option<u64>) -> Option<Vec<u64>> {
        let limit = self.revocable_max.min(self.max.saturating_sub(self.pinned));
        let (own, own_pinned) = self.held_by(owner);
        let mut all = self.revocable.saturating_add(amount);
        let mut own = own.saturating_add(amount);
        if all <= limit && own.saturating_add(own_pinned) <= share_max {
            return Some(Vec::new());
        }
        let mut held: HashMap<Owner, usize> = self
            .held
            .iter()
            .map(|(owner, held)| (*owner, held.revocable))
            .collect();
        let mut victims = HashSet::new();
        while all > limit || own.saturating_add(own_pinned) > share_max {
            let own_only = own.saturating_add(own_pinned) > share_max;
            let candidates = self.grants.iter().filter(|(id, grant)| {
                let others = !own_only && held[&grant.owner] >= own;
                Some(**id) != keep && !victims.contains(*id) && (grant.owner == owner || others)
            });
            // An owner that holds as much as another loses the older grant.
            let (id, grant) = candidates.min_by_key(|(_, grant)| {
                let holds = if grant.owner == owner {
                    own
                } else {
                    held[&grant.owner]
                };
                (std::cmp::Reverse(holds), grant.used)
            })?;
            victims.insert(*id);
            all -= grant.amount;
            if grant.owner == owner {
                own -= grant.amount;
            } else if let Some(held) = held.get_mut(&grant.owner) {
                *held -= grant.amount;
            }
        }
        Some(victims.into_iter().collect())
    }

    /// Takes back a whole grant.
    fn release(&mut self, owner: Owner, revocable: usize, pinned: usize) {
        self.revocable -= revocable;
        self.pinned -= pinned;
        let Some(held) = self.held.get_mut(&owner) else {
            return;
        };
        held.revocable -= revocable;
        held.pinned -= pinned;
        held.grants -= 1;
        if held.grants == 0 {
            self.held.remove(&owner);
        }
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
        if !table.grants.contains_key(&self.id)
            || !table.make_room(self.owner, self.share_max, amount, Some(self.id))
        {
            return false;
        }
        let now = table.tick();
        table.revocable += amount;
        table.held.entry(self.owner).or_default().revocable += amount;
        let grant = table
            .grants
            .get_mut(&self.id)
            .expect("it is kept while room is made");
        grant.amount += amount;
        grant.used = now;
        true
    }

    /// Gives a part back, at most what it has. A grant that is revoked or pinned keeps its amount.
    pub fn shrink(&self, amount: usize) {
        let mut table = self.table.lock();
        let table = &mut *table;
        let Some(grant) = table.grants.get_mut(&self.id) else {
            return;
        };
        let amount = amount.min(grant.amount);
        grant.amount -= amount;
        table.revocable -= amount;
        if let Some(held) = table.held.get_mut(&self.owner) {
            held.revocable -= amount;
        }
    }

    /// Protects the grant from being revoked. False if it was revoked before.
    pub fn pin(&self) -> bool {
        let mut pinned = self.pinned.lock();
        if pinned.is_some() {
            return true;
        }
        let mut table = self.table.lock();
        let Some(grant) = table.grants.remove(&self.id) else {
            return false;
        };
        table.revocable -= grant.amount;
        table.pinned += grant.amount;
        if let Some(held) = table.held.get_mut(&self.owner) {
            held.revocable -= grant.amount;
            held.pinned += grant.amount;
        }
        *pinned = Some(grant.amount);
        true
    }

    /// Waits until the grant is revoked; for ever if that never happens. The holder then has to stop and drop the
    /// grant.
    pub async fn revoked(&self) {
        self.revoked.cancelled().await;
    }

    /// Waits for something. None if the grant is revoked before.
    pub async fn unless_revoked<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        self.revoked.run_until_cancelled(wait).await
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if let Some(amount) = self.pinned.get_mut().take() {
            table.release(self.owner, 0, amount);
        } else if let Some(grant) = table.grants.remove(&self.id) {
            table.release(self.owner, grant.amount, 0);
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
        assert_eq!(
            (revoked, is_revoked(&newcomer), budget.granted()),
            (vec![false, true, false], false, 3)
        );
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

    #[test]
    fn an_owner_with_much_loses_to_one_with_little_and_not_the_other_way_round() {
        let budget = Budget::new(10, 10);
        let rich = budget.share(Owner::unique(), 10);
        let poor = budget.share(Owner::unique(), 10);
        let stalled = rich.take(5).expect("room");
        let newer = rich.take(4).expect("room");
        let first = poor.take(2).expect("room is made");
        assert_eq!((is_revoked(&stalled), is_revoked(&newer)), (true, false));
        // The owner of four takes from itself, or not at all.
        assert!(!newer.grow(5) && !is_revoked(&first));
        let again = rich.take(6).expect("room is made");
        assert_eq!(
            (is_revoked(&newer), is_revoked(&first), is_revoked(&again)),
            (true, false, false)
        );
    }

    #[test]
    fn an_owner_holds_no_more_than_its_share_pinned_or_not() {
        let budget = Budget::new(10, 10);
        let share = budget.share(Owner::unique(), 4);
        assert!(share.take(5).is_none());
        let first = share.take(3).expect("room");
        let second = share.take(2).expect("room is made in the share");
        assert!(is_revoked(&first) && second.pin());
        assert!(share.take(3).is_none());
        drop(share.take(2).expect("room beside what is pinned"));
        assert_eq!(budget.granted(), 2);
    }

    #[test]
    fn a_network_of_addresses_is_one_peer() {
        let peer = |text: &str| Owner::peer(text.parse().expect("an address"));
        assert_eq!(peer("fd00::1"), peer("fd00::2:3"));
        assert_eq!(peer("::ffff:10.0.0.1"), peer("10.0.0.1"));
        assert_ne!(peer("fd00::1"), peer("fd00:0:0:1::1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
    }

    /// What a client does with one of four grants.
    #[derive(Debug, Clone)]
    enum Step {
        Take { slot: usize, amount: usize },
        Grow { slot: usize, amount: usize },
        Shrink { slot: usize, amount: usize },
        Touch { slot: usize },
        Pin { slot: usize },
        Drop { slot: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        let slot = 0..4_usize;
        let amount = 0..6_usize;
        prop_oneof![
            (slot.clone(), amount.clone()).prop_map(|(slot, amount)| Step::Take { slot, amount }),
            (slot.clone(), amount.clone()).prop_map(|(slot, amount)| Step::Grow { slot, amount }),
            (slot.clone(), amount).prop_map(|(slot, amount)| Step::Shrink { slot, amount }),
            slot.clone().prop_map(|slot| Step::Touch { slot }),
            slot.clone().prop_map(|slot| Step::Pin { slot }),
            slot.prop_map(|slot| Step::Drop { slot }),
        ]
    }

    proptest! {
        #[test]
        fn no_more_is_granted_than_there_is_and_all_of_it_is_returned(
            steps in proptest::collection::vec(step(), 1..60), max in 0..8_usize, revocable_max in 0..8_usize,
            share_max in 0..8_usize,
        ) {
            let budget = Budget::new(max, revocable_max);
            // Two slots have one owner.
            let owners = [Owner::unique(), Owner::unique()];
            let shares = owners.map(|owner| budget.share(owner, share_max));
            // The amount of each grant, and whether it is pinned.
            let mut slots: [Option<(Grant, usize, bool)>; 4] = Default::default();
            for step in steps {
                match step {
                    Step::Take { slot, amount } => {
                        slots[slot] = None;
                        slots[slot] = shares[slot / 2].take(amount).map(|grant| (grant, amount, false));
                    }
                    Step::Grow { slot, amount } => {
                        if let Some((grant, held, _)) = &mut slots[slot] && grant.grow(amount) {
                            *held += amount;
                        }
                    }
                    Step::Shrink { slot, amount } => {
                        if let Some((grant, held, pinned)) = &mut slots[slot] {
                            grant.shrink(amount);
                            *held -= if *pinned || is_revoked(grant) { 0 } else { amount.min(*held) };
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
                for slots in slots.chunks(2) {
                    let live = slots.iter().flatten().filter(|(grant, ..)| !is_revoked(grant));
                    prop_assert!(live.map(|(_, held, _)| held).sum::<usize>() <= share_max);
                }
            }
            drop(slots);
            prop_assert_eq!(budget.granted(), 0);
            prop_assert!(budget.table.lock().held.is_empty());
        }
    }
}
