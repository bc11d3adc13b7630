//! How long tasks keep their thread at a stretch. A task that works for long between two awaits makes all others of its thread
//! wait, whoever they belong to. So tasks whose work a user chooses are [`timed`], and `cargo xtask hostile --neighbours` fails
//! when one of them keeps its thread for too long. Such work is done [`apart()`].
//!
//! Nothing is measured outside of that run: then a poll costs one load of an atomic pointer. It is no metric, because
//! only whoever measures knows a clock that stands still while the system runs other processes.

mod apart;

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::OnceLock,
    task::{Context, Poll},
    time::Duration,
};

pub use apart::{apart, apart_if_large, has_other_threads};
use parking_lot::Mutex;
use pin_project_lite::pin_project;

/// The time of the thread that calls it.
pub type Clock = fn() -> Duration;

/// Set where times are measured.
static CLOCK: OnceLock<Clock> = OnceLock::new();

static LONGEST: Longest = Longest(Mutex::new(BTreeMap::new()));

/// From now on, polls are measured with this clock, or with that of the first call.
pub fn measure_with(clock: Clock) {
    let _ = CLOCK.set(clock);
}

/// The longest poll of each kind of task since the last call, longest first.
#[must_use]
pub fn take_longest() -> Vec<(&'static str, Duration)> {
    LONGEST.take()
}

/// Measures each poll of a future, which is a task or most of one. `task` names the kind of task.
pub fn timed<F: Future>(task: &'static str, future: F) -> Timed<F> {
    Timed { task, future }
}

pin_project! {
    /// The future of [`timed`].
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct Timed<F> {
        task: &'static str,
        #[pin]
        future: F,
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(clock) = CLOCK.get() else {
            return this.future.poll(context);
        };
        let began = clock();
        let polled = this.future.poll(context);
        LONGEST.note(this.task, clock().saturating_sub(began));
        polled
    }
}

/// The longest poll of each kind of task.
struct Longest(Mutex<BTreeMap<&'static str, Duration>>);

impl Longest {
    fn note(&self, task: &'static str, time: Duration) {
        let mut longest = self.0.lock();
        let known = longest.entry(task).or_default();
        *known = time.max(*known);
    }

    fn take(&self) -> Vec<(&'static str, Duration)> {
        let mut longest: Vec<_> = std::mem::take(&mut *self.0.lock()).into_iter().collect();
        longest.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        longest
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, pin::pin, task::Waker};

    use super::*;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    fn now() -> Duration {
        Duration::from_millis(NOW.get())
    }

    #[test]
    fn the_longest_poll_of_each_kind_is_told_once() {
        measure_with(now);
        for times in [vec![3, 20], vec![7], vec![1, 1, 1]] {
            let mut left = times.into_iter();
            let mut task = pin!(timed(
                "large",
                std::future::poll_fn(move |_| match left.next() {
                    None => Poll::Ready(()),
                    Some(time) => {
                        NOW.set(NOW.get() + time);
                        Poll::Pending
                    }
                })
            ));
            let mut context = Context::from_waker(Waker::noop());
            while task.as_mut().poll(&mut context).is_pending() {
                // Time between two polls belongs to others.
                NOW.set(NOW.get() + 1000);
            }
        }
        let mut small = pin!(timed("small", std::future::ready(())));
        assert!(
            small
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_ready()
        );
        let told = take_longest();
        assert_eq!(
            told,
            [("large", Duration::from_millis(20)), ("small", Duration::ZERO)]
        );
        assert_eq!(take_longest(), []);
    }
}
