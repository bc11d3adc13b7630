//! When the next test may start. Each lane says how many tests may run at once, which suits a machine that is as fast
//! as usual. On a slower one, as many tests take all processors: API servers do not answer in time, managers lose their
//! leases, and tests fail for that alone. So a test also waits until processors are idle, and tests start one after
//! another, because the load of a test shows only after it has started.

use std::{
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use crate::machine::Times;

/// The part of the processors' time that is idle before another test starts.
const IDLE_MIN: f64 = 0.1;
/// How long the idle time is measured. This is also the least time between two starts.
const MEASURED: Duration = Duration::from_secs(1);
/// How long a test waits at most, so that the tests of a machine that is never idle run nevertheless.
const PATIENCE: Duration = Duration::from_secs(12);

/// Lets one test after another start.
#[derive(Default)]
pub(super) struct Gate(Mutex<()>);

impl Gate {
    /// Returns when the next test may start.
    pub(super) fn pass(&self) -> anyhow::Result<()> {
        let _one_at_a_time = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = Instant::now();
        loop {
            let before = Times::now()?;
            thread::sleep(MEASURED);
            if may_start(Times::now()?.idle_since(before), since.elapsed()) {
                return Ok(());
            }
        }
    }
}

fn may_start(idle: f64, waited: Duration) -> bool {
    idle >= IDLE_MIN || waited >= PATIENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_starts_on_idle_processors_or_when_it_has_waited_long() {
        let seconds = Duration::from_secs;
        let cases = [(0.1, 1), (0.05, 1), (0.0, 11), (0.0, 12)];
        assert_eq!(
            cases.map(|(idle, waited)| may_start(idle, seconds(waited))),
            [true, false, false, true]
        );
    }
}
