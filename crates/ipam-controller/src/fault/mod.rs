//! Faults of addresses: carries them out for claims, and reports what they have done.
//!
//! ```text
//!  Fault ─▶ read ▶ Board::put, tick ─▶ wake claims and pools
//!                    ▲ ask, release         │ changed
//!  claims, pools ────┘                      ▼
//!  claims ◀─wake─ recorded ◀── status of the Fault, one write for all that was decided meanwhile
//! ```
//!
//! Without a Fault of addresses, claims and pools read one flag.

mod board;
mod report;
mod spec;

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt as _, future, stream};
use jiff::Timestamp;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt as _};
use nephele_api::cloud::v1alpha1::{self, ClusterFault, Fault, FaultStatus};
use nephele_api::cloud::{GROUP, is_being_restored};
use nephele_api::conditions::{self, types};
use nephele_api::ipam::conditions as reasons;
use nephele_api::ipam::v1beta2::IPAddressClaim;
use nephele_engine::Seed;
use nephele_fault::{InForce, Mistake, Standing, cluster, differs_in_numbers_only, is_of_addresses};
use nephele_ipam::Owner;
use nephele_kit::{
    Cache, Gone, Listing, Outcome, Pace, PatchError, Precondition, ReconcileError, Retry, RunError, Runner,
    Services, chain, patch, scoped, unreadable, when_woken,
};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use self::board::{Board, Described, FaultId, Presence};
pub(crate) use self::board::{Hold, Release, Subject, Verdict, Why};
use crate::context::{Context, owner};
use crate::pool::{Block, PoolKey};

/// How long to wait before checking again whether the kind is installed.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// How long to wait before checking again when there was no answer: claims wait for it.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// All Faults of addresses. While the board is locked, no pool is: a pool may ask while it is locked itself.
pub(crate) struct Faults {
    board: Mutex<Board>,
    /// Whether there is any.
    any: AtomicBool,
    changed: Notify,
    /// The namespaces whose Faults have changed, and whose claims and pools have to be woken.
    due: Mutex<BTreeSet<String>>,
    has_due: Notify,
    in_force: InForce,
    pace: Pace<FaultId>,
}

impl Faults {
    pub(crate) fn new(seed: &str) -> Self {
        Self {
            board: Mutex::new(Board::new(Seed::new(seed))),
            any: AtomicBool::new(false),
            changed: Notify::new(),
            due: Mutex::default(),
            has_due: Notify::new(),
            in_force: InForce::default(),
            pace: Pace::default(),
        }
    }

    /// Whether there is any Fault of addresses.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Decides about a claim that wants an address. `next` is the address that it would get now.
    pub(crate) fn ask(
        &self,
        subject: &Subject,
        pool: &PoolKey,
        next: Option<Block>,
        now: Timestamp,
    ) -> Verdict {
        self.decide(|board| board.ask(subject, pool, next, now))
    }

    /// Whether a claim can get this address now. If not, it has to ask.
    pub(crate) fn lets_pass(&self, subject: &Subject, pool: &PoolKey, next: Block, now: Timestamp) -> bool {
        self.board.lock().lets_pass(subject, pool, next, now)
    }

    /// Decides about a claim that gives its address back.
    pub(crate) fn release(
        &self,
        subject: &Subject,
        pool: &PoolKey,
        block: Option<Block>,
        released_at: Timestamp,
        now: Timestamp,
    ) -> Release {
        self.decide(|board| board.release(subject, pool, block, released_at, now))
    }

    /// Until when addresses of a pool are held back after their claims, by the names of the claims.
    pub(crate) fn late(&self, pool: &PoolKey, now: Timestamp) -> BTreeMap<Owner, (Option<Block>, Timestamp)> {
        if self.any() { self.board.lock().late(pool, now) } else { BTreeMap::new() }
    }

    /// The addresses of a pool that nobody gets.
    pub(crate) fn aside(&self, pool: &PoolKey, now: Timestamp) -> BTreeSet<Block> {
        if self.any() { self.board.lock().aside(pool, now) } else { BTreeSet::new() }
    }

    /// A claim has its address, or is gone.
    pub(crate) fn left(&self, claim: &IPAddressClaim) {
        if self.any() {
            let uid = claim.metadata.uid.as_deref().unwrap_or_default();
            self.decide(|board| board.left(&owner(&claim.metadata), uid));
        }
    }

    fn decide<R>(&self, decide: impl FnOnce(&mut Board) -> R) -> R {
        let mut board = self.board.lock();
        let decided = decide(&mut board);
        if board.has_changed() {
            self.changed.notify_one();
        }
        decided
    }

    fn remove(&self, id: &FaultId) -> bool {
        self.pace.forget(id);
        self.in_force.forget(&id.0, &id.1);
        let mut board = self.board.lock();
        let removed = board.remove(id);
        self.any.store(!board.is_empty(), Ordering::Release);
        removed
    }

