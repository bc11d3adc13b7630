//! A pool of addresses against a model that lists every address: no address twice, none outside, in any order.

use std::{collections::BTreeSet, net::IpAddr};

use nephele_ipam::{AddressPool, AddressPoolSpec, AddressRange, AllocateAddressError, Owner, Usage};
use proptest::prelude::*;

/// Windows of 32 addresses, also at the ends of both families, and a v6 window with the numbers of a v4 window.
const WINDOWS: [&str; 5] = [
    "10.0.0.32",
    "::a00:20",
    "255.255.255.224",
    "::",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffe0",
];
const WINDOW: u128 = 32;

fn in_window(window: usize, offset: u128) -> IpAddr {
    match WINDOWS[window].parse().expect("an address") {
        IpAddr::V4(base) => IpAddr::V4((base.to_bits() + u32::try_from(offset).expect("it is small")).into()),
        IpAddr::V6(base) => IpAddr::V6((base.to_bits() + offset).into()),
    }
}

fn owner(number: u8) -> Owner {
    Owner::new(
        if number.is_multiple_of(2) { "even" } else { "odd" },
        &format!("machine-{number}"),
    )
}

fn entries(window: usize, max: usize) -> impl Strategy<Value = Vec<String>> {
    let address = move |offset: u128| in_window(window, offset);
    let bits = if in_window(window, 0).is_ipv4() {
        32_u32
    } else {
        128
    };
    let entry = prop_oneof![
        (0..WINDOW).prop_map(move |offset| address(offset).to_string()),
        (0..WINDOW, 0..WINDOW).prop_map(move |(a, b)| format!("{}-{}", address(a.min(b)), address(a.max(b)))),
        (0..WINDOW, 0..=5_u32).prop_map(move |(offset, host)| format!("{}/{}", address(offset), bits - host)),
    ];
    prop::collection::vec(entry, 0..=max)
}

fn specs(window: usize) -> impl Strategy<Value = AddressPoolSpec> {
    let bits = if in_window(window, 0).is_ipv4() {
        32_i64
    } else {
        128
    };
    let gateway = prop::option::of((0..WINDOW).prop_map(move |offset| in_window(window, offset).to_string()));
    (
        entries(window, 4),
        (0..WINDOW).prop_map(move |offset| in_window(window, offset).to_string()),
        5..8_i64,
        gateway,
        any::<bool>(),
        entries(window, 3),
    )
        .prop_map(move |(mut addresses, one, host, gateway, reserved, excluded)| {
            addresses.push(one);
            AddressPoolSpec {
                addresses,
                prefix: bits - host,
                gateway: gateway.unwrap_or_default(),
                allocate_reserved_ip_addresses: reserved,
                excluded_addresses: excluded,
                address_reuse_grace_period_seconds: None,
            }
        })
}

#[derive(Debug, Clone)]
enum Step {
    Allocate(u8, Option<(usize, u128)>),
    Adopt(u8, (usize, u128)),
    Release(u8),
    Quarantined((usize, u128)),
    PutBack((usize, u128)),
    Replace(AddressPoolSpec),
}

/// An address, mostly of the pool's own window.
fn somewhere(window: usize) -> impl Strategy<Value = (usize, u128)> {
    (prop_oneof![9 => Just(window), 1 => 0..WINDOWS.len()], 0..WINDOW)
}

fn steps(window: usize) -> impl Strategy<Value = Vec<Step>> {
    let owners = 0..24_u8;
    let step = prop_oneof![
        6 => (owners.clone(), prop::option::weighted(0.3, somewhere(window))).prop_map(|(o, w)| Step::Allocate(o, w)),
        2 => (owners.clone(), somewhere(window)).prop_map(|(owner, at)| Step::Adopt(owner, at)),
        4 => owners.prop_map(Step::Release),
        1 => somewhere(window).prop_map(Step::Quarantined),
        1 => somewhere(window).prop_map(Step::PutBack),
        1 => prop_oneof![4 => specs(window), 1 => (0..WINDOWS.len()).prop_flat_map(specs)].prop_map(Step::Replace),
    ];
    prop::collection::vec(step, 0..60)
}

fn cases() -> impl Strategy<Value = (AddressPoolSpec, Vec<Step>)> {
    (0..WINDOWS.len()).prop_flat_map(|window| (specs(window), steps(window)))
}

