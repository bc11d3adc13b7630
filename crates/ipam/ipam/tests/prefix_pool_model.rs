//! A pool of prefixes against a model that lists every prefix: no prefix twice, none outside, in any order.

use std::{collections::BTreeSet, net::Ipv6Addr};

use nephele_ipam::{AllocatePrefixError, Owner, Prefix, PrefixPool, PrefixPoolSpec, Usage};
use proptest::prelude::*;

/// Eight neighbouring prefixes of some length, also at the ends of the family.
#[derive(Debug, Clone, Copy)]
struct Window {
    base: u128,
    length: u8,
}

const BLOCKS: u128 = 8;

fn windows() -> impl Strategy<Value = Window> {
    let somewhere = Ipv6Addr::new(0xfd00, 0, 0, 0x100, 0, 0, 0, 0).to_bits();
    prop_oneof![
        Just(Window {
            base: somewhere,
            length: 64
        }),
        Just(Window {
            base: somewhere,
            length: 128
        }),
        Just(Window { base: 0, length: 3 }),
        Just(Window { base: 0, length: 56 }),
        Just(Window {
            base: u128::MAX - 7,
            length: 128
        }),
        Just(Window {
            base: u128::MAX << 67,
            length: 64
        }),
    ]
}

impl Window {
    fn size(self) -> u128 {
        1 << (128 - u32::from(self.length))
    }

    fn block(self, number: u128) -> Prefix {
        Prefix::new(Ipv6Addr::from_bits(self.base + number * self.size()), self.length)
    }

    /// An address by the number of its block and its place in the block, in 64ths.
    fn address(self, (number, part): (u128, u128)) -> Ipv6Addr {
        let within = if self.size() >= 64 {
            self.size() / 64 * part
        } else {
            part % self.size()
        };
        Ipv6Addr::from_bits(self.base + number * self.size() + within)
    }
}

fn places() -> impl Strategy<Value = (u128, u128)> {
    (0..BLOCKS, prop_oneof![Just(0), Just(63), 0..64_u128])
}

fn specs(window: Window) -> impl Strategy<Value = PrefixPoolSpec> {
    let prefix = (0..BLOCKS, 0..=3_u8).prop_map(move |(number, shorter)| {
        Prefix::new(window.block(number).base(), window.length - shorter).to_string()
    });
    let excluded = prop_oneof![
        places().prop_map(move |place| window.address(place).to_string()),
        (places(), places()).prop_map(move |(a, b)| {
            let a = window.address(a);
            let b = window.address(b);
            format!("{}-{}", a.min(b), a.max(b))
        }),
        (places(), -2..=2_i16).prop_map(move |(place, longer)| {
            let length = (i16::from(window.length) + longer).clamp(0, 128);
            format!("{}/{length}", window.address(place))
        }),
    ];
    (
        prop::collection::vec(prefix, 1..4),
        prop::collection::vec(excluded, 0..3),
    )
        .prop_map(move |(prefixes, excluded_prefixes)| PrefixPoolSpec {
            prefixes,
            allocation_prefix_length: window.length.into(),
            gateway: String::new(),
            excluded_prefixes,
        })
}

#[derive(Debug, Clone)]
enum Step {
    Allocate(u8, Option<Prefix>),
    Adopt(u8, Prefix),
    Release(u8),
    Quarantined(Prefix),
    PutBack(Prefix),
    Replace(PrefixPoolSpec),
}

/// A prefix, mostly of the pool's length.
fn prefixes(window: Window) -> impl Strategy<Value = Prefix> {
    (places(), prop_oneof![3 => Just(0), 1 => -3..=4_i16]).prop_map(move |(place, longer)| {
        let length = (i16::from(window.length) + longer).clamp(0, 128);
        Prefix::new(
            window.address(place),
            u8::try_from(length).expect("it is clamped"),
        )
    })
}

fn cases() -> impl Strategy<Value = (PrefixPoolSpec, Vec<Step>)> {
    windows().prop_flat_map(|window| {
        let owners = 0..10_u8;
        let step = prop_oneof![
            4 => (owners.clone(), prop::option::weighted(0.3, prefixes(window))).prop_map(|(o, w)| Step::Allocate(o, w)),
            3 => (owners.clone(), prefixes(window)).prop_map(|(owner, prefix)| Step::Adopt(owner, prefix)),
            4 => owners.prop_map(Step::Release),
            1 => prefixes(window).prop_map(Step::Quarantined),
            1 => prefixes(window).prop_map(Step::PutBack),
            1 => specs(window).prop_map(Step::Replace),
        ];
        (specs(window), prop::collection::vec(step, 0..40))
    })
}

