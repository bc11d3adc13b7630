//! Some worlds on every change; `cargo xtask worlds` runs thousands.

use nephele_world::{Scenario, run};

/// Few enough for a quarter of a minute.
const SEEDS: u64 = 4;

#[test]
fn in_no_world_is_a_rule_broken() {
    for seed in 0..SEEDS {
        let scenario = Scenario::of(seed);
        if let Err(violation) = run(&scenario) {
            panic!("{violation}\n{scenario}");
        }
    }
}
