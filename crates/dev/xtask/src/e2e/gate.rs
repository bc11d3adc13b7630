//! When the next test may start. Each lane says how many tests may run at once, which suits a machine that is as fast
//! as usual. On a slower one, as many tests take all processors: API servers do not answer in time, managers lose their
//! leases, and tests fail for that alone. So beyond a few, a test also waits until processors are idle, and tests start
//! one after another, because the load of a test shows only after it has started.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::machine::Times;

/// The tests of all lanes that may run at once on busy processors. Many end after some seconds, and most of them mostly wait.
const FEW: usize = 6;
/// The part of the processors' time that is idle before another test starts beside them.
const IDLE_MIN: f64 = 0.1;
/// How long the idle time is measured. This is also the least time between two starts.
const MEASURED: Duration = Duration::from_secs(1);
/// How long a test waits at most, so that a machine that is never idle does not wait for its longest tests.
const PATIENCE: Duration = Duration::from_secs(12);

/// Lets one test after another start.
#[derive(Default)]
pub(super) struct Gate {
    one_at_a_time: Mutex<()>,
    running: AtomicUsize,
}

/// A test that runs, until this is dropped.
pub(super) struct Running<'a>(&'a AtomicUsize);

impl Gate {
    /// Returns when the next test may start.
    pub(super) fn pass(&self) -> anyhow::Result<Running<'_>> {
        let _one_at_a_time = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let since = Instant::now();
        loop {
            let before = Times::now()?;
            thread::sleep(MEASURED);
            let running = self.running.load(Ordering::Relaxed);
            if may_start(running, Times::now()?.idle_since(before), since.elapsed()) {
                self.running.fetch_add(1, Ordering::Relaxed);
                return Ok(Running(&self.running));
            }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn may_start(running: usize, idle: f64, waited: Duration) -> bool {
    running < FEW || idle >= IDLE_MIN || waited >= PATIENCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_starts_beside_a_few_or_on_idle_processors_or_when_it_has_waited_long() {
        let seconds = Duration::from_secs;
        let cases = [(5, 0.0, 1), (6, 0.1, 1), (6, 0.05, 1), (6, 0.0, 11), (6, 0.0, 12)];
        assert_eq!(
            cases.map(|(running, idle, waited)| may_start(running, idle, seconds(waited))),
            [true, true, false, false, true]
        );
    }
}
