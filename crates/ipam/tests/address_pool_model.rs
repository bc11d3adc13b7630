//! A pool of addresses against a model that lists everything: none twice, none outside, in any order.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, SystemTime},
};

use nephele_ipam::{AddressPool, AddressPoolSpec, AddressRange, AllocateAddressError, Owner, Usage};
use proptest::prelude::*;

/// Windows of 32 addresses, at the ends of both families too, and a v6 one with the numbers of a v4 one.
const WINDOWS: [&str; 5] =
    ["10.0.0.32", "::a00:20", "255.255.255.224", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffe0"];
const WINDOW: u128 = 32;

fn in_window(window: usize, offset: u128) -> IpAddr {
    match WINDOWS[window].parse().expect("an address") {
        IpAddr::V4(base) => IpAddr::V4((base.to_bits() + u32::try_from(offset).expect("it is small")).into()),
        IpAddr::V6(base) => IpAddr::V6((base.to_bits() + offset).into()),
    }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn owner(number: u8) -> Owner {
    Owner::new(if number.is_multiple_of(2) { "even" } else { "odd" }, &format!("machine-{number}"))
}

fn entries(window: usize, max: usize) -> impl Strategy<Value = Vec<String>> {
    let address = move |offset: u128| in_window(window, offset);
    let bits = if in_window(window, 0).is_ipv4() { 32_u32 } else { 128 };
    let entry = prop_oneof![
        (0..WINDOW).prop_map(move |offset| address(offset).to_string()),
        (0..WINDOW, 0..WINDOW).prop_map(move |(a, b)| format!("{}-{}", address(a.min(b)), address(a.max(b)))),
        (0..WINDOW, 0..=5_u32).prop_map(move |(offset, host)| format!("{}/{}", address(offset), bits - host)),
    ];
    prop::collection::vec(entry, 0..=max)
}

fn specs(window: usize) -> impl Strategy<Value = AddressPoolSpec> {
    let bits = if in_window(window, 0).is_ipv4() { 32_i64 } else { 128 };
    let gateway = prop::option::of((0..WINDOW).prop_map(move |offset| in_window(window, offset).to_string()));
    (
        entries(window, 4),
        (0..WINDOW).prop_map(move |offset| in_window(window, offset).to_string()),
        5..8_i64,
        gateway,
        any::<bool>(),
        entries(window, 3),
        prop::option::of(0..20_i64),
    )
        .prop_map(move |(mut addresses, one, host, gateway, reserved, excluded, grace)| {
            addresses.push(one);
            AddressPoolSpec {
                addresses,
                prefix: bits - host,
                gateway: gateway.unwrap_or_default(),
                allocate_reserved_ip_addresses: reserved,
                excluded_addresses: excluded,
                address_reuse_grace_period_seconds: grace,
            }
        })
}

#[derive(Debug, Clone)]
enum Step {
    Allocate(u8, Option<(usize, u128)>),
    Adopt(u8, (usize, u128)),
    Release(u8),
    Hold((usize, u128), u64),
    /// Time passes, and what is due is freed.
    Pass(u64),
    Replace(AddressPoolSpec),
}

/// Mostly of the pool's own window.
fn somewhere(window: usize) -> impl Strategy<Value = (usize, u128)> {
    (prop_oneof![9 => Just(window), 1 => 0..WINDOWS.len()], 0..WINDOW)
}

fn steps(window: usize) -> impl Strategy<Value = Vec<Step>> {
    let owners = 0..24_u8;
    let step = prop_oneof![
        6 => (owners.clone(), prop::option::weighted(0.3, somewhere(window))).prop_map(|(o, w)| Step::Allocate(o, w)),
        2 => (owners.clone(), somewhere(window)).prop_map(|(owner, at)| Step::Adopt(owner, at)),
        4 => owners.prop_map(Step::Release),
        1 => (somewhere(window), 0..100_u64).prop_map(|(at, time)| Step::Hold(at, time)),
        2 => (0..15_u64).prop_map(Step::Pass),
        1 => prop_oneof![4 => specs(window), 1 => (0..WINDOWS.len()).prop_flat_map(specs)].prop_map(Step::Replace),
    ];
    prop::collection::vec(step, 0..60)
}

fn cases() -> impl Strategy<Value = (AddressPoolSpec, Vec<Step>)> {
    (0..WINDOWS.len()).prop_flat_map(|window| (specs(window), steps(window)))
}

/// Everything listed, nothing clever.
struct Model {
    allocatable: BTreeSet<IpAddr>,
    grace: u64,
    pairs: BTreeSet<(Owner, IpAddr)>,
    held: BTreeMap<IpAddr, u64>,
}

fn list(entry: &str) -> impl Iterator<Item = IpAddr> {
    let range: AddressRange = entry.parse().expect("entries are good");
    (0..WINDOWS.len())
        .flat_map(|window| (0..WINDOW).map(move |offset| in_window(window, offset)))
        .filter(move |address| range.first() <= *address && *address <= range.last())
}

fn allocatable(spec: &AddressPoolSpec) -> BTreeSet<IpAddr> {
    let union: BTreeSet<_> = spec.addresses.iter().flat_map(|entry| list(entry)).collect();
    let lowest = union.first().expect("there is an address");
    let subnet: AddressRange = format!("{lowest}/{}", spec.prefix).parse().expect("a subnet");
    let excluded: BTreeSet<_> = spec.excluded_addresses.iter().flat_map(|entry| list(entry)).collect();
    let reserved = |address: IpAddr| {
        let ends = address == subnet.first() || address.is_ipv4() && address == subnet.last();
        ends && !spec.allocate_reserved_ip_addresses
    };
    union
        .into_iter()
        .filter(|a| !excluded.contains(a) && !reserved(*a) && a.to_string() != spec.gateway)
        .collect()
}

impl Model {
    fn new(spec: &AddressPoolSpec) -> Self {
        let grace =
            u64::try_from(spec.address_reuse_grace_period_seconds.unwrap_or(0)).expect("not negative");
        Self { allocatable: allocatable(spec), grace, pairs: BTreeSet::new(), held: BTreeMap::new() }
    }

    fn in_use(&self) -> BTreeSet<IpAddr> {
        self.pairs.iter().map(|(_, address)| *address).collect()
    }

    fn of(&self, owner: &Owner) -> Vec<IpAddr> {
        self.pairs.iter().filter(|(other, _)| other == owner).map(|(_, address)| *address).collect()
    }

    fn free(&self) -> BTreeSet<IpAddr> {
        let in_use = self.in_use();
        let taken = |address: &IpAddr| in_use.contains(address) || self.held.contains_key(address);
        self.allocatable.iter().filter(|address| !taken(address)).copied().collect()
    }

    fn allocate(&mut self, owner: &Owner, wanted: Option<IpAddr>) -> Option<IpAddr> {
        if let Some(address) = self.of(owner).first() {
            return Some(*address);
        }
        let free = self.free();
        let address = wanted.map_or_else(|| free.first().copied(), |wanted| free.get(&wanted).copied())?;
        self.pairs.insert((owner.clone(), address));
        Some(address)
    }

    fn adopt(&mut self, owner: Owner, address: IpAddr) {
        self.pairs.insert((owner, address));
        self.held.remove(&address);
    }

    fn release(&mut self, owner: &Owner, now: u64) {
        let before = self.in_use();
        self.pairs.retain(|(other, _)| other != owner);
        let after = self.in_use();
        if self.grace > 0 {
            self.held.extend(before.difference(&after).map(|address| (*address, now)));
        }
    }

    fn hold(&mut self, address: IpAddr, released_at: u64) {
        if !self.in_use().contains(&address) {
            let held = self.held.entry(address).or_insert(released_at);
            *held = released_at.max(*held);
        }
    }

    fn expire(&mut self, now: u64) -> Vec<IpAddr> {
        let mut due: Vec<_> =
            self.held.iter().filter(|(_, at)| **at + self.grace <= now).map(|(a, at)| (*at, *a)).collect();
        due.sort_unstable();
        self.held.retain(|_, at| *at + self.grace > now);
        due.into_iter().map(|(_, address)| address).collect()
    }

    fn usage(&self) -> Usage {
        let free = self.free().len() as u128;
        Usage {
            total: self.allocatable.len() as u128,
            free,
            taken: self.allocatable.len() as u128 - free,
            used: self.pairs.len() as u128,
            held: self.held.len() as u128,
            out_of_range: self.in_use().difference(&self.allocatable).count() as u128,
        }
    }
}

/// Plays the steps on both and compares after each; gives the pool and the time in the end.
fn play(spec: &AddressPoolSpec, steps: &[Step]) -> Result<(AddressPool, u64), TestCaseError> {
    let mut model = Model::new(spec);
    let mut pool = AddressPool::new(spec.validate().expect("specs are good"));
    let mut now = 50;
    for step in steps {
        match step.clone() {
            Step::Allocate(number, wanted) => {
                let (owner, wanted) =
                    (owner(number), wanted.map(|(window, offset)| in_window(window, offset)));
                let before = pool.clone();
                let allocated = pool.allocate(&owner, wanted);
                prop_assert_eq!(allocated.as_ref().ok().copied(), model.allocate(&owner, wanted));
                match allocated {
                    Ok(_) => {}
                    Err(error) => {
                        prop_assert_eq!(&pool, &before);
                        let address = wanted.filter(|address| model.allocatable.contains(address));
                        let expected = match (wanted, address) {
                            (None, _) => AllocateAddressError::Exhausted,
                            (Some(address), None) => AllocateAddressError::NotAllocatable(address),
                            (_, Some(address)) => {
                                let holder = model.pairs.iter().find(|(_, other)| *other == address);
                                match holder {
                                    Some((owner, _)) => {
                                        AllocateAddressError::InUse { address, owner: owner.clone() }
                                    }
                                    None => AllocateAddressError::Held {
                                        address,
                                        released_at: at(model.held[&address]),
                                    },
                                }
                            }
                        };
                        prop_assert_eq!(error, expected);
                    }
                }
            }
            Step::Adopt(number, (window, offset)) => {
                let (owner, address) = (owner(number), in_window(window, offset));
                let adoption = pool.adopt(owner.clone(), address);
                let others = model.pairs.iter().filter(|(other, held)| *other != owner && *held == address);
                prop_assert_eq!(
                    adoption.also_held_by,
                    others.map(|(other, _)| other.clone()).collect::<Vec<_>>()
                );
                prop_assert_eq!(adoption.in_range, model.allocatable.contains(&address));
                model.adopt(owner, address);
            }
            Step::Release(number) => {
                prop_assert_eq!(pool.release(&owner(number), at(now)), model.of(&owner(number)));
                model.release(&owner(number), now);
            }
            Step::Hold((window, offset), time) => {
                pool.hold(in_window(window, offset), at(time));
                model.hold(in_window(window, offset), time);
            }
            Step::Pass(seconds) => {
                now += seconds;
                prop_assert_eq!(pool.expire_holds(at(now)), model.expire(now));
            }
            Step::Replace(spec) => {
                pool.replace_layout(spec.validate().expect("specs are good"));
                model.allocatable = allocatable(&spec);
                model.grace = Model::new(&spec).grace;
            }
        }
        prop_assert_eq!(pool.usage(), model.usage());
        let holds: Vec<_> = model.held.iter().map(|(address, time)| (*address, at(*time))).collect();
        prop_assert_eq!(pool.holds().collect::<Vec<_>>(), holds);
        let next =
            model.held.values().min().map(|at| Duration::from_secs((at + model.grace).saturating_sub(now)));
        prop_assert_eq!(pool.next_hold_expires_in(at(now)), next);
        let in_use: BTreeSet<_> = pool.in_use().map(|(address, owner)| (owner.clone(), address)).collect();
        prop_assert_eq!(&in_use, &model.pairs);
    }
    Ok((pool, now))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_pool_does_what_the_model_does((spec, steps) in cases()) {
        play(&spec, &steps)?;
    }

    #[test]
    fn a_pool_gives_each_address_once_and_every_one((spec, _) in cases()) {
        let mut pool = AddressPool::new(spec.validate().expect("specs are good"));
        let given: Vec<_> = (0..=u8::MAX).map_while(|number| pool.allocate(&owner(number), None).ok()).collect();
        prop_assert_eq!(given, allocatable(&spec).into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_rebuilt_pool_is_the_same_in_whatever_order(
        (spec, steps) in cases(),
        order in prop::collection::vec(any::<u32>(), 200),
    ) {
        let (pool, _) = play(&spec, &steps)?;
        let mut known: Vec<(u32, Option<Owner>, IpAddr, SystemTime)> = Vec::new();
        known.extend(pool.in_use().map(|(address, owner)| (0, Some(owner.clone()), address, at(0))));
        known.extend(pool.holds().map(|(address, released_at)| (0, None, address, released_at)));
        // A hold that was not lifted when the address came into use again.
        let forgotten: Vec<_> = pool.in_use().map(|(address, _)| (0, None, address, at(7))).take(2).collect();
        known.extend(forgotten);
        for (fact, key) in known.iter_mut().zip(order) {
            fact.0 = key;
        }
        known.sort();
        let mut rebuilt = AddressPool::new(pool.layout().clone());
        for (_, owner, address, released_at) in known {
            match owner {
                Some(owner) => drop(rebuilt.adopt(owner, address)),
                None => rebuilt.hold(address, released_at),
            }
        }
        prop_assert_eq!(rebuilt, pool);
    }

    #[test]
    fn release_undoes_allocate((spec, steps) in cases(), wanted in prop::option::of(0..WINDOW), count in 1..20_u8) {
        let (mut pool, _) = play(&spec, &steps)?;
        // Without a grace period what comes back is free at once.
        let spec = AddressPoolSpec { address_reuse_grace_period_seconds: None, ..spec };
        pool.replace_layout(spec.validate().expect("specs are good"));
        let before = pool.clone();
        let wanted = wanted.map(|offset| in_window(0, offset));
        let new = |number| Owner::new("new", &format!("{number}"));
        for number in 0..count {
            let _ = pool.allocate(&new(number), wanted.filter(|_| number == 0));
        }
        for number in (0..count).rev() {
            pool.release(&new(number), at(0));
        }
        prop_assert_eq!(pool, before);
    }
}