    /// The Faults whose status has to change.
    fn listen(context: Arc<Context>) -> impl Stream<Item = ObjectRef<Fault>> + Send + 'static {
        stream::unfold(context, |context| async move {
            loop {
                let shared = Arc::clone(&context);
                let changed = shared.faults.changed.notified();
                let next = context.faults.board.lock().take_changed();
                if let Some((namespace, name)) = next {
                    return Some((ObjectRef::new(&name).within(&namespace), context));
                }
                changed.await;
            }
        })
    }
}

/// Faults without objects.
#[cfg(test)]
impl Faults {
    pub(crate) fn put(&self, namespace: &str, name: &str, spec: serde_json::Value, now: Timestamp) {
        let spec = serde_json::from_value(spec).expect("readable");
        let fault = spec::read(&spec).expect("valid");
        let described = Described { uid: String::new(), fault, paused: false };
        let id = (namespace.to_owned(), name.to_owned());
        let mut board = self.board.lock();
        board.put(&id, described, board::History::default(), now);
        board.tick(&id, now, |_, _| Presence::Waiting);
        self.any.store(true, Ordering::Release);
    }

    pub(crate) fn take_away(&self, namespace: &str, name: &str) {
        self.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Writes all decisions.
    pub(crate) fn record(&self, now: Timestamp) {
        let mut board = self.board.lock();
        for id in board.ids() {
            let seen = board.observe(&id, now).expect("it is known");
            board.recorded(&id, &seen.hits);
        }
    }
}

impl Context {
    /// A claim, as Faults see it.
    pub(crate) fn subject(&self, claim: &IPAddressClaim) -> Subject {
        let cluster = self.cluster_of(claim);
        let labels = cluster.as_ref().and_then(|(_, cluster)| cluster.as_ref());
        let conditions = claim.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let told = [reasons::POOL_EXHAUSTED, reasons::ALLOCATION_FAILED, reasons::ALLOCATION_DELAYED];
        let created = claim.metadata.creation_timestamp.as_ref();
        Subject {
            owner: owner(&claim.metadata),
            uid: claim.metadata.uid.as_deref().unwrap_or_default().into(),
            created: created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            has_wish: claim.annotations().contains_key(nephele_api::ipam::annotations::WANTED_ADDRESS),
            labels: labels.map(|cluster| cluster.labels().clone()).unwrap_or_default(),
            cluster: cluster.map(|(name, _)| name).unwrap_or_default(),
            was_told: conditions::find(conditions, types::READY)
                .is_some_and(|ready| told.contains(&ready.reason.as_str())),
        }
    }

    /// Sends a Fault to the board, if it is one of addresses. Returns its standing, and its mistake, if it has one: then it
    /// has no effect.
    fn put_fault(&self, object: &Fault, now: Timestamp) -> (Standing, Option<String>) {
        let id = id(object);
        let standing = self.faults.in_force.standing(object);
        let spec = match &standing {
            Standing::Runs if is_of_addresses(&object.spec) => Some(Arc::new(object.spec.clone())),
            Standing::Holds(spec) if is_of_addresses(spec) => Some(Arc::clone(spec)),
            Standing::Runs | Standing::Holds(_) | Standing::Rests => None,
        };
        let mistake = unreadable(&object.metadata).filter(|_| standing == Standing::Runs);
        let read = spec.map(|spec| match mistake {
            Some(mistake) => Err(mistake.to_owned()),
            None => Ok((spec::read(&spec).map_err(|mistake: Mistake| mistake.to_string())?, spec)),
        });
        let read = read.transpose();
        let (fault, spec) = match read {
            Ok(Some(read)) => read,
            Ok(None) => {
                self.forget_fault(&id);
                return (standing, None);
            }
            Err(mistake) => {
                self.forget_fault(&id);
                return (standing, Some(mistake));
            }
        };
        self.faults.in_force.carry(object, spec);
        let uid = object.uid().unwrap_or_default();
        let described = Described { uid, fault, paused: standing != Standing::Runs };
        let presence = |owner: &Owner, uid: &str| self.presence(owner, uid);
        let mut board = self.faults.board.lock();
        let is_news = board.put(&id, described, report::history(object, &id.0), now);
        self.faults.any.store(true, Ordering::Release);
        let has_turned = board.tick(&id, now, presence);
        drop(board);
        if is_news || has_turned {
            self.wake_for(&id.0);
        }
        (standing, None)
    }

    /// A Fault is gone.
    fn forget_fault(&self, id: &FaultId) {
        if self.faults.remove(id) {
            self.wake_for(&id.0);
        }
    }

