//! Lets many worlds go back to a checkpoint.

use std::process::ExitCode;

use crate::alone::rewound_alone;
use crate::seeds::{Ran, until_it_goes_badly};

/// Runs worlds of so many seeds, and prints the first one that is not as it was.
pub(crate) fn run(times: u64, from: u64, jobs: u64) -> ExitCode {
    let Ran { well, badly } = until_it_goes_badly(from, times, jobs, rewound_alone);
    println!("{well} worlds went back to their checkpoints");
    let Some((seed, difference)) = badly else { return ExitCode::SUCCESS };
    println!("seed {seed}: {difference}\nagain: cargo xtask worlds --rewinds 1 --from {seed}");
    ExitCode::FAILURE
}
