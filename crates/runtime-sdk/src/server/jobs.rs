//! Work that takes longer than a call: begun by the first one, reported on by the next.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::{task::JoinSet, time::Instant};
use tracing::error;

use super::handler::panic_text;
use crate::hooks::{Failure, Response};

/// How much is worked on and remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLimits {
    /// Jobs at a time; a further one is begun by a later call.
    pub running_max: usize,
    /// Jobs that are remembered after they ended well; beyond it the oldest is forgotten, and begun anew when it is
    /// asked for again.
    pub done_max: usize,
    /// How long they are remembered. A caller asks again when another extension still has it wait.
    pub done_for: Duration,
    /// When the caller is to ask again, in seconds.
    pub retry_after_seconds: u16,
}

impl Default for JobLimits {
    /// 64 at a time, 4096 remembered for a day, as long as Cluster API remembers answers, and 5 s.
    fn default() -> Self {
        Self {
            running_max: 64,
            done_max: 4096,
            done_for: Duration::from_secs(24 * 3600),
            retry_after_seconds: 5,
        }
    }
}

/// How a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It goes on; it was begun so long ago.
    Running(Duration),
    /// It waits for another one to end.
    Waiting,
    /// It ended well.
    Done,
}

enum State {
    Running { since: Instant },
    Done { since: Instant },
    Failed(Failure),
}

/// Jobs by a name that every call for the same work has, such as the Cluster's uid with hook and version. It is cheap to
/// clone.
///
/// They are of this process: after a restart a job begins anew, so that its work has to be such that it can be done
/// again. Jobs end when all clones are gone.
///
/// ```
/// # use nephele_runtime_sdk::{hooks::{BeforeClusterDelete, Failure}, server::{Extension, Jobs}};
/// let jobs = Jobs::default();
/// let extension = Extension::new().on(BeforeClusterDelete, "backup", move |request, _call| {
///     let jobs = jobs.clone();
///     async move {
///         let name = format!("backup-{}", request.cluster.text("/metadata/uid").unwrap_or_default());
///         jobs.answer(&name, "the cluster is being backed up", || async { Ok(()) })
///     }
/// });
/// # extension.build().unwrap();
/// ```
#[derive(Clone, Default)]
pub struct Jobs {
    limits: JobLimits,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    /// Owned here: calls begin jobs, jobs end themselves.
    jobs: BTreeMap<String, State>,
    tasks: JoinSet<()>,
}

impl Jobs {
    /// With other limits.
    #[must_use]
    pub fn new(limits: JobLimits) -> Self {
        Self { limits, table: Arc::default() }
    }

    /// Begins a job unless it is there, and says how it stands. A job that failed says so once, and is begun anew by the
    /// next call.
    ///
    /// # Errors
    /// When the job failed, or panicked.
    pub fn progress<Fut>(&self, name: &str, work: impl FnOnce() -> Fut) -> Result<Progress, Failure>
    where
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let now = Instant::now();
        let table = &mut *self.table.lock();
        while table.tasks.try_join_next().is_some() {}
        table.forget(now, self.limits);
        match table.jobs.get(name) {
            Some(State::Running { since }) => return Ok(Progress::Running(now - *since)),
            Some(State::Done { .. }) => return Ok(Progress::Done),
            Some(State::Failed(failure)) => {
                let failure = failure.clone();
                table.jobs.remove(name);
                return Err(failure);
            }
            None => {}
        }
        if table.running() >= self.limits.running_max {
            return Ok(Progress::Waiting);
        }
        table.jobs.insert(name.to_owned(), State::Running { since: now });
        // Weak, so that a job does not keep alive the set that would end it.
        let (jobs, name, work) = (Arc::downgrade(&self.table), name.to_owned(), work());
        table.tasks.spawn(async move {
            let state = match std::panic::AssertUnwindSafe(work).catch_unwind().await {
                Ok(Ok(())) => State::Done { since: Instant::now() },
                Ok(Err(failure)) => State::Failed(failure),
                Err(panic) => {
                    error!(job = name, panic = panic_text(&*panic), "Job panicked");
                    State::Failed(Failure::new("the work panicked"))
                }
            };
            if let Some(table) = jobs.upgrade() {
                table.lock().jobs.insert(name, state);
            }
        });
        Ok(Progress::Running(Duration::ZERO))
    }

    /// The same as a response: it has the caller ask again while the job goes on, with `message` for people.
    ///
    /// # Errors
    /// When the job failed, or panicked.
    pub fn answer<R, Fut>(&self, name: &str, message: &str, work: impl FnOnce() -> Fut) -> Result<R, Failure>
    where
        R: Response,
        Fut: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut response = R::default();
        if self.progress(name, work)? != Progress::Done {
            // The message says nothing about time or place: it is shown in conditions, which should not flicker.
            response.set_message(message.to_owned());
            response.set_retry_after_seconds(self.limits.retry_after_seconds.max(1).into());
        }
        Ok(response)
    }

    /// Forgets a job that ended, so that it can begin anew.
    pub fn forget(&self, name: &str) {
        let jobs = &mut self.table.lock().jobs;
        if !matches!(jobs.get(name), Some(State::Running { .. })) {
            jobs.remove(name);
        }
    }
}

