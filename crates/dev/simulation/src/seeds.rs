//! Runs something for many seeds, some at a time.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use crate::alone::Deed;

/// How often it went well, and the seed and result of the first time it did not.
pub(crate) struct Ran<E> {
    pub(crate) well: u64,
    pub(crate) badly: Option<(u64, E)>,
}

/// Runs it for the seeds from `from` on, until it goes badly once.
pub(crate) fn until_it_goes_badly<E: Send>(
    from: u64,
    times: u64,
    jobs: u64,
    run: impl Fn(u64) -> Result<(), E> + Sync,
) -> Ran<E> {
    let next = AtomicU64::new(from);
    let well = AtomicU64::new(0);
    let badly = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from.saturating_add(times) || badly.lock().is_some() {
                        return;
                    }
                    match run(seed) {
                        Ok(()) => drop(well.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => drop(badly.lock().get_or_insert((seed, error))),
                    }
                }
            });
        }
    });
    Ran {
        well: well.into_inner(),
        badly: badly.into_inner(),
    }
}

/// Does it for worlds of so many seeds, and prints the first one that it goes badly for.
pub(crate) fn all(deed: Deed, times: u64, from: u64, jobs: u64) -> ExitCode {
    let Ran { well, badly } = until_it_goes_badly(from, times, jobs, |seed| deed.alone(seed));
    println!("{well} worlds {}", deed.done);
    let Some((seed, what)) = badly else {
        return ExitCode::SUCCESS;
    };
    println!(
        "seed {seed}: {what}\nagain: cargo xtask worlds {}s 1 --from {seed}",
        deed.argument
    );
    ExitCode::FAILURE
}
