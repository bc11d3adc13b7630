use std::sync::Arc;

use nephele_budget::Owner;
use nephele_poll_time::apart;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::in_turn::OwnTurns;

/// The bytes from which the work on a body is large. Less takes some milliseconds at most.
pub const LARGE_BYTES: usize = 64 * 1024;

/// Large work at a time.
const AT_ONCE: usize = 2;

/// Turns for large synchronous work. Each owner has one turn at a time, so another one waits for one piece of work at
/// most. Cheap to clone; all clones share the turns.
#[derive(Clone)]
pub struct Turns {
    all: Arc<Semaphore>,
    owners: OwnTurns,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(AT_ONCE)),
            owners: OwnTurns::default(),
        }
    }
}

/// A turn.
struct Turn {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Turns {
    /// Does `work` on a body of so many bytes: small work at once, large work in the owner's turn and on a thread of its
    /// own, so that the system shares the processors between it and the tasks of others.
    pub async fn work<T: Send + 'static>(
        &self,
        owner: Owner,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if bytes <= LARGE_BYTES {
            return work();
        }
        let turn = self.turn(owner).await;
        apart(move || {
            let _turn = turn;
            work()
        })
        .await
    }

    async fn turn(&self, owner: Owner) -> Turn {
        let never = "the semaphore is never closed";
        let own = self.owners.of(owner).acquire_owned().await.expect(never);
        Turn {
            _own: own,
            _all: Arc::clone(&self.all).acquire_owned().await.expect(never),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_owner_has_one_turn_and_another_owner_the_next() {
        let turns = Turns::default();
        let hostile = Owner::unique();
        let neighbour = Owner::unique();
        let first = turns.turn(hostile).await;
        let mut second = Box::pin(turns.turn(hostile));
        assert!(futures::poll!(second.as_mut()).is_pending());
        drop(turns.turn(neighbour).await);
        drop(first);
        drop(second.await);
        drop(turns.turn(neighbour).await);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn large_work_is_not_done_by_the_threads_of_tasks() {
        let turns = Turns::default();
        let thread = || std::thread::current().id();
        let at = |bytes: usize| turns.work(Owner::unique(), bytes, thread);
        let here = tokio::spawn({
            let turns = turns.clone();
            async move { (thread(), turns.work(Owner::unique(), LARGE_BYTES, thread).await) }
        });
        let (task, small) = here.await.expect("no panic");
        assert_eq!(task, small);
        assert_ne!(at(LARGE_BYTES + 1).await, thread());
    }
}