impl Table {
    fn running(&self) -> usize {
        self.jobs.values().filter(|state| matches!(state, State::Running { .. })).count()
    }

    /// Forgets what ended long ago, and the oldest of too many.
    fn forget(&mut self, now: Instant, limits: JobLimits) {
        self.jobs
            .retain(|_, state| !matches!(state, State::Done { since } if now - *since >= limits.done_for));
        let ended = self.jobs.len() - self.running();
        let Some(excess) = ended.checked_sub(limits.done_max).filter(|excess| *excess > 0) else { return };
        let age = |state: &State| match state {
            State::Running { .. } => None,
            State::Done { since } => Some(now - *since),
            // Nobody asked for it so far: it is as good as the youngest.
            State::Failed(_) => Some(Duration::ZERO),
        };
        let mut oldest: Vec<(Duration, String)> =
            self.jobs.iter().filter_map(|(name, state)| Some((age(state)?, name.clone()))).collect();
        oldest.sort_by(|one, other| other.cmp(one));
        for (_, name) in oldest.into_iter().take(excess) {
            self.jobs.remove(&name);
        }
    }
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let table = self.table.lock();
        f.debug_struct("Jobs").field("running", &table.running()).field("known", &table.jobs.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::hooks::{BeforeClusterDeleteResponse, ResponseStatus};

    fn ask(
        jobs: &Jobs,
        name: &str,
        end: Option<oneshot::Receiver<Result<(), Failure>>>,
    ) -> Result<Progress, Failure> {
        jobs.progress(name, || async move {
            match end {
                Some(end) => end.await.unwrap(),
                None => Ok(()),
            }
        })
    }

    async fn settled(jobs: &Jobs) {
        while jobs.table.lock().running() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_is_begun_once_and_remembered_when_it_ended() {
        let jobs = Jobs::default();
        let (end, ended) = oneshot::channel();
        assert_eq!(ask(&jobs, "a", Some(ended)), Ok(Progress::Running(Duration::ZERO)));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(ask(&jobs, "a", None), Ok(Progress::Running(Duration::from_secs(3))));
        end.send(Ok(())).unwrap();
        settled(&jobs).await;
        assert_eq!(ask(&jobs, "a", None), Ok(Progress::Done));
        tokio::time::advance(Duration::from_secs(24 * 3600)).await;
        assert_eq!(ask(&jobs, "a", None), Ok(Progress::Running(Duration::ZERO)));
    }

    #[tokio::test]
    async fn a_failure_is_told_once_and_then_it_is_tried_again() {
        let jobs = Jobs::default();
        let (end, ended) = oneshot::channel();
        ask(&jobs, "a", Some(ended)).unwrap();
        end.send(Err(Failure::new("no space"))).unwrap();
        settled(&jobs).await;
        assert_eq!(ask(&jobs, "a", None), Err(Failure::new("no space")));
        assert_eq!(ask(&jobs, "a", None), Ok(Progress::Running(Duration::ZERO)));
        settled(&jobs).await;
        let panics = || async { panic!("no") };
        assert_eq!(jobs.progress("b", panics), Ok(Progress::Running(Duration::ZERO)));
        settled(&jobs).await;
        assert_eq!(ask(&jobs, "b", None), Err(Failure::new("the work panicked")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_runs_and_what_is_remembered_is_bounded() {
        let jobs = Jobs::new(JobLimits { running_max: 1, done_max: 2, ..JobLimits::default() });
        let (end, ended) = oneshot::channel();
        ask(&jobs, "a", Some(ended)).unwrap();
        assert_eq!(ask(&jobs, "b", None), Ok(Progress::Waiting));
        end.send(Ok(())).unwrap();
        settled(&jobs).await;
        for name in ["b", "c"] {
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(ask(&jobs, name, None), Ok(Progress::Running(Duration::ZERO)));
            settled(&jobs).await;
        }
        assert_eq!(ask(&jobs, "c", None), Ok(Progress::Done));
        assert_eq!(ask(&jobs, "b", None), Ok(Progress::Done));
        assert_eq!(ask(&jobs, "a", None), Ok(Progress::Running(Duration::ZERO)));
        jobs.forget("b");
        settled(&jobs).await;
        assert_eq!(ask(&jobs, "b", None), Ok(Progress::Running(Duration::ZERO)));
    }

    #[tokio::test]
    async fn a_response_has_the_caller_ask_again_until_the_job_ended() {
        let jobs = Jobs::default();
        let answer = || jobs.answer::<BeforeClusterDeleteResponse, _>("a", "busy", || async { Ok(()) });
        assert_eq!(answer(), Ok(BeforeClusterDeleteResponse::retry_after(5, "busy")));
        settled(&jobs).await;
        let response = answer().unwrap();
        assert_eq!((response.status, response.retry_after_seconds), (ResponseStatus::Success, 0));
    }

    #[tokio::test]
    async fn jobs_end_with_the_table() {
        let (hold, held) = oneshot::channel::<()>();
        let jobs = Jobs::default();
        jobs.progress("a", || async move {
            let _hold = hold;
            std::future::pending().await
        })
        .unwrap();
        drop(jobs);
        assert!(held.await.is_err());
    }
}