fn ends(prefix: Prefix) -> (u128, u128) {
    let host_bits = 128 - u32::from(prefix.length());
    let first = prefix.base().to_bits();
    (first, first | u128::MAX.checked_shr(128 - host_bits).unwrap_or(0))
}

fn overlap(a: (u128, u128), b: (u128, u128)) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

fn entry(text: &str) -> (u128, u128) {
    let bits = |text: &str| text.parse::<Ipv6Addr>().expect("an address").to_bits();
    match (text.split_once('-'), text.split_once('/')) {
        (Some((first, last)), _) => (bits(first), bits(last)),
        (_, Some((base, length))) => ends(Prefix::new(
            base.parse().expect("an address"),
            length.parse().expect("a length"),
        )),
        _ => (bits(text), bits(text)),
    }
}

/// The model: plain lists of all prefixes. Prefixes of specs are at most three bits shorter than a block.
fn allocatable(spec: &PrefixPoolSpec) -> BTreeSet<Prefix> {
    let length = u8::try_from(spec.allocation_prefix_length).expect("a length");
    let size = 1_u128 << (128 - u32::from(length));
    let excluded: Vec<_> = spec.excluded_prefixes.iter().map(|text| entry(text)).collect();
    let blocks = spec.prefixes.iter().flat_map(|text| {
        let (first, last) = entry(text);
        (0..8)
            .map(move |n| first.saturating_add(n * size))
            .filter(move |base| *base <= last)
    });
    blocks
        .map(|base| Prefix::new(Ipv6Addr::from_bits(base), length))
        .filter(|block| !excluded.iter().any(|excluded| overlap(*excluded, ends(*block))))
        .collect()
}

struct Model {
    allocatable: BTreeSet<Prefix>,
    pairs: BTreeSet<(Owner, Prefix)>,
    quarantined: BTreeSet<Prefix>,
}

impl Model {
    fn of(&self, owner: &Owner) -> Vec<Prefix> {
        self.pairs
            .iter()
            .filter(|(other, _)| other == owner)
            .map(|(_, prefix)| *prefix)
            .collect()
    }

    fn overlapping(&self, prefix: Prefix) -> impl Iterator<Item = &Owner> {
        let overlapping = move |other: Prefix| overlap(ends(prefix), ends(other));
        self.pairs
            .iter()
            .filter(move |(_, other)| overlapping(*other))
            .map(|(owner, _)| owner)
    }

    fn free(&self) -> BTreeSet<Prefix> {
        let is_free =
            |block: &&Prefix| self.overlapping(**block).next().is_none() && !self.is_quarantined(**block);
        self.allocatable.iter().filter(is_free).copied().collect()
    }

    fn is_quarantined(&self, prefix: Prefix) -> bool {
        self.quarantined
            .iter()
            .any(|other| overlap(ends(prefix), ends(*other)))
    }

    fn allocate(&mut self, owner: &Owner, wanted: Option<Prefix>) -> Option<Prefix> {
        if let Some(prefix) = self.of(owner).first() {
            return Some(*prefix);
        }
        let free = self.free();
        let prefix = wanted.map_or_else(|| free.first().copied(), |wanted| free.get(&wanted).copied())?;
        self.pairs.insert((owner.clone(), prefix));
        Some(prefix)
    }

    fn usage(&self) -> Usage {
        let prefixes: BTreeSet<_> = self.pairs.iter().map(|(_, prefix)| *prefix).collect();
        let total = self.allocatable.len() as u128;
        let free = self.free().len() as u128;
        let out_of_range = prefixes.difference(&self.allocatable).count() as u128;
        Usage {
            total,
            free,
            taken: total - free,
            used: self.pairs.len() as u128,
            out_of_range,
        }
    }
}

fn owner(number: u8) -> Owner {
    Owner::new("default", &format!("cluster-{number}"))
}

