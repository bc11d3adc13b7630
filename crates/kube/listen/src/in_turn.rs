//! Turns among those who make this process work.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker, ready},
};

use nephele_budget::Owner;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// One turn for each owner. Cheap to clone; all clones share the turns.
#[derive(Clone, Default)]
pub(crate) struct OwnTurns(Arc<Mutex<HashMap<Owner, Weak<Semaphore>>>>);

impl OwnTurns {
    /// The turn of an owner, with a permit for whoever has it.
    pub(crate) fn of(&self, owner: Owner) -> Arc<Semaphore> {
        let mut owners = self.0.lock();
        if let Some(own) = owners.get(&owner).and_then(Weak::upgrade) {
            return own;
        }
        owners.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(1));
        owners.insert(owner, Arc::downgrade(&own));
        own
    }

    /// Polls a future only in the turn of its owner. The turn ends when all tasks that are ready meanwhile have run. So the
    /// tasks of one owner work one at a time, however many are ready, and the task of another owner waits for one of them.
    pub(crate) fn in_turn<F: Future + Unpin>(&self, owner: Owner, work: F) -> InTurn<F>
    where
        F::Output: Unpin,
    {
        let woken = Arc::new(Woken {
            is_ready: AtomicBool::new(true),
            task: Mutex::new(Waker::noop().clone()),
        });
        InTurn {
            turns: PollSemaphore::new(self.of(owner)),
            turn: None,
            work,
            woken,
            output: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

pub(crate) struct InTurn<F: Future> {
    turns: PollSemaphore,
    turn: Option<OwnedSemaphorePermit>,
    work: F,
    woken: Arc<Woken>,
    output: Option<F::Output>,
}

/// Wakes the task, and notes that there is work.
struct Woken {
    is_ready: AtomicBool,
    task: Mutex<Waker>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_ready.store(true, Ordering::Release);
        self.task.lock().wake_by_ref();
    }
}

impl<F: Future + Unpin> Future for InTurn<F>
where
    F::Output: Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // The task stood at the end of the queue of its thread since.
        self.turn = None;
        if let Some(output) = self.output.take() {
            return Poll::Ready(output);
        }
        self.woken.task.lock().clone_from(context.waker());
        if !self.woken.is_ready.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        self.turn = ready!(self.turns.poll_acquire(context));
        self.woken.is_ready.store(false, Ordering::Release);
        let waker = Waker::from(Arc::clone(&self.woken));
        if let Poll::Ready(output) = Pin::new(&mut self.work).poll(&mut Context::from_waker(&waker)) {
            self.output = Some(output);
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinSet;

    use super::*;

    /// Lets others run, and is ready at once. Tokio's `yield_now` is ready after the next look at the clock.
    async fn ready_again() {
        let mut is_first = true;
        std::future::poll_fn(|context| {
            if std::mem::take(&mut is_first) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Tasks that are ready all the time, and write down whose they are each time that they run.
    async fn log_of(turns: &OwnTurns, owners: &[(Owner, usize)]) -> Vec<Owner> {
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for owner in owners
            .iter()
            .flat_map(|(owner, tasks)| std::iter::repeat_n(*owner, *tasks))
        {
            let log = Arc::clone(&log);
            let work = Box::pin(async move {
                for _ in 0..5 {
                    log.lock().push(owner);
                    ready_again().await;
                }
            });
            tasks.spawn(turns.in_turn(owner, work));
        }
        tasks.join_all().await;
        Arc::into_inner(log).expect("all tasks have ended").into_inner()
    }

    #[tokio::test]
    async fn however_many_tasks_one_owner_has_another_one_waits_for_one_of_them() {
        let turns = OwnTurns::default();
        let hostile = Owner::unique();
        let neighbour = Owner::unique();
        let log = log_of(&turns, &[(hostile, 100), (neighbour, 1)]).await;
        assert_eq!(log.len(), 505);
        let first = log
            .iter()
            .position(|owner| *owner == neighbour)
            .expect("it has run");
        let last = log
            .iter()
            .rposition(|owner| *owner == neighbour)
            .expect("it has run");
        assert!(last - first <= 10, "its five polls were {} apart", last - first);
    }

    #[test]
    fn owners_without_work_are_forgotten() {
        let turns = OwnTurns::default();
        drop(turns.of(Owner::unique()));
        let kept = turns.of(Owner::unique());
        assert_eq!(turns.len(), 1);
        drop(kept);
    }
}
