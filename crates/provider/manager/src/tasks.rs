use std::{collections::HashMap, error::Error, future::Future};

use nephele_poll_time::timed;
use tokio::{
    runtime::Handle,
    task::{AbortHandle, Id, JoinSet},
};

/// Why a task ended when it should not have.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The task failed.
    #[error("{task} failed")]
    Failed {
        /// The name of the task.
        task: &'static str,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The task ended before it was stopped.
    #[error("{0} ended without being told to")]
    EndedEarly(&'static str),
    /// The task panicked.
    #[error("{task} panicked")]
    Panicked {
        /// The name of the task.
        task: &'static str,
        #[source]
        source: tokio::task::JoinError,
    },
}

/// All tasks that the manager has started, by name.
#[derive(Default)]
pub(crate) struct Tasks {
    running: JoinSet<Result<(), Box<dyn Error + Send + Sync>>>,
    names: HashMap<Id, (&'static str, AbortHandle)>,
}

/// A task that has ended.
pub(crate) struct Ended {
    pub(crate) task: &'static str,
    pub(crate) result: Result<(), TaskError>,
}

impl Ended {
    /// The error for a task that should still be running.
    pub(crate) fn early(self) -> TaskError {
        match self.result {
            Ok(()) => TaskError::EndedEarly(self.task),
            Err(error) => error,
        }
    }
}

impl Tasks {
    pub(crate) fn spawn<E>(
        &mut self,
        task: &'static str,
        future: impl Future<Output = Result<(), E>> + Send + 'static,
    ) where
        E: Error + Send + Sync + 'static,
    {
        let handle = self
            .running
            .spawn(timed(task, async move { future.await.map_err(Into::into) }));
        self.names.insert(handle.id(), (task, handle));
    }

    /// As [`Tasks::spawn`], on another runtime.
    pub(crate) fn spawn_on<E>(
        &mut self,
        task: &'static str,
        future: impl Future<Output = Result<(), E>> + Send + 'static,
        runtime: &Handle,
    ) where
        E: Error + Send + Sync + 'static,
    {
        let handle = self.running.spawn_on(
            timed(task, async move { future.await.map_err(Into::into) }),
            runtime,
        );
        self.names.insert(handle.id(), (task, handle));
    }

    /// Waits for the next task to end. Pending forever when no task is left.
    pub(crate) async fn ended(&mut self) -> Ended {
        let Some(joined) = self.running.join_next_with_id().await else {
            return std::future::pending().await;
        };
        let id = match &joined {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let (task, _) = self
            .names
            .remove(&id)
            .expect("every task is named when it is spawned");
        let result = match joined {
            Ok((_, result)) => result.map_err(|source| TaskError::Failed { task, source }),
            Err(source) if source.is_cancelled() => Ok(()),
            Err(source) => Err(TaskError::Panicked { task, source }),
        };
        Ended { task, result }
    }

    /// Waits for a task that was told to stop. Returns at once when it has ended already. Errors of this and other
    /// tasks that end meanwhile go to `errors`.
    pub(crate) async fn finish(&mut self, task: &'static str, errors: &mut Vec<TaskError>) {
        while self.names.values().any(|(name, _)| *name == task) {
            let ended = self.ended().await;
            errors.extend(ended.result.err());
        }
    }

    /// Aborts a task and waits until it has ended. Errors go to `errors` as for [`Tasks::finish`].
    pub(crate) async fn cut(&mut self, task: &'static str, errors: &mut Vec<TaskError>) {
        for (_, handle) in self.names.values().filter(|(name, _)| *name == task) {
            handle.abort();
        }
        self.finish(task, errors).await;
    }

    /// The names of the tasks still running, in order.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.names.values().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names
    }

    /// Aborts every task.
    pub(crate) async fn abort(mut self) {
        self.running.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use nephele_controller::chain;

    use super::*;

    #[tokio::test]
    async fn each_way_to_end_early_is_told_apart() {
        let mut tasks = Tasks::default();
        tasks.spawn("quiet", async { Ok::<(), io::Error>(()) });
        let quiet = tasks.ended().await.early();
        tasks.spawn("failing", async { Err(io::Error::other("no more ports")) });
        let failing = tasks.ended().await.early();
        tasks.spawn::<io::Error>("panicking", async { panic!("an invariant does not hold") });
        let panicking = tasks.ended().await.early();
        assert_eq!(chain(&quiet), "quiet ended without being told to");
        assert_eq!(chain(&failing), "failing failed: no more ports");
        assert_eq!(panicking.to_string(), "panicking panicked");
    }

    #[tokio::test]
    async fn a_task_that_is_cut_is_gone_and_is_no_error() {
        let mut tasks = Tasks::default();
        let (held, gone) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn("endless", async move {
            let _held = held;
            std::future::pending::<Result<(), io::Error>>().await
        });
        let mut errors = Vec::new();
        tasks.cut("endless", &mut errors).await;
        gone.await.expect_err("what the task held is dropped");
        assert!(errors.is_empty() && tasks.names().is_empty());
    }

    #[tokio::test]
    async fn finishing_a_task_notes_the_errors_of_others() {
        let mut tasks = Tasks::default();
        let (done, wait) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn("failing", async move {
            drop(done);
            Err(io::Error::other("broken"))
        });
        tasks.spawn("orderly", async move {
            let _ = wait.await;
            Ok::<(), io::Error>(())
        });
        let mut errors = Vec::new();
        tasks.finish("orderly", &mut errors).await;
        tasks.finish("failing", &mut errors).await;
        tasks.finish("never started", &mut errors).await;
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["failing failed"]
        );
        assert!(tasks.names().is_empty());
    }
}
