//! Tells one story in many worlds.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::ensure;
use nephele_world::story::Story;
use parking_lot::Mutex;

use crate::alone::told_alone;

/// Tells the story in worlds of so many seeds, and prints the first one in which it is another story.
pub(crate) fn compare(times: u64, from: u64, jobs: u64) -> anyhow::Result<ExitCode> {
    let first = told_alone(from)?;
    let hits: i64 = first.faults.values().map(|deeds| deeds.hits).sum();
    ensure!(first.faults.len() == 10 && hits >= 10, "nothing happens in this story: {first:#?}");
    let (next, same) = (AtomicU64::new(from + 1), AtomicU64::new(1));
    let other: Mutex<Option<(u64, anyhow::Result<Story>)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from.saturating_add(times) || other.lock().is_some() {
                        return;
                    }
                    match told_alone(seed) {
                        Ok(story) if story == first => drop(same.fetch_add(1, Ordering::Relaxed)),
                        told => *other.lock() = Some((seed, told)),
                    }
                }
            });
        }
    });
    println!("{} worlds told the same story, with {hits} hits of ten faults", same.into_inner());
    match other.into_inner() {
        None => Ok(ExitCode::SUCCESS),
        Some((seed, told)) => {
            println!("seed {from}: {first:#?}\nseed {seed}: {told:#?}");
            Ok(ExitCode::FAILURE)
        }
    }
}
