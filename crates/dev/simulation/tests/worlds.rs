//! Some worlds on every change; `cargo xtask worlds` runs thousands.

use nephele_simulation::{Scenario, book, library, neighbours, restarts, rewind, run};

/// Few enough to take a quarter of a minute.
const SEEDS: u64 = 3;

#[test]
fn in_no_world_is_a_rule_broken() {
    for seed in 0..SEEDS {
        let scenario = Scenario::of(seed);
        if let Err(violation) = run(&scenario) {
            panic!("{violation}\n{scenario}");
        }
    }
}

#[test]
fn a_world_goes_back_to_a_checkpoint() {
    for seed in 0..SEEDS {
        if let Err(difference) = rewind(seed) {
            panic!("seed {seed}: {difference}");
        }
    }
}

#[test]
fn what_is_at_rest_stays_as_it_is_when_another_manager_takes_over() {
    for seed in 0..SEEDS {
        if let Err(changed) = restarts(seed) {
            panic!("seed {seed}: {changed}");
        }
    }
}

#[test]
fn managers_of_disjoint_objects_leave_each_other_alone() {
    for seed in 0..SEEDS {
        if let Err(violation) = neighbours(seed) {
            panic!("seed {seed}: {violation}");
        }
    }
}

#[test]
fn the_examples_of_the_book_match_something_where_a_reader_tries_them() {
    if let Err(example) = book() {
        panic!("{example}");
    }
}

#[test]
fn scenarios_of_the_library_pass_where_the_stand_in_plays_cluster_api() {
    if let Err(scenario) = library() {
        panic!("{scenario}");
    }
}

/// More rounds find smaller leaks: `cargo xtask worlds --memory 100`.
#[test]
fn clusters_that_went_leave_no_memory_behind() {
    let mut worlds = std::process::Command::new(env!("CARGO_BIN_EXE_nephele-simulation"));
    let output = worlds.args(["--memory", "5"]).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

/// In a static program, libraries do not find our `getrandom` by its name, and ask the operating system instead.
#[cfg(not(target_feature = "crt-static"))]
#[test]
fn a_world_is_the_same_each_time() {
    let mut worlds = std::process::Command::new(env!("CARGO_BIN_EXE_nephele-simulation"));
    // A world with trouble, which runs twice.
    let output = worlds
        .args(["--seeds", "1", "--from", "3", "--twice", "1"])
        .output()
        .expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
