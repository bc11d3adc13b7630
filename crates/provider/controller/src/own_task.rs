//! Parts of a manager as tasks of their own.

use std::panic::resume_unwind;

use nephele_poll_time::timed;
use tokio_util::task::AbortOnDropHandle;

/// Runs a future as a task from its first poll on. The task ends when this is dropped. `task` names its kind where the times
/// of polls are measured.
///
/// A join polls all of its parts whenever one of them was woken, and one poll of it has the work of all that were. A provider
/// has some twenty watches and controllers: as one task, they would keep their thread for the sum of their work.
///
/// # Panics
/// When the future does.
pub async fn own_task<T: Send + 'static>(
    task: &'static str,
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    match AbortOnDropHandle::new(tokio::spawn(timed(task, future))).await {
        Ok(done) => done,
        Err(ended) => match ended.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime stops.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures::{
        FutureExt as _, StreamExt as _,
        channel::mpsc,
        future::{self, join},
    };

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
        let joined = tokio::spawn(join(own_task("one", one), own_task("other", other)));
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
    async fn it_ends_when_it_is_dropped() {
        let held = Arc::new(());
        let holder = Arc::clone(&held);
        let mut task = Box::pin(own_task("holder", async move {
            let _held = holder;
            future::pending::<()>().await;
        }));
        assert_eq!(task.as_mut().now_or_never(), None);
        drop(task);
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[tokio::test]
    #[should_panic(expected = "the part fails")]
    async fn its_panic_is_that_of_the_caller() {
        own_task("part", async { panic!("the part fails") }).await;
    }
}
