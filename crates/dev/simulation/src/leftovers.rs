//! What deleted clusters leave in memory, by the allocator's count.

use std::{
    env,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use nephele_simulation::memory;
use tikv_jemalloc_ctl::{epoch, opt, stats};

use crate::slope;

/// Rounds after which the bounded logs are full: the cloud's journal is the largest, with 4,096 records.
const LOGS_ARE_FULL: usize = 60;
/// The bytes that a cluster may leave behind when the logs are full.
const LEFT_MAX: f64 = 512.0;
/// And before: a cluster with three machines fills 24 to 27 KiB of the logs.
const LEFT_IN_LOGS_MAX: f64 = 32.0 * 1024.0;
/// The allocator counts what lies in the caches of threads as allocated, which varies by 100 KiB between rounds.
const ALLOCATOR: (&str, &str) = ("_RJEM_MALLOC_CONF", "tcache:false");

/// Runs rounds, prints the growth for each cluster, and fails if that is too much. The rounds that fill the logs do not
/// count. When there are no more than those, the first one does not: it shows what is allocated only once.
pub(crate) fn report(rounds: usize) -> anyhow::Result<ExitCode> {
    if opt::tcache::read().map_err(anyhow::Error::msg)? {
        return Err(without_caches());
    }
    nephele_seeded_process::seed(0);
    let allocated = || {
        epoch::advance()
            .and_then(|_| stats::allocated::read())
            .unwrap_or_default() as u64
    };
    let measured = memory::rounds(rounds, allocated).map_err(anyhow::Error::msg)?;
    let (first, limit) = if rounds > LOGS_ARE_FULL + 1 {
        (LOGS_ARE_FULL, LEFT_MAX)
    } else {
        (1.min(rounds), LEFT_IN_LOGS_MAX)
    };
    let counted: Vec<f64> = measured[first..].iter().map(|bytes| *bytes as f64).collect();
    anyhow::ensure!(counted.len() > 1, "{rounds} rounds are too few to see a growth");
    let left = slope::of(&counted) / f64::from(memory::CLUSTERS);
    println!("{left:.0} bytes are left of a cluster, at most {limit:.0} may be: {measured:?}");
    let holds = measured[0] > 0 && left <= limit;
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Replaces this process by one whose threads have no caches of memory, because the allocator reads its settings only at
/// the start. Returns why that failed.
fn without_caches() -> anyhow::Error {
    let (name, value) = ALLOCATOR;
    let again = |program| {
        Command::new(program)
            .args(env::args_os().skip(1))
            .env(name, value)
            .exec()
    };
    match (env::var_os(name), env::current_exe()) {
        (Some(_), _) => anyhow::anyhow!("{name} has to have {value}"),
        (None, Ok(program)) => again(program).into(),
        (None, Err(error)) => error.into(),
    }
}
