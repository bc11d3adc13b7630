//! The task of one pool. In this process, only the task chooses addresses and writes the pool.
//!
//! Duplicates are impossible, even if other processes work on the pool. A claim gets an address only after the address
//! was written to the pool's status, and the API server refuses that write if the pool has changed since it was read. A
//! process that finds another process's name in the status forgets its state and lists all IPAddresses again. It treats
//! the pending decisions of the other process as IPAddresses, because that process may still be creating them. It acts
//! on decisions only after it has written the pool itself, so that the other process cannot decide on anything else
//! meanwhile.

mod leftovers;

use std::{sync::Arc, time::Duration};

use kube::{Api, ResourceExt as _};
use nephele_api::{
    conditions::reasons as common,
    ipam::{conditions as reasons, finalizers, v1alpha2::AllocatorStatus},
};
use nephele_controller::{Backoff, Event, PatchError, Precondition, Severity, chain, patch};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, info_span, warn};

use super::{
    Facts, Pool, PoolSpec, Request,
    allocations::{Allocations, BATCH_MAX, IN_PROGRESS_MAX},
    kinds::PoolObject,
    report::{self, Report},
};
use crate::{address::version, context::Context};

/// While claims keep coming, a batch is gathered for this long: at 300 claims a second some eight share a write. It is
/// gathered for twice the duration of the last write if that is longer, so pools write less often to a busy management
/// API, and no claim waits much longer than it would anyway.
const GATHER: Duration = Duration::from_millis(25);
const GATHER_MAX: Duration = Duration::from_millis(500);
/// With this many claims, a batch does not wait for more.
const GATHERED: usize = BATCH_MAX / 2;
/// Decisions that have no IPAddress after this time do not delay others: their claims may be paused.
const STUCK_AFTER: Duration = Duration::from_secs(1);
/// Counts and conditions are written this long after the last write, so that a burst of changes costs a few writes. A
/// pool that keeps changing is written less and less often.
const REPORT_AFTER: Duration = Duration::from_millis(300);
const REPORT_AFTER_MAX: Duration = Duration::from_secs(2);
/// How long this process leaves a pool to another process that wrote it, unless a claim of ours waits.
const FOREIGN_PATIENCE: Duration = Duration::from_secs(5);
/// How often IPAddresses are compared with the claims that exist.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// The same while there are decisions, because a claim that is removed by force may leave a decision behind.
const SWEEP_UNFINISHED_EVERY: Duration = Duration::from_secs(5);
/// The number of conflicts in a row that ends an attempt to write the pool.
const CONFLICTS_MAX: u32 = 5;