/// The model: plain lists of all addresses.
struct Model {
    allocatable: BTreeSet<IpAddr>,
    pairs: BTreeSet<(Owner, IpAddr)>,
    quarantined: BTreeSet<IpAddr>,
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
    let excluded: BTreeSet<_> = spec
        .excluded_addresses
        .iter()
        .flat_map(|entry| list(entry))
        .collect();
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
        Self {
            allocatable: allocatable(spec),
            pairs: BTreeSet::new(),
            quarantined: BTreeSet::new(),
        }
    }

    fn in_use(&self) -> BTreeSet<IpAddr> {
        self.pairs.iter().map(|(_, address)| *address).collect()
    }

    fn of(&self, owner: &Owner) -> Vec<IpAddr> {
        self.pairs
            .iter()
            .filter(|(other, _)| other == owner)
            .map(|(_, address)| *address)
            .collect()
    }

    fn free(&self) -> BTreeSet<IpAddr> {
        let in_use = self.in_use();
        self.allocatable
            .difference(&in_use)
            .filter(|address| !self.quarantined.contains(address))
            .copied()
            .collect()
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
    }

    fn release(&mut self, owner: &Owner) {
        self.pairs.retain(|(other, _)| other != owner);
    }

    fn usage(&self) -> Usage {
        let free = self.free().len() as u128;
        Usage {
            total: self.allocatable.len() as u128,
            free,
            taken: self.allocatable.len() as u128 - free,
            used: self.pairs.len() as u128,
            out_of_range: self.in_use().difference(&self.allocatable).count() as u128,
        }
    }
}

/// Runs the steps on the pool and on the model, and compares them after each step; returns the final pool.
fn play(spec: &AddressPoolSpec, steps: &[Step]) -> Result<AddressPool, TestCaseError> {
    let mut model = Model::new(spec);
    let mut pool = AddressPool::new(spec.validate().expect("specs are good"));
    for step in steps {
        match step.clone() {
            Step::Allocate(number, wanted) => {
                let owner = owner(number);
                let wanted = wanted.map(|(window, offset)| in_window(window, offset));
                let before = pool.clone();
                let next = pool.next(&owner, wanted);
                let allocated = pool.allocate(&owner, wanted);
                prop_assert_eq!(&next, &allocated);
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
                                    Some((owner, _)) => AllocateAddressError::InUse {
                                        address,
                                        owner: owner.clone(),
                                    },
                                    None => AllocateAddressError::Quarantined(address),
                                }
                            }
                        };
                        prop_assert_eq!(error, expected);
                    }
                }
            }
            Step::Adopt(number, (window, offset)) => {
                let owner = owner(number);
                let address = in_window(window, offset);
                let adoption = pool.adopt(owner.clone(), address);
                let others = model
                    .pairs
                    .iter()
                    .filter(|(other, held)| *other != owner && *held == address);
                prop_assert_eq!(
                    adoption.also_held_by,
                    others.map(|(other, _)| other.clone()).collect::<Vec<_>>()
                );
                prop_assert_eq!(adoption.in_range, model.allocatable.contains(&address));
                model.adopt(owner, address);
            }
            Step::Release(number) => {
                prop_assert_eq!(pool.release(&owner(number)), model.of(&owner(number)));
                model.release(&owner(number));
            }
            Step::Quarantined((window, offset)) => {
                pool.quarantine(in_window(window, offset));
                model.quarantined.insert(in_window(window, offset));
            }
            Step::PutBack((window, offset)) => {
                pool.put_back(in_window(window, offset));
                model.quarantined.remove(&in_window(window, offset));
            }
            Step::Replace(spec) => {
                pool.replace_layout(spec.validate().expect("specs are good"));
                model.allocatable = allocatable(&spec);
            }
        }
        prop_assert_eq!(pool.usage(), model.usage());
        let in_use: BTreeSet<_> = pool
            .in_use()
            .map(|(address, owner)| (owner.clone(), address))
            .collect();
        prop_assert_eq!(&in_use, &model.pairs);
        prop_assert!(pool.quarantined().eq(model.quarantined.iter().copied()));
    }
    Ok(pool)
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
        let pool = play(&spec, &steps)?;
        let in_use = pool.in_use().map(|(address, owner)| (0, owner.clone(), address));
        let mut known: Vec<(u32, Owner, IpAddr)> = in_use.collect();
        for (fact, key) in known.iter_mut().zip(order) {
            fact.0 = key;
        }
        known.sort();
        let mut rebuilt = AddressPool::new(pool.layout().clone());
        for (_, owner, address) in known {
            rebuilt.adopt(owner, address);
        }
        pool.quarantined().for_each(|address| rebuilt.quarantine(address));
        prop_assert_eq!(rebuilt, pool);
    }

    #[test]
    fn release_undoes_allocate((spec, steps) in cases(), wanted in prop::option::of(0..WINDOW), count in 1..20_u8) {
        let mut pool = play(&spec, &steps)?;
        let before = pool.clone();
        let wanted = wanted.map(|offset| in_window(0, offset));
        let new = |number| Owner::new("new", &format!("{number}"));
        for number in 0..count {
            let _ = pool.allocate(&new(number), wanted.filter(|_| number == 0));
        }
        for number in (0..count).rev() {
            pool.release(&new(number));
        }
        prop_assert_eq!(pool, before);
    }
}
