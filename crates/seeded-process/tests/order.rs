//! A single test, because a seed applies to the whole process.

use std::collections::HashSet;
use std::thread;

/// The iteration order of a hash set that a new thread creates.
fn order() -> Vec<u32> {
    thread::spawn(|| (0..100).collect::<HashSet<u32>>().into_iter().collect()).join().expect("no panic")
}

#[test]
fn hash_sets_of_a_seeded_process_have_one_order() {
    assert_ne!(order(), order(), "two threads have other keys as long as there is no seed");
    nephele_seeded_process::seed(7);
    assert_eq!(order(), order());
}