/// Why a step of the task failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to list the pool's IPAddresses")]
    List,
    #[error("failed to read the pool")]
    Read(#[source] kube::Error),
    #[error("failed to write the pool")]
    Write(#[source] PatchError),
    #[error("failed to write the pool: each write was refused with a conflict")]
    Contended,
}

/// The task of one pool.
pub(crate) struct PoolTask<K: PoolObject> {
    context: Arc<Context>,
    pool: Arc<Pool>,
    api: Api<K>,
    seen: watch::Receiver<Arc<K>>,
    /// The newest version of the pool that this process knows.
    object: K,
    /// The allocator that the status had when the allocations were built, or that this process has written since.
    expected: Option<AllocatorStatus>,
    /// When this process saw that another process has written the pool since the allocations were built.
    foreign_since: Option<Instant>,
    spec: Option<PoolSpec>,
    last_write: Instant,
    last_report: Instant,
    report_after: Duration,
    last_batch: Instant,
    gather: Duration,
    last_sweep: Instant,
    next_sweep: Instant,
    failures: u32,
    retry_at: Option<Instant>,
    leftovers_retry_at: Option<Instant>,
}

impl<K: PoolObject> PoolTask<K> {
    pub(crate) fn new(context: Arc<Context>, pool: Arc<Pool>, seen: watch::Receiver<Arc<K>>) -> Self {
        let object = (**seen.borrow()).clone();
        let api = K::api(context.client.clone(), object.namespace().as_deref());
        let now = Instant::now();
        Self {
            context,
            pool,
            api,
            seen,
            object,
            expected: None,
            foreign_since: None,
            spec: None,
            last_write: now - REPORT_AFTER,
            last_report: now - REPORT_AFTER_MAX * 2,
            report_after: REPORT_AFTER,
            last_batch: now - GATHER,
            gather: GATHER,
            last_sweep: now,
            next_sweep: now + SWEEP_EVERY,
            failures: 0,
            retry_at: None,
            leftovers_retry_at: None,
        }
    }

    /// Works until `shutdown`, or until the pool is gone.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let span = info_span!("pool", kind = K::KIND.as_str(), pool = %self.pool.key);
        let work = async {
            loop {
                // A step may be cancelled at any point: that is no worse than a crash at that point.
                let Some(next) = shutdown.run_until_cancelled(self.guarded_step()).await else {
                    return;
                };
                let alarm = async {
                    match next {
                        Some(at) => sleep_until(at).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = self.pool.work.notified() => {}
                    () = alarm => {}
                    changed = self.seen.changed() => if changed.is_err() { return },
                }
            }
        };
        work.instrument(span).await;
    }

    /// One step. Returns when the next step is due if nothing happens before.
    async fn guarded_step(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.look();
        if let Some(at) = self.retry_at.filter(|at| *at > now) {
            return Some(at);
        }
        match self.step().await {
            Ok(next) => {
                self.failures = 0;
                self.retry_at = None;
                next
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                let at = Instant::now() + Backoff::default().delay(self.failures);
                self.retry_at = Some(at);
                warn!(error = %chain(&error), "Failed to update the pool; trying again");
                self.pool.allocations.lock().unchoose();
                self.wake_claims();
                Some(at)
            }
        }
    }

    async fn step(&mut self) -> Result<Option<Instant>, Error> {
        if !self.object.metadata_deleting() && self.why_paused().is_none() {
            self.protect().await?;
        }
        self.admit();
        let rebuild = self.pool.allocations.lock().is_stale() || self.is_foreign_due();
        if rebuild {
            self.rebuild().await?;
        }
        self.specify();
        let gathering = self.serve().await?;
        let late = self.pool.allocations.lock().expire(Instant::now());
        self.leftovers().await;
        self.wake_claims();
        if self.finalize().await? {
            return Ok(None);
        }
        self.sweep();
        let reporting = self.report().await?;
        self.measure();
        let foreign = self.foreign_since.map(|since| since + FOREIGN_PATIENCE);
        let times = [
            gathering,
            reporting,
            foreign,
            late,
            self.next_hold(),
            self.leftovers_retry_at,
        ];
        Ok(times.into_iter().flatten().chain([self.next_sweep]).min())
    }

    /// Uses the newest version of the pool that the watch has shown.
    fn look(&mut self) {
        let seen = Arc::clone(&self.seen.borrow_and_update());
        self.take(&seen);
    }

    /// Uses a version of the pool, unless it is older than the known version.
    fn take(&mut self, object: &K) {
        let newer = version(object.resource_version().as_deref())
            >= version(self.object.resource_version().as_deref());
        if !newer {
            return;
        }
        self.object = object.clone();
        if self.is_foreign() {
            self.foreign_since.get_or_insert_with(Instant::now);
        }
    }

    /// Whether another process was the last to write decisions.
    fn is_foreign(&self) -> bool {
        let allocator = self.object.pool_status().allocator;
        let ours = allocator
            .as_ref()
            .is_some_and(|allocator| allocator.holder == self.context.holder);
        allocator != self.expected && !ours
    }

    /// Whether it is time to rebuild from the pool that another process wrote.
    fn is_foreign_due(&self) -> bool {
        self.foreign_since.is_some_and(|since| {
            since.elapsed() >= FOREIGN_PATIENCE || self.pool.allocations.lock().has_work()
        })
    }

    /// Why the pool is paused. None if it is not.
    fn why_paused(&self) -> Option<String> {
        nephele_controller::paused_message(K::KIND.as_str(), self.object.meta(), false)
    }

    async fn protect(&mut self) -> Result<(), Error> {
        for _ in 0..CONFLICTS_MAX {
            match patch::add_finalizer(&self.api, &self.object, finalizers::POOL).await {
                Ok(None) => return Ok(()),
                Ok(Some(object)) => {
                    self.take(&object);
                    return Ok(());
                }
                Err(error) if error.is_conflict() => self.refresh().await?,
                Err(error) => return Err(Error::Write(error)),
            }
        }
        Err(Error::Contended)
    }

    /// Opens or closes the pool, and wakes its claims when that changes.
    fn admit(&mut self) {
        let meta = self.object.meta();
        let facts = Facts {
            uid: self.object.uid().unwrap_or_default(),
            paused: self.why_paused().is_some(),
            deleting: meta.deletion_timestamp.is_some(),
            grace_period_seconds: super::ranges::grace_period_seconds(&self.object.pool_spec()),
        };
        let closed = if facts.deleting {
            Some((
                reasons::POOL_NOT_READY,
                format!("{} is being deleted", self.pool.key),
            ))
        } else if facts.paused {
            Some((common::PAUSED, format!("{} is paused", self.pool.key)))
        } else {
            None
        };
        let changed = std::mem::replace(&mut *self.pool.facts.lock(), facts.clone()) != facts;
        if changed {
            self.pool.allocations.lock().close(closed);
            self.context.wake_claims_of(&self.pool.key);
        }
    }

    async fn rebuild(&mut self) -> Result<(), Error> {
        self.pool.allocations.lock().begin_rebuild();
        let listed = self.context.lister.list(&self.pool.key).await;
        let mut allocations = self.pool.allocations.lock();
        let Some(listed) = listed else {
            allocations.abandon_rebuild();
            return Err(Error::List);
        };
        let status = self.object.pool_status();
        let ours = status
            .allocator
            .as_ref()
            .is_some_and(|known| known.holder == self.context.holder);
        debug!(
            addresses = listed.records.len(),
            pending = status.pending.len(),
            ours,
            "Rebuilding the allocations"
        );
        let crate::address::Listed { records, version } = listed;
        allocations.rebuild(
            records,
            version,
            &status.pending,
            &self.pool.key,
            ours,
            Instant::now(),
        );
        drop(allocations);
        self.expected = status.allocator;
        self.foreign_since = None;
        self.spec = None;
        self.next_sweep = Instant::now();
        Ok(())
    }

    /// Uses the current spec of the pool.
    fn specify(&mut self) {
        let spec = self.object.pool_spec();
        if self.spec.as_ref() == Some(&spec) {
            return;
        }
        let mut allocations = self.pool.allocations.lock();
        let failed_before = self.spec.is_some() && allocations.ranges().is_none();
        allocations.specify(&spec);
        let others = self
            .context
            .overlaps
            .specify(&self.pool.key, allocations.ranges());
        drop(allocations);
        self.spec = Some(spec);
        for other in others {
            if let Some(other) = self.context.pools.get(&other) {
                other.look_again();
            }
        }
        if failed_before {
            self.context.wake_claims_of(&self.pool.key);
        }
    }

    /// Requests a reconcile of the claims that have a new answer.
    fn wake_claims(&self) {
        let calls = self.pool.allocations.lock().take_woken();
        self.context.queue.wake(calls);
    }

    /// Decides on addresses for the claims that wait, writes the decisions, and wakes the claims. Returns when to
    /// decide again if claims still wait.
    async fn serve(&mut self) -> Result<Option<Instant>, Error> {
        loop {
            if let Some(later) = self.decide_later() {
                return Ok(Some(later));
            }
            self.quarantine();
            let key = &self.pool.key;
            let lets_pass = |request: &Request, next| self.context.lets_pass(key, request, next);
            let has_faults = self.context.faults.any();
            let chosen = self.pool.allocations.lock().choose(
                BATCH_MAX,
                |request| self.context.wants(key, request),
                has_faults.then_some(&lets_pass),
            );
            self.wake_claims();
            if !self.has_unwritten(&self.pool.allocations.lock()) {
                return Ok(None);
            }
            let begun = Instant::now();
            self.last_batch = begun;
            let written = self.write_batch().await?;
            self.last_batch = Instant::now();
            self.gather = (begun.elapsed() * 2).clamp(GATHER, GATHER_MAX);
            if !written {
                self.rebuild().await?;
                self.specify();
                continue;
            }
            debug!(chosen, "Decided on addresses");
            self.pool.allocations.lock().persisted();
            self.wake_claims();
            if !self.pool.allocations.lock().has_work() {
                return Ok(None);
            }
        }
    }

    /// Whether there is a decision that this process has to write.
    fn has_unwritten(&self, allocations: &Allocations) -> bool {
        allocations.has_unwritten(|owner, uid| self.context.is_theirs(owner, uid))
    }

    /// Sets those addresses aside that Faults keep from all claims.
    fn quarantine(&self) {
        let mut allocations = self.pool.allocations.lock();
        let quarantined = self
            .context
            .faults
            .quarantined(&self.pool.key, self.context.now());
        allocations.quarantine(&quarantined);
    }

    /// Until when the next decisions wait: for more claims that share the write, or for the IPAddresses of the last
    /// decisions. None if they do not wait.
    fn decide_later(&self) -> Option<Instant> {
        let allocations = self.pool.allocations.lock();
        if !allocations.has_work() || self.has_unwritten(&allocations) {
            return None;
        }
        let in_progress = allocations.in_progress();
        let until = if in_progress + BATCH_MAX > IN_PROGRESS_MAX {
            self.last_batch + STUCK_AFTER
        } else if in_progress > 0 && allocations.waiting() < GATHERED {
            self.last_batch + self.gather
        } else {
            return None;
        };
        (Instant::now() < until).then_some(until)
    }

    /// Writes the decisions. False if another process has decided meanwhile: then the decisions are undone.
    async fn write_batch(&mut self) -> Result<bool, Error> {
        for _ in 0..CONFLICTS_MAX {
            // The watch may have shown what the other process wrote. Then this write would not conflict, and would remove
            // the decisions of the other process.
            if self.is_foreign() {
                self.pool.allocations.lock().unchoose();
                return Ok(false);
            }
            let mut next = self.object.clone();
            let revision = self
                .object
                .pool_status()
                .allocator
                .map_or(0, |allocator| allocator.revision);
            let allocator = AllocatorStatus {
                holder: self.context.holder.clone(),
                revision: revision.saturating_add(1),
            };
            next.set_pool_status(self.draft(Some(allocator)));
            match patch::status(&self.api, &self.object, &next, Precondition::ResourceVersion).await {
                Ok(written) => {
                    self.wrote(written.unwrap_or(next));
                    return Ok(true);
                }
                Err(error) if error.is_conflict() => self.refresh().await?,
                Err(error) => return Err(Error::Write(error)),
            }
        }
        Err(Error::Contended)
    }

    /// Uses a version that this process wrote.
    fn wrote(&mut self, object: K) {
        self.tell_people(&object);
        self.expected = object.pool_status().allocator;
        self.object = object;
        self.last_write = Instant::now();
    }

    /// Reads the pool itself: the watch may be behind.
    async fn refresh(&mut self) -> Result<(), Error> {
        let api = K::readable(self.context.client.clone(), self.object.namespace().as_deref());
        let object = api.get(&self.object.name_any()).await.map_err(Error::Read)?;
        self.take(&object.into_object());
        Ok(())
    }

    /// The status to write, with this allocator, or else with the allocator that it has.
    fn draft(&self, allocator: Option<AllocatorStatus>) -> nephele_api::ipam::v1alpha2::PoolStatus {
        let allocations = self.pool.allocations.lock();
        let mut status = self.object.pool_status();
        if allocator.is_some() {
            status.allocator = allocator;
        }
        let report = Report {
            counts: allocations.counts(),
            pending: allocations.pending(&self.pool.key),
            deleting: self.object.metadata_deleting(),
            troubles: allocations.troubles(),
            overlaps: self.context.overlaps.of(&self.pool.key),
        };
        drop(allocations);
        report::status(status, report, self.object.meta().generation, self.context.now())
    }

    /// Writes counts and conditions when they have changed and the last write was long enough ago. Returns when to look
    /// again.
    async fn report(&mut self) -> Result<Option<Instant>, Error> {
        if !self.context.filter.matches(self.object.meta()) || self.foreign_since.is_some() {
            return Ok(None);
        }
        let due = self.last_write + self.report_after;
        if Instant::now() < due {
            return Ok(Some(due));
        }
        let generation = self.object.meta().generation;
        let now = self.context.now();
        let status = match self.why_paused() {
            Some(message) => report::paused(self.object.pool_status(), message, generation, now),
            None => report::resumed(self.draft(None), generation, now),
        };
        if status == self.object.pool_status() {
            return Ok(None);
        }
        let is_busy = self.last_report.elapsed() < self.report_after * 2;
        self.report_after = if is_busy {
            (self.report_after * 2).min(REPORT_AFTER_MAX)
        } else {
            REPORT_AFTER
        };
        self.last_report = Instant::now();
        let mut next = self.object.clone();
        next.set_pool_status(status);
        match patch::status(&self.api, &self.object, &next, Precondition::ResourceVersion).await {
            Ok(written) => {
                self.wrote(written.unwrap_or(next));
                Ok(None)
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) if error.is_conflict() => {
                self.refresh().await?;
                Ok(Some(Instant::now() + REPORT_AFTER))
            }
            Err(error) => Err(Error::Write(error)),
        }
    }

    /// Publishes an Event about a problem that a person should look at, if it is new.
    fn tell_people(&self, next: &K) {
        let ready = report::ready(&next.pool_status());
        if ready == report::ready(&self.object.pool_status()) {
            return;
        }
        let Some((reason, message)) = ready else { return };
        let (severity, note) = match message {
            message if !message.is_empty() => (Severity::Warning, message),
            // A new pool has no trouble to be over.
            _ if self.object.pool_status().conditions.is_empty() => return,
            _ => (Severity::Normal, "The pool serves claims".to_owned()),
        };
        self.context.events.publish(Event {
            regarding: self.object.object_ref(&()),
            severity,
            reason,
            action: "Allocate",
            note,
        });
    }

    /// Removes our finalizer from a pool that is being deleted and has no IPAddress. True if the pool does not have it
    /// any more.
    async fn finalize(&mut self) -> Result<bool, Error> {
        let is_kept = self.pool.allocations.lock().len() > 0 || self.why_paused().is_some();
        if !self.object.metadata_deleting() || is_kept {
            return Ok(false);
        }
        if !self
            .object
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == finalizers::POOL)
        {
            return Ok(true);
        }
        // The watch may be behind: only a list shows that there is no IPAddress.
        self.rebuild().await?;
        self.specify();
        if self.pool.allocations.lock().len() > 0 {
            return Ok(false);
        }
        match patch::remove_finalizer(&self.api, &self.object, finalizers::POOL).await {
            Ok(object) => {
                if let Some(object) = object {
                    self.take(&object);
                }
                Ok(true)
            }
            Err(error) if error.is_conflict() => match self.refresh().await {
                Err(Error::Read(kube::Error::Api(status))) if status.code == 404 => Ok(true),
                Err(error) => Err(error),
                Ok(()) => Err(Error::Contended),
            },
            Err(error) => Err(Error::Write(error)),
        }
    }

    fn sweep(&mut self) {
        let unfinished = self.pool.allocations.lock().has_unfinished();
        let now = Instant::now();
        if unfinished {
            self.next_sweep = self.next_sweep.min(self.last_sweep + SWEEP_UNFINISHED_EVERY);
        }
        if now < self.next_sweep {
            return;
        }
        (self.last_sweep, self.next_sweep) = (now, now + SWEEP_EVERY);
        if !self.context.has_listed_claims() {
            self.next_sweep = now + SWEEP_UNFINISHED_EVERY;
            return;
        }
        let context = &self.context;
        self.pool.allocations.lock().sweep(
            |owner, uid| context.is_known(owner, uid),
            |owner, uid| context.is_here(owner, uid),
        );
        self.leftovers_retry_at.get_or_insert(now);
    }

    fn measure(&self) {
        let allocations = self.pool.allocations.lock();
        self.context
            .metrics
            .measure(&self.pool.key, allocations.counts(), &allocations.troubles());
    }
}

/// Whether an object is being deleted.
trait Deleting {
    fn metadata_deleting(&self) -> bool;
}

impl<K: PoolObject> Deleting for K {
    fn metadata_deleting(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }
}
