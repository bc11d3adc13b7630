//! Tells one story in many worlds.

use std::process::ExitCode;

use anyhow::ensure;

use crate::{
    alone::told_alone,
    seeds::{Ran, until_it_goes_badly},
};

/// Tells the story in worlds of so many seeds, and prints the first one in which it is another story.
pub(crate) fn compare(times: u64, from: u64, jobs: u64) -> anyhow::Result<ExitCode> {
    let first = told_alone(from)?;
    let hits: i64 = first.faults.values().map(|deeds| deeds.hits).sum();
    ensure!(
        first.faults.len() == 10 && hits >= 10,
        "nothing happens in this story: {first:#?}"
    );
    let Ran { well, badly } = until_it_goes_badly(from + 1, times.saturating_sub(1), jobs, |seed| {
        match told_alone(seed) {
            Ok(story) if story == first => Ok(()),
            told => Err(told),
        }
    });
    println!(
        "{} worlds told the same story, with {hits} hits of ten faults",
        well + 1
    );
    let Some((seed, told)) = badly else {
        return Ok(ExitCode::SUCCESS);
    };
    println!("seed {from}: {first:#?}\nseed {seed}: {told:#?}");
    Ok(ExitCode::FAILURE)
}
