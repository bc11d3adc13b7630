//! The cost of allocating, releasing and rebuilding: `cargo bench -p nephele-ipam`.
//!
//! Owners are made before the measurement; each measured call changes the pool and its maps.

use std::{hint::black_box, net::IpAddr};

use divan::{Bencher, counter::ItemsCount};
use nephele_ipam::{AddressPool, AddressPoolSpec, Owner, Prefix, PrefixPool, PrefixPoolSpec};

#[global_allocator]
static MEMORY: divan::AllocProfiler = divan::AllocProfiler::system();

const MILLION: usize = 1_000_000;

fn main() {
    divan::main();
}

fn pool(addresses: &str, prefix: i64) -> AddressPool {
    let spec = AddressPoolSpec {
        addresses: vec![addresses.into()],
        prefix,
        ..AddressPoolSpec::default()
    };
    AddressPool::new(spec.validate().expect("the spec is good"))
}

fn prefix_pool() -> PrefixPool {
    let spec = PrefixPoolSpec {
        prefixes: vec!["fd00::/32".into()],
        ..PrefixPoolSpec::default()
    };
    PrefixPool::new(spec.validate().expect("the spec is good"))
}

fn owners(count: usize) -> Vec<Owner> {
    (0..count)
        .map(|number| Owner::new("default", &format!("cluster-{}-machine-{number}", number % 100)))
        .collect()
}

/// Every index once, in a scattered order.
fn scattered(count: usize) -> impl Iterator<Item = usize> {
    // The factor is coprime to every power of ten.
    (0..count).map(move |index| index * 7_919 % count)
}

/// Allocates `n` addresses of an empty pool.
#[divan::bench(args = [1_000, 100_000, MILLION], sample_count = 10, sample_size = 1)]
fn allocate(bencher: Bencher<'_, '_>, n: usize) {
    let owners = owners(n);
    bencher
        .counter(ItemsCount::new(n))
        .with_inputs(|| pool("10.0.0.0/8", 8))
        .bench_local_refs(|pool| {
            for owner in &owners {
                black_box(pool.allocate(owner, None).expect("it is large"));
            }
        });
}

/// Allocates `n` v6 addresses of an empty pool.
#[divan::bench(args = [100_000], sample_count = 10, sample_size = 1)]
fn allocate_v6(bencher: Bencher<'_, '_>, n: usize) {
    let owners = owners(n);
    bencher
        .counter(ItemsCount::new(n))
        .with_inputs(|| pool("fd00::/64", 64))
        .bench_local_refs(|pool| {
            for owner in &owners {
                black_box(pool.allocate(owner, None).expect("it is large"));
            }
        });
}

/// Allocates `n` prefixes of an empty pool.
#[divan::bench(args = [100_000], sample_count = 10, sample_size = 1)]
fn allocate_prefix(bencher: Bencher<'_, '_>, n: usize) {
    let owners = owners(n);
    bencher
        .counter(ItemsCount::new(n))
        .with_inputs(prefix_pool)
        .bench_local_refs(|pool| {
            for owner in &owners {
                black_box(pool.allocate(owner, None).expect("it is large"));
            }
        });
}

/// Releases and allocates addresses of a pool in which every second address is free.
#[divan::bench(args = [1_000, 100_000, MILLION], sample_count = 10, sample_size = 1)]
fn release_and_allocate_among_gaps(bencher: Bencher<'_, '_>, n: usize) {
    let owners = owners(n);
    let mut gaps = pool("10.0.0.0/8", 8);
    for owner in &owners {
        gaps.allocate(owner, None).expect("it is large");
    }
    for owner in owners.iter().step_by(2) {
        gaps.release(owner);
    }
    let changed: Vec<_> = scattered(n)
        .filter(|index| index % 2 == 1)
        .take(n / 10)
        .map(|index| &owners[index])
        .collect();
    bencher
        .counter(ItemsCount::new(changed.len()))
        .with_inputs(|| gaps.clone())
        .bench_local_refs(|pool| {
            for owner in &changed {
                black_box(pool.release(owner));
                black_box(pool.allocate(owner, None).expect("there are gaps"));
            }
        });
}

/// Rebuilds a pool from existing addresses, in a scattered order.
#[divan::bench(args = [1_000, 100_000, MILLION], sample_count = 5, sample_size = 1)]
fn rebuild(bencher: Bencher<'_, '_>, n: usize) {
    let owners = owners(n);
    let mut full = pool("10.0.0.0/8", 8);
    let known: Vec<(Owner, IpAddr)> = owners
        .iter()
        .map(|owner| (owner.clone(), full.allocate(owner, None).expect("it is large")))
        .collect();
    let known: Vec<_> = scattered(n).map(|index| known[index].clone()).collect();
    bencher
        .counter(ItemsCount::new(n))
        .with_inputs(|| (pool("10.0.0.0/8", 8), known.clone()))
        .bench_local_values(|(mut pool, known)| {
            for (owner, address) in known {
                black_box(pool.adopt(owner, address));
            }
            pool
        });
}

/// Rebuilds a pool from existing prefixes, in a scattered order.
#[divan::bench(args = [100_000], sample_count = 5, sample_size = 1)]
fn rebuild_prefixes(bencher: Bencher<'_, '_>, n: usize) {
    let owners = owners(n);
    let mut full = prefix_pool();
    let known: Vec<(Owner, Prefix)> = owners
        .iter()
        .map(|owner| (owner.clone(), full.allocate(owner, None).expect("it is large")))
        .collect();
    let known: Vec<_> = scattered(n).map(|index| known[index].clone()).collect();
    bencher
        .counter(ItemsCount::new(n))
        .with_inputs(|| (prefix_pool(), known.clone()))
        .bench_local_values(|(mut pool, known)| {
            for (owner, prefix) in known {
                black_box(pool.adopt(owner, prefix));
            }
            pool
        });
}

/// Makes an empty pool. The memory allocations of the result show the cost by size of the pool.
#[divan::bench(args = ["10.0.0.0/28", "10.0.0.0/8", "fd00::/124", "fd00::/64"], sample_count = 100)]
fn make(addresses: &str) -> AddressPool {
    let (_, prefix) = addresses.split_once('/').expect("a CIDR");
    pool(addresses, prefix.parse().expect("a length"))
}