    fn presence(&self, owner: &Owner, uid: &str) -> Presence {
        match self.claim(owner).filter(|claim| claim.metadata.uid.as_deref() == Some(uid)) {
            // Claims are listed only after all Faults are known.
            None if !self.has_listed_claims() => Presence::Waiting,
            None => Presence::Gone,
            Some(claim) if claim.address_name().is_some() => Presence::Bound,
            Some(_) => Presence::Waiting,
        }
    }

    /// Claims of a namespace that wait may have a new answer, and so may the pools that such claims use.
    fn wake_for(&self, namespace: &str) {
        self.faults.due.lock().insert(namespace.to_owned());
        self.faults.has_due.notify_one();
    }

    /// Wakes claims and pools of the namespaces whose Faults have changed, until `shutdown`. A ClusterFault changes those of
    /// thousands of namespaces at a time, and one walk over the claims serves all that have changed meanwhile.
    async fn wake_due(&self, shutdown: &CancellationToken) {
        while shutdown.run_until_cancelled(self.faults.has_due.notified()).await.is_some() {
            let due = mem::take(&mut *self.faults.due.lock());
            self.wake_claims(|claim| {
                let waits = claim.address_name().is_none() || claim.metadata.deletion_timestamp.is_some();
                waits && claim.metadata.namespace.as_ref().is_some_and(|namespace| due.contains(namespace))
            });
            self.pools.used_from(&due).iter().for_each(|pool| pool.look_again());
        }
    }
}

/// Why a Fault could not be reconciled.
#[derive(Debug, Error)]
#[error("failed to update the Fault")]
struct Error(#[source] PatchError);

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        self.0.category()
    }

    fn retry(&self) -> Retry {
        self.0.retry()
    }
}

