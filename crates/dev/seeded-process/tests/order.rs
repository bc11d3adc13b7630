//! A seed applies to a whole process, so a single test sets one in this process.

use std::{collections::HashSet, process::Command, thread};

/// The variable that makes a process of this test draw, with its seed.
const SEED: &str = "NEPHELE_SEED_OF_TEST";

/// The iteration order of a hash set that a new thread creates.
fn order() -> Vec<u32> {
    thread::spawn(|| (0..100).collect::<HashSet<u32>>().into_iter().collect())
        .join()
        .expect("no panic")
}

#[test]
fn hash_sets_of_a_seeded_process_have_one_order() {
    assert_ne!(
        order(),
        order(),
        "two threads have other keys while there is no seed"
    );
    nephele_seeded_process::seed(7);
    assert_eq!(order(), order());
}

/// What another process draws: from the C library, by the crate `getrandom`, and for the hashes of ahash.
fn drawn(seed: u64) -> String {
    let program = std::env::current_exe().expect("the program of this test");
    let test = "two_processes_of_a_seed_draw_the_same";
    let output = Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env(SEED, seed.to_string())
        .output();
    let text = String::from_utf8(output.expect("a process").stdout).expect("text");
    text.lines()
        .find_map(|line| line.split_once("drawn "))
        .expect("a line with what is drawn")
        .1
        .to_owned()
}

#[test]
fn two_processes_of_a_seed_draw_the_same() {
    if let Ok(seed) = std::env::var(SEED) {
        nephele_seeded_process::seed(seed.parse().expect("a number"));
        println!(
            "drawn {:?} {} {}",
            order(),
            uuid::Uuid::new_v4(),
            ahash::RandomState::new().hash_one(1)
        );
        return;
    }
    let first = drawn(7);
    assert_eq!(drawn(7), first);
    assert_ne!(drawn(8), first);
}