/// Runs the steps on the pool and on the model, and compares them after each step.
fn play(spec: &PrefixPoolSpec, steps: &[Step]) -> Result<PrefixPool, TestCaseError> {
    let mut model = Model {
        allocatable: allocatable(spec),
        pairs: BTreeSet::new(),
        quarantined: BTreeSet::new(),
    };
    let mut pool = PrefixPool::new(spec.validate().expect("specs are good"));
    for step in steps {
        match step.clone() {
            Step::Allocate(number, wanted) => {
                let before = pool.clone();
                let next = pool.next(&owner(number), wanted);
                let allocated = pool.allocate(&owner(number), wanted);
                prop_assert_eq!(&next, &allocated);
                prop_assert_eq!(
                    allocated.as_ref().ok().copied(),
                    model.allocate(&owner(number), wanted)
                );
                if let Err(error) = allocated {
                    prop_assert_eq!(&pool, &before);
                    match (error, wanted) {
                        (AllocatePrefixError::Exhausted, None) => {}
                        (AllocatePrefixError::NotAllocatable(prefix), Some(wanted)) => {
                            prop_assert!(prefix == wanted && !model.allocatable.contains(&wanted));
                        }
                        (AllocatePrefixError::InUse { prefix, owner }, Some(wanted)) => {
                            prop_assert!(
                                prefix == wanted && model.overlapping(wanted).any(|other| *other == owner)
                            );
                        }
                        (AllocatePrefixError::Quarantined(prefix), Some(wanted)) => {
                            prop_assert!(prefix == wanted && model.is_quarantined(wanted));
                        }
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
            }
            Step::Adopt(number, prefix) => {
                let adoption = pool.adopt(owner(number), prefix);
                let others: BTreeSet<_> = model
                    .overlapping(prefix)
                    .filter(|other| **other != owner(number))
                    .cloned()
                    .collect();
                prop_assert_eq!(adoption.also_held_by, others.into_iter().collect::<Vec<_>>());
                prop_assert_eq!(adoption.in_range, model.allocatable.contains(&prefix));
                model.pairs.insert((owner(number), prefix));
            }
            Step::Release(number) => {
                prop_assert_eq!(pool.release(&owner(number)), model.of(&owner(number)));
                model.pairs.retain(|(other, _)| *other != owner(number));
            }
            Step::Quarantined(prefix) => {
                pool.quarantine(prefix);
                model.quarantined.insert(prefix);
            }
            Step::PutBack(prefix) => {
                pool.put_back(prefix);
                model.quarantined.remove(&prefix);
            }
            Step::Replace(spec) => {
                pool.replace_layout(spec.validate().expect("specs are good"));
                model.allocatable = allocatable(&spec);
            }
        }
        prop_assert_eq!(pool.usage(), model.usage());
        let in_use: BTreeSet<_> = pool
            .in_use()
            .map(|(prefix, owner)| (owner.clone(), prefix))
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
    fn a_pool_gives_each_prefix_once_and_every_one((spec, _) in cases()) {
        let mut pool = PrefixPool::new(spec.validate().expect("specs are good"));
        let given: Vec<_> = (0..=u8::MAX).map_while(|number| pool.allocate(&owner(number), None).ok()).collect();
        prop_assert_eq!(given, allocatable(&spec).into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_rebuilt_pool_is_the_same_in_whatever_order(
        (spec, steps) in cases(),
        order in prop::collection::vec(any::<u32>(), 100),
    ) {
        let pool = play(&spec, &steps)?;
        let in_use = pool.in_use().map(|(prefix, owner)| (owner.clone(), prefix));
        let mut known: Vec<_> = order.into_iter().zip(in_use).collect();
        known.sort();
        let mut rebuilt = PrefixPool::new(pool.layout().clone());
        for (_, (owner, prefix)) in known {
            rebuilt.adopt(owner, prefix);
        }
        pool.quarantined().for_each(|prefix| rebuilt.quarantine(prefix));
        prop_assert_eq!(rebuilt, pool);
    }

    #[test]
    fn release_undoes_allocate((spec, steps) in cases(), count in 1..10_u8) {
        let mut pool = play(&spec, &steps)?;
        let before = pool.clone();
        for number in 100..100 + count {
            let _ = pool.allocate(&owner(number), None);
        }
        for number in (100..100 + count).rev() {
            pool.release(&owner(number));
        }
        prop_assert_eq!(pool, before);
    }
}
