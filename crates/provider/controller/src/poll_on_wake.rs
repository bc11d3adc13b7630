//! A future that is polled only after it was woken.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures::{FutureExt as _, future::BoxFuture, task::AtomicWaker};

/// Polls `future` only after it was woken.
///
/// A join polls all of its parts whenever one of them was woken. A provider is a join of some twenty watches and controllers:
/// without this, every event of a watch would poll all of them.
pub fn poll_on_wake<'a, F>(future: F) -> PollOnWake<'a, F::Output>
where
    F: Future + Send + 'a,
{
    let flag = Arc::new(Flag {
        woken: AtomicBool::new(true),
        outer: AtomicWaker::new(),
    });
    PollOnWake {
        future: future.boxed(),
        waker: Waker::from(Arc::clone(&flag)),
        flag,
    }
}

/// The future of [`poll_on_wake`].
#[must_use = "futures do nothing unless polled"]
pub struct PollOnWake<'a, T> {
    future: BoxFuture<'a, T>,
    flag: Arc<Flag>,
    /// The flag, as the waker of the future.
    waker: Waker,
}

/// Whether the future was woken since it was polled last.
struct Flag {
    woken: AtomicBool,
    outer: AtomicWaker,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.outer.wake();
    }
}

impl<T> Future for PollOnWake<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Before the flag is read: who sets it afterwards wakes this waker.
        self.flag.outer.register(context.waker());
        if !self.flag.woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let Self { future, waker, .. } = &mut *self;
        future.poll_unpin(&mut Context::from_waker(waker))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::{channel::mpsc, future, stream::StreamExt as _};
    use proptest::prelude::*;

    use super::*;

    /// Receives until the channel ends, and counts how often it is polled.
    fn receive(
        polls: &Arc<AtomicUsize>,
    ) -> (mpsc::UnboundedSender<u8>, impl Future<Output = Vec<u8>> + use<>) {
        let (sender, receiver) = mpsc::unbounded();
        let polls = Arc::clone(polls);
        let mut all = receiver.collect::<Vec<u8>>();
        let counted = future::poll_fn(move |context| {
            polls.fetch_add(1, Ordering::Relaxed);
            all.poll_unpin(context)
        });
        (sender, counted)
    }

    #[tokio::test]
    async fn what_wakes_one_part_of_a_join_polls_no_other() {
        let polled = Arc::default();
        let idle = Arc::default();
        let (sender, one) = receive(&polled);
        let (keep, other) = receive(&idle);
        let joined = tokio::spawn(future::join(poll_on_wake(one), poll_on_wake(other)));
        for number in 0..5 {
            sender.unbounded_send(number).expect("received");
            tokio::task::yield_now().await;
        }
        assert_eq!(
            (polled.load(Ordering::Relaxed) > 1, idle.load(Ordering::Relaxed)),
            (true, 1)
        );
        drop((sender, keep));
        assert_eq!(joined.await.expect("no panic"), (vec![0, 1, 2, 3, 4], vec![]));
    }

    #[tokio::test]
    async fn a_future_that_wakes_itself_is_polled_again() {
        let mut left = 3;
        let yields = future::poll_fn(move |context: &mut Context<'_>| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        });
        future::join(poll_on_wake(yields), future::ready(())).await;
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Senders on other threads wake at any moment of a poll.
        #[test]
        fn no_wake_is_lost(parts in 1..5_usize, sent in 1..200_u8) {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
            let received = runtime.block_on(async {
                let (senders, receivers): (Vec<_>, Vec<_>) = (0..parts).map(|_| receive(&Arc::default())).unzip();
                for sender in senders {
                    tokio::spawn(async move {
                        for number in 0..sent {
                            sender.unbounded_send(number).expect("received");
                            tokio::task::yield_now().await;
                        }
                    });
                }
                let joined = tokio::spawn(future::join_all(receivers.into_iter().map(poll_on_wake)));
                joined.await.expect("no panic")
            });
            prop_assert_eq!(received, vec![(0..sent).collect::<Vec<_>>(); parts]);
        }
    }
}