fn id(object: &Fault) -> FaultId {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Carries a Fault out and reports its status, if it is one of addresses. Others are the infrastructure provider's.
async fn reconcile(object: Arc<Fault>, context: Arc<Context>) -> Result<Outcome, Error> {
    let (id, now) = (id(&object), context.now());
    if object.metadata.deletion_timestamp.is_some() || is_being_restored(&object.metadata) {
        context.forget_fault(&id);
        return Ok(Outcome::Done);
    }
    let (standing, mistake) = context.put_fault(&object, now);
    let is_ours = match &standing {
        Standing::Holds(spec) => is_of_addresses(spec),
        Standing::Runs | Standing::Rests => is_of_addresses(&object.spec),
    };
    if !is_ours {
        return Ok(Outcome::Done);
    }
    let seen = context.faults.board.lock().observe(&id, now);
    let next = seen.as_ref().and_then(|seen| seen.next);
    let hits = seen.as_ref().map(|seen| seen.hits.clone()).unwrap_or_default();
    if standing != Standing::Runs {
        let in_force = standing.in_force(&object);
        let latest = seen.map(|seen| report::status(&in_force, Ok(Some(seen)), now));
        if let Some(status) = nephele_fault::paused_status(&object, &standing, latest, now) {
            write(&object, status, &context).await?;
        }
        let recorded = context.faults.board.lock().recorded(&id, &hits);
        context.queue.wake(recorded);
        // What ends by time ends, and wakes the claims that wait for it.
        return Ok(next.map_or(Outcome::WaitingOn("unpaused"), |next| at(next, &context)));
    }
    let status = report::status(&object, mistake.map_or(Ok(seen), Err), now);
    let is_recorded = hits.values().all(|hit| hit.recorded);
    if is_recorded
        && differs_in_numbers_only(object.status.as_ref(), &status)
        && let Some(wait) = context.faults.pace.wait(&id, now)
    {
        return Ok(Outcome::After(wait));
    }
    let known = object.status.clone().unwrap_or_default();
    if known != status {
        context.faults.pace.note(id.clone(), now);
    }
    if !write(&object, status.clone(), &context).await? {
        return Ok(Outcome::Done);
    }
    let recorded = context.faults.board.lock().recorded(&id, &hits);
    context.queue.wake(recorded);
    nephele_fault::publish(&object, &known, &status, &context.events);
    Ok(next.map_or(Outcome::Done, |next| at(next, &context)))
}

/// Writes the status of a Fault. False if the Fault is gone.
async fn write(object: &Fault, status: FaultStatus, context: &Context) -> Result<bool, Error> {
    let mut reported = object.clone();
    reported.status = Some(status);
    let api = Api::<Fault>::namespaced(context.client.clone(), &object.namespace().unwrap_or_default());
    // The next manager reads it, so a late write for an earlier Fault of the same name must not change it.
    match patch::status(&api, object, &reported, Precondition::ResourceVersion).await {
        // Its end is on its way.
        Err(error) if error.is_not_found() => Ok(false),
        result => result.map(|_| true).map_err(Error),
    }
}

/// Another look at this time.
fn at(time: Timestamp, context: &Context) -> Outcome {
    Outcome::After(Duration::try_from(time.duration_since(context.now())).unwrap_or_default())
}

/// Follows the Faults of a namespace, or of all, until `shutdown`. Tells the readers of `first_list` when claims can be
/// served: when all Faults are known, or when the management API does not have the kind. Then it waits for the kind.
pub(crate) async fn follow(
    context: Arc<Context>,
    services: Services,
    concurrency: NonZeroU16,
    first_list: Listing,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let told = || {
        if !first_list.finished() {
            info!("No Faults of addresses are carried out until their kind is installed");
        }
    };
    if !await_kind::<Fault>(&context.client, told, &shutdown).await {
        return Ok(());
    }
    let run_cluster_faults = run_cluster_faults(&context, &services, concurrency, shutdown.clone());
    let api = scoped(context.client.clone(), context.watch_namespace.as_deref());
    let runner = Runner::<Fault>::new("addressfault", &services, api, &context.filter, concurrency);
    let (store, listed, gone) = (runner.store(), runner.listed(), runner.gone());
    let put_all = async {
        if listed.wait().await {
            let all = store.state();
            let in_force = all.iter().filter(|object| {
                object.metadata.deletion_timestamp.is_none() && !is_being_restored(&object.metadata)
            });
            in_force.for_each(|object| drop(context.put_fault(object, context.now())));
            first_list.finished();
        }
    };
    let forget = forget(&context, &store, gone);
    let wake = when_woken(context.wake_due(&shutdown));
    let rest = shutdown.run_until_cancelled(future::join3(put_all, forget, wake));
    let for_faults = Arc::clone(&context);
    let run = runner
        .reconcile_on(Faults::listen(Arc::clone(&context)))
        .run(move |object| reconcile(object, Arc::clone(&for_faults)), shutdown.clone());
    let run = future::try_join(run, when_woken(run_cluster_faults));
    future::join(run, rest).await.0.map(drop)
}

/// Makes the Faults of ClusterFaults of addresses, once the kind is installed. Not in a manager of one namespace, which sees no
/// others.
async fn run_cluster_faults(
    context: &Context,
    services: &Services,
    concurrency: NonZeroU16,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    if context.watch_namespace.is_some()
        || !await_kind::<ClusterFault>(&context.client, || {}, &shutdown).await
    {
        return Ok(());
    }
    // A ClusterFault has to see who has the name of its Fault.
    let everything = watcher::Config::default();
    let api = Api::all(context.client.clone());
    let (faults, follow_faults) = Cache::<Fault>::start(services, api, everything, shutdown.clone());
    let settings = cluster::Settings {
        name: "addressclusterfault",
        watch_filter: context.filter.clone(),
        carries_out: is_of_addresses,
        concurrency,
    };
    let run = cluster::run(context.client.clone(), services, &faults, settings, shutdown);
    future::join(run, follow_faults).await.0
}

/// Forgets each Fault whose object is gone.
async fn forget(context: &Context, store: &Store<Fault>, gone: impl Stream<Item = Gone<Fault>>) {
    let mut gone = std::pin::pin!(gone);
    let there = |id: &FaultId| store.get(&ObjectRef::new(&id.1).within(&id.0));
    while let Some(gone) = gone.next().await {
        match gone {
            Gone::Object(object) => {
                let id = id(&object);
                // Somebody may have created another Fault of this name meanwhile.
                let is_other = there(&id).is_some_and(|other| other.uid() != object.uid());
                if !is_other {
                    context.forget_fault(&id);
                }
            }
            Gone::Any => {
                let known = context.faults.board.lock().ids();
                known.iter().filter(|id| there(id).is_none()).for_each(|id| context.forget_fault(id));
            }
        }
    }
}

/// Waits until the management API serves a kind of Faults; false on `shutdown`. Calls `told` whenever it does not.
async fn await_kind<K: Resource<DynamicType = ()>>(
    client: &Client,
    told: impl Fn(),
    shutdown: &CancellationToken,
) -> bool {
    let group = format!("{GROUP}/{}", v1alpha1::VERSION);
    let plural = K::plural(&());
    loop {
        let Some(answer) = shutdown.run_until_cancelled(client.list_api_group_resources(&group)).await else {
            return false;
        };
        let is_missing = match &answer {
            Ok(list) => !list.resources.iter().any(|resource| resource.name == plural),
            Err(kube::Error::Api(status)) => matches!(status.code, 403 | 404),
            Err(_) => false,
        };
        let wait = match answer {
            Ok(_) if !is_missing => return true,
            Err(error) if !is_missing => {
                debug!(error = %chain(&error), "Failed to check for Faults");
                ASK_AGAIN
            }
            Ok(_) | Err(_) => {
                told();
                LOOK_AGAIN
            }
        };
        if shutdown.run_until_cancelled(sleep(wait)).await.is_none() {
            return false;
        }
    }
}
