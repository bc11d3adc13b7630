//! What one pool knows: who has which address, what was decided and not written yet, and who waits.
//!
//! ```text
//!                    choose            persisted            exists
//!  ask ──▶ waiting ─────────▶ chosen ────────────▶ decided ─────────▶ record
//!            │ ▲                │                     │                 │
//!    refused ▼ │ freed          └─▶ unchoose          ├─▶ drop          └─▶ gone: free again
//!          blocked                                    ▼ ▲ that one is gone
//!                                                  overtaken: an IPAddress of another claim is there
//! ```
//!
//! Plain data, changed in short blocks under the pool's lock by whoever learns something: the watch of IPAddresses, the
//! claims, and the pool's own task, which alone chooses and writes. It knows no client and no clock.

mod line;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem;

use jiff::Timestamp;
use nephele_api::ipam::conditions as reasons;
use nephele_api::ipam::v1alpha2::{IPAddressCounts, PENDING_MAX, PendingAllocation};
use nephele_ipam::Owner;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(crate) use self::line::Request;
use self::line::{Line, Waiter};
use super::kinds::PoolSpec;
use super::space::{Grant, Place, Refusal, Space};
use crate::address::{Finalizers, Record};

/// Decided on at a time, so that one write of the pool stands for many claims and yet is soon done. Eight such batches
/// may be pending.
pub(crate) const BATCH_MAX: usize = 64;

/// What a pool answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// This is yours; make the IPAddress.
    Granted { grant: Grant, first_asked: Instant },
    /// Its IPAddress is there already.
    Bound,
    /// There is an IPAddress of its name, which it may take over.
    Adopt,
    /// There is nothing left. It is called when there is.
    Exhausted,
    /// It cannot have what it asks for, as matters stand. It is called when they change.
    Refused { message: String },
    /// The pool cannot serve anybody now; tried again when that has changed.
    Unavailable { reason: &'static str, message: String },
    /// The pool could not be written or read; worth another try.
    Failed,
}

/// An address that was decided on for a claim.
#[derive(Debug)]
struct Intent {
    request: Request,
    place: Place,
    first_asked: Instant,
    reply: Option<oneshot::Sender<Answer>>,
    /// Whether the status of the pool says so by a write of this process; nothing is made before that.
    persisted: bool,
    /// Whether another process decided on it, and so may be about to make its IPAddress: what could not be written by
    /// this process is free again only if it was its own decision.
    elsewhere: bool,
    /// Whether it is to take over an IPAddress that is there, so that none is made.
    adopts: bool,
}

impl Intent {
    /// Whether an IPAddress may be made of it at any time, by a request that nobody waits for any more.
    fn may_be_made(&self) -> bool {
        (self.persisted || self.elsewhere) && !self.adopts
    }

    fn is(&self, uid: &str, place: Place) -> bool {
        *self.request.uid == *uid && self.place == place
    }
}

/// A claim that waits to take over an IPAddress.
#[derive(Debug)]
struct Adopting {
    request: Request,
    first_asked: Instant,
    reply: oneshot::Sender<Answer>,
}

/// What a claim that goes leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A decision is being written right now. Ask again shortly.
    Busy,
    /// An IPAddress was decided on and may or may not be there.
    Decided,
    /// The IPAddress of its name.
    Exists(Record),
    /// Nothing.
    Nothing,
}

/// What there is to tell of a pool besides its counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Troubles {
    /// Why the spec cannot be used; empty when it can.
    pub(crate) fault: String,
    /// Claims that wait for an address.
    pub(crate) waiting: usize,
    pub(crate) malformed: Names,
    pub(crate) contested: Names,
    pub(crate) orphans: Names,
}

/// How many there are, and some of them by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) count: usize,
    pub(crate) first: Vec<String>,
}

/// How many names a message has at most.
const NAMED_MAX: usize = 3;

impl Names {
    fn of(owners: &BTreeSet<Owner>) -> Self {
        let first = owners.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        Self { count: owners.len(), first }
    }
}

/// The ledger of one pool. Owned by the pool, behind its lock.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// None before the addresses in use were listed for the first time, and while the spec cannot be used.
    space: Option<Space>,
    /// Whether the pool's task has ended, so that nobody would answer.
    stopped: bool,
    /// Why nobody can be served although the addresses are known.
    closed: Option<(&'static str, String)>,
    fault: String,
    built: bool,
    records: BTreeMap<Owner, Record>,
    intents: BTreeMap<Owner, Intent>,
    /// Decisions of whose name an IPAddress of another claim is there, made too late. While that one is there none can
    /// be made; but it goes again, and a request to make one may be on its way still. So they stay pending, and their
    /// addresses are nobody else's, until their claims have an IPAddress or are gone. Counted among what is pending.
    overtaken: BTreeMap<Owner, Vec<Intent>>,
    line: Line,
    /// Claims that would take over the IPAddress of their name. That is decided on like an allocation, so that nobody
    /// else decides on the address at the same time; but nothing has to be free for it.
    adopting: BTreeMap<Owner, Adopting>,
    /// IPAddresses that are held back, by when their deletion was asked for.
    held: BTreeSet<(Timestamp, Owner)>,
    /// Records that cannot be read.
    malformed: BTreeSet<Owner>,
    /// Records whose address somebody else had before them.
    contested: BTreeSet<Owner>,
    /// Records whose claim may be gone.
    suspects: BTreeSet<Owner>,
    /// Intents that no claim here will see through.
    abandoned: BTreeSet<Owner>,
    /// IPAddresses that this process made and has not told their claims of, by uid: nobody can have used them.
    unpublished: BTreeMap<Owner, Box<str>>,
    /// Records whose claim is gone for sure.
    orphans: BTreeSet<Owner>,
    /// IPAddresses that are gone although the watch may still tell of them.
    gone: HashSet<Box<str>>,
    /// The resource version of the list that the ledger was built from.
    floor: u64,
    /// What the watch told while a list was read.
    meanwhile: Option<BTreeMap<Owner, Record>>,
    /// Whether the watch may have missed something, so that only a new list can tell.
    stale: bool,
}

impl Ledger {
    // --- What the watch of IPAddresses tells.

    /// An IPAddress of the pool is there, or changed.
    pub(crate) fn applied(&mut self, owner: Owner, record: Record) {
        if self.gone.contains(&record.uid) {
            return;
        }
        if let Some(meanwhile) = &mut self.meanwhile {
            meanwhile.insert(owner.clone(), record.clone());
        }
        let known = self.records.get(&owner).map_or(self.floor, |known| known.version);
        if record.version <= known {
            return;
        }
        self.insert(owner, record);
    }

    /// The IPAddress of this uid is gone, as the watch says.
    pub(crate) fn deleted(&mut self, owner: &Owner, uid: &str) {
        let known = self.records.get(owner).is_some_and(|record| *record.uid == *uid);
        if !self.gone.remove(uid) && (self.meanwhile.is_some() || !known) {
            // The answer to its creation, or a list, may still come and tell of it.
            if self.meanwhile.is_some() || self.intents.contains_key(owner) {
                self.gone.insert(uid.into());
            }
        }
        if known {
            self.remove(owner);
        }
    }

    /// The IPAddress of this uid is gone, as the answer to its deletion says. The watch will tell the same later.
    pub(crate) fn released(&mut self, owner: &Owner, uid: &str) {
        if self.records.get(owner).is_some_and(|record| *record.uid == *uid) {
            self.gone.insert(uid.into());
            self.remove(owner);
        }
    }

    /// The watch had to start over and may have missed deletions.
    pub(crate) fn relisted(&mut self) {
        self.gone.clear();
        self.stale = true;
    }

    // --- What claims ask for.

    /// Asks for an address. The answer, or where it will come.
    pub(crate) fn ask(
        &mut self,
        request: Request,
        now: Instant,
    ) -> Result<Answer, oneshot::Receiver<Answer>> {
        let (reply, answer) = oneshot::channel();
        if self.stopped {
            return Ok(Answer::Failed);
        }
        if self.built
            && self.records.get(&request.owner).is_some_and(|record| self.is_settled(&request, record))
        {
            return Ok(Answer::Bound);
        }
        if let Some((reason, message)) = &self.closed {
            return Ok(Answer::Unavailable { reason, message: message.clone() });
        }
        if !self.built || self.stale {
            self.line.push(request, now, Some(reply));
            return Err(answer);
        }
        if let Some(record) = self.records.get(&request.owner) {
            let outcome = self.answer_for_record(&request, record);
            let decided = self.intents.get(&request.owner).is_some_and(|intent| {
                intent.persisted && Some(intent.place) == record.place && intent.request.uid == request.uid
            });
            if outcome != Answer::Adopt || decided {
                return Ok(outcome);
            }
            self.line.remove(&request.owner);
            self.adopting.insert(request.owner.clone(), Adopting { request, first_asked: now, reply });
            return Err(answer);
        }
        if let Some(intent) = self.intents.get_mut(&request.owner) {
            if intent.request.uid != request.uid {
                // Decided on for a claim that is gone; whether its IPAddress is there is found out first.
                return Ok(Answer::Failed);
            }
            if !intent.persisted {
                intent.reply = Some(reply);
                return Err(answer);
            }
            return Ok(self.granted(&request.owner));
        }
        let Some(space) = &self.space else {
            return Ok(Answer::Unavailable { reason: reasons::POOL_NOT_READY, message: self.fault.clone() });
        };
        if space.counts().free == 0 && request.wanted.is_none() {
            self.line.push(request, now, None);
            return Ok(Answer::Exhausted);
        }
        self.line.push(request, now, Some(reply));
        Err(answer)
    }

    /// Whether the IPAddress is the claim's beyond doubt: the claim names it, or this process decided on it. One that
    /// only says that it is for the claim may have been made too late, when somebody else had its address already.
    fn is_settled(&self, request: &Request, record: &Record) -> bool {
        record.claim_uid.as_ref() == Some(&request.uid)
            && (request.published || self.is_unpublished(&request.owner, &record.uid))
    }

    fn answer_for_record(&self, request: &Request, record: &Record) -> Answer {
        if self.is_settled(request, record) {
            return Answer::Bound;
        }
        let refused = |message: String| Answer::Refused { message };
        if record.deleted_at.is_some() {
            return refused(format!("IPAddress {} of a former claim is still being released", request.owner));
        }
        let Some(place) = record.place else {
            return refused(format!("IPAddress {} is there and its address cannot be read", request.owner));
        };
        match self.space.as_ref().and_then(|space| space.rival(&request.owner, place)) {
            Some(rival) => refused(format!(
                "IPAddress {} is there and its address {} is in use by {rival}",
                request.owner,
                place.address()
            )),
            None => Answer::Adopt,
        }
    }

    fn granted(&self, owner: &Owner) -> Answer {
        let intent = self.intents.get(owner).expect("the caller has just seen it");
        if let Some(record) = self.records.get(owner) {
            return self.answer_for_record(&intent.request, record);
        }
        match &self.space {
            Some(space) => {
                Answer::Granted { grant: space.grant(intent.place), first_asked: intent.first_asked }
            }
            None => Answer::Unavailable { reason: reasons::POOL_NOT_READY, message: self.fault.clone() },
        }
    }

    /// This process made the IPAddress of a claim, and is about to tell the claim.
    pub(crate) fn made(&mut self, owner: Owner, record: Record) {
        self.unpublished.insert(owner.clone(), record.uid.clone());
        self.applied(owner, record);
    }

    /// The claim was told of its IPAddress.
    pub(crate) fn published(&mut self, owner: &Owner) {
        self.unpublished.remove(owner);
        if let Some(record) = self.records.get(owner) {
            let uid = record.claim_uid.clone();
            self.intents.remove(owner);
            // Its IPAddress goes no sooner than the claim.
            self.drop_overtaken(owner, |intent| Some(&intent.request.uid) == uid.as_ref());
        }
    }

    /// The claim of an IPAddress may be gone.
    pub(crate) fn suspect(&mut self, owner: &Owner) {
        if self.records.contains_key(owner) {
            self.suspects.insert(owner.clone());
        }
    }

    /// The claim does not want anything for now: it is paused, being deleted or gone.
    pub(crate) fn withdraw(&mut self, owner: &Owner) {
        self.line.remove(owner);
        self.adopting.remove(owner);
    }

    /// What the claim of this uid has here.
    pub(crate) fn standing(&self, owner: &Owner, uid: &str) -> Standing {
        if let Some(record) = self.records.get(owner) {
            return Standing::Exists(record.clone());
        }
        match self.intents.get(owner) {
            Some(intent) if *intent.request.uid != *uid => Standing::Nothing,
            Some(intent) if !intent.persisted => Standing::Busy,
            Some(_) => Standing::Decided,
            None if !self.built || self.stale => Standing::Busy,
            None => Standing::Nothing,
        }
    }

    /// The IPAddress that was decided on is not there and will not be made: the API refused it, or the claim is gone.
    pub(crate) fn drop_intent(&mut self, owner: &Owner, uid: &str) {
        if self.intents.get(owner).is_some_and(|intent| *intent.request.uid == *uid) {
            self.undo(owner);
        }
        self.drop_overtaken(owner, |intent| *intent.request.uid == *uid);
    }

    // --- What the pool's task does.

    /// Starts to gather what happens while IPAddresses are listed.
    pub(crate) fn begin_rebuild(&mut self) {
        self.meanwhile = Some(BTreeMap::new());
        self.stale = false;
    }

    /// The list failed.
    pub(crate) fn abandon_rebuild(&mut self) {
        self.meanwhile = None;
        self.stale = true;
        self.answer_all(&Answer::Failed);
    }

    /// Takes a list of the pool's IPAddresses as the truth, and with it what the pool's status says is pending.
    /// Decisions that are in neither are undone. What somebody else decided on is only told when this process has
    /// written the pool itself: `ours` says whether it was the last to do so.
    pub(crate) fn rebuild(
        &mut self,
        listed: Vec<(Owner, Record)>,
        version: u64,
        pending: &[PendingAllocation],
        pool: &super::PoolKey,
        ours: bool,
        now: Instant,
    ) {
        let meanwhile = self.meanwhile.take().unwrap_or_default();
        let before = mem::take(&mut self.intents);
        let overtaken = mem::take(&mut self.overtaken);
        let known = |owner: &Owner, uid: &str, place: Place| {
            let overtaken = overtaken.get(owner).into_iter().flatten();
            overtaken.chain(before.get(owner)).find(|intent| intent.is(uid, place))
        };
        let pending: Vec<_> = pending
            .iter()
            .filter_map(|pending| {
                let namespace = pending.namespace.as_deref().unwrap_or(&pool.namespace);
                let owner = Owner::new(namespace, &pending.name);
                let place = Place::read(pool.kind, &pending.address, pending.prefix)?;
                let known = known(&owner, &pending.uid, place);
                // Of what this process wrote itself it knows best what has been seen through since.
                let open =
                    !(ours && self.built) || known.is_some_and(|known| known.persisted || known.elsewhere);
                let elsewhere = !ours || known.is_some_and(|known| known.elsewhere);
                open.then_some((owner, pending.uid.as_str(), place, elsewhere))
            })
            .collect();
        for (_, intent) in before {
            self.requeue(intent);
        }
        self.space = None;
        self.records.clear();
        self.held.clear();
        self.malformed.clear();
        self.contested.clear();
        self.suspects.clear();
        self.orphans.clear();
        self.abandoned.clear();
        self.floor = version;
        for (owner, record) in listed {
            if !self.gone.contains(&record.uid) {
                self.insert(owner, record);
            }
        }
        for (owner, record) in meanwhile {
            self.applied(owner, record);
        }
        for (owner, uid, place, elsewhere) in pending {
            let record = self.records.get(&owner);
            if record
                .is_some_and(|record| record.claim_uid.as_deref() == Some(uid) && record.place == Some(place))
            {
                continue;
            }
            let free = record.is_none() && !self.intents.contains_key(&owner);
            // The claim may have asked before; then it is answered once all is known.
            let waits = free && self.line.uid_of(&owner) == Some(uid);
            let (request, first_asked, reply) = match self.line.take_if(&owner, waits) {
                Some(known) => (known.request, known.first_asked, known.reply),
                None => {
                    let request = Request {
                        owner: owner.clone(),
                        uid: uid.into(),
                        created: Timestamp::UNIX_EPOCH,
                        wanted: None,
                        published: false,
                    };
                    (request, now, None)
                }
            };
            let intent =
                Intent { request, place, first_asked, reply, persisted: ours, elsewhere, adopts: false };
            if free {
                self.intents.insert(owner, intent);
            } else {
                self.overtake(owner, intent);
            }
        }
        self.built = true;
    }

    /// Looks for what was left behind, in memory only: records whose claim is not `known`, and intents whose claim is
    /// not `here` to see them through.
    pub(crate) fn sweep(
        &mut self,
        is_known: impl Fn(&Owner, &str) -> bool,
        is_here: impl Fn(&Owner, &str) -> bool,
    ) {
        for (owner, record) in &self.records {
            let known = record.claim_uid.as_deref().is_some_and(|uid| is_known(owner, uid));
            if record.is_managed() && record.deleted_at.is_none() && !known {
                self.suspects.insert(owner.clone());
            }
        }
        let overtaken =
            self.overtaken.iter().flat_map(|(owner, intents)| intents.iter().map(move |i| (owner, i)));
        for (owner, intent) in self.intents.iter().chain(overtaken) {
            if intent.persisted && !is_here(owner, &intent.request.uid) {
                self.abandoned.insert(owner.clone());
            }
        }
    }

    /// Takes the intents that somebody other than their claims has to see through, with the claims' uids.
    pub(crate) fn take_abandoned(&mut self) -> Vec<(Owner, Box<str>)> {
        let owners = mem::take(&mut self.abandoned);
        let uids = |owner: &Owner| -> BTreeSet<Box<str>> {
            let overtaken = self.overtaken.get(owner).into_iter().flatten();
            overtaken.chain(self.intents.get(owner)).map(|intent| intent.request.uid.clone()).collect()
        };
        owners
            .into_iter()
            .flat_map(|owner| uids(&owner).into_iter().map(move |uid| (owner.clone(), uid)))
            .collect()
    }

    /// To be tried again.
    pub(crate) fn put_back_abandoned(&mut self, owner: Owner) {
        self.abandoned.insert(owner);
    }

    /// Goes by this spec from now on.
    pub(crate) fn specify(&mut self, spec: &PoolSpec) {
        let outcome = match &mut self.space {
            Some(space) => space.respecify(spec),
            None => Space::new(spec).map(|space| self.fill(space)),
        };
        self.fault = match outcome {
            Ok(()) => String::new(),
            Err(errors) => {
                self.space = None;
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                errors.join("; ")
            }
        };
        if self.space.is_none() {
            let message = self.fault.clone();
            self.answer_all(&Answer::Unavailable { reason: reasons::POOL_NOT_READY, message });
        }
        self.line.unblock_all();
    }

    fn fill(&mut self, mut space: Space) {
        for (owner, record) in &self.records {
            if let Some(place) = record.place
                && !space.adopt(owner, place)
            {
                self.contested.insert(owner.clone());
            }
        }
        for (owner, intent) in &self.intents {
            space.adopt(owner, intent.place);
        }
        for (owner, intent) in
            self.overtaken.iter().flat_map(|(owner, of)| of.iter().map(move |i| (owner, i)))
        {
            space.adopt(owner, intent.place);
        }
        self.space = Some(space);
    }

    /// Serves nobody from now on, for this reason; or again.
    pub(crate) fn close(&mut self, closed: Option<(&'static str, String)>) {
        if let Some((reason, message)) = &closed {
            self.answer_all(&Answer::Unavailable { reason, message: message.clone() });
        }
        self.closed = closed;
    }

    /// Takes addresses for those who wait longest, at most a batch. Returns how many; they have to be written before
    /// they are told. `wanted` says whether a claim still waits, which it may have ceased to do without a word.
    pub(crate) fn choose(&mut self, wants: impl Fn(&Request) -> bool) -> usize {
        if self.space.is_none() || !self.built || self.stale || self.closed.is_some() {
            return 0;
        }
        let room = PENDING_MAX.saturating_sub(self.intents.len() + self.overtaken_count()).min(BATCH_MAX);
        let mut chosen = self.choose_adopted(room);
        let Some(space) = &mut self.space else { return 0 };
        while chosen < room {
            let Some(first) = self.line.first() else { break };
            let owner = first.owner.clone();
            if self.records.contains_key(&owner) || self.intents.contains_key(&owner) {
                // Found meanwhile, or decided on for a claim of the same name that is gone.
                let waiter = self.line.take(&owner).expect("it is the first");
                self.line.call(waiter);
                continue;
            }
            if !wants(first) {
                self.line.take(&owner);
                continue;
            }
            match space.allocate(&owner, first.wanted) {
                Ok(place) => {
                    let waiter = self.line.take(&owner).expect("it is the first");
                    let intent = Intent {
                        request: waiter.request,
                        place,
                        first_asked: waiter.first_asked,
                        reply: waiter.reply,
                        persisted: false,
                        elsewhere: false,
                        adopts: false,
                    };
                    self.intents.insert(owner, intent);
                    chosen += 1;
                }
                Err(Refusal::Exhausted) => {
                    self.line.tell_exhausted();
                    break;
                }
                Err(Refusal::Taken { by, message }) => self.line.block(&owner, Some(by), message),
                Err(Refusal::Impossible { message }) => self.line.block(&owner, None, message),
            }
        }
        chosen
    }

    /// Decides on those who would take over what is there.
    fn choose_adopted(&mut self, room: usize) -> usize {
        let mut chosen = 0;
        while chosen < room {
            let Some((owner, Adopting { request, first_asked, reply })) = self.adopting.pop_first() else {
                break;
            };
            let record = self.records.get(&owner);
            let outcome = record.map(|record| (self.answer_for_record(&request, record), record.place));
            match outcome {
                Some((Answer::Adopt, Some(place))) => {
                    let reply = Some(reply);
                    let (persisted, elsewhere, adopts) = (false, false, true);
                    let intent = Intent { request, place, first_asked, reply, persisted, elsewhere, adopts };
                    self.intents.insert(owner, intent);
                    chosen += 1;
                }
                Some((answer, _)) => drop(reply.send(answer)),
                // It is gone: an address like any other is asked for next time.
                None => drop(reply.send(Answer::Failed)),
            }
        }
        chosen
    }

    /// What was chosen is written: those who asked are told. Returns the claims that have to be called, because they
    /// no longer wait for an answer.
    pub(crate) fn persisted(&mut self) -> Vec<Owner> {
        let fresh: Vec<Owner> = self
            .intents
            .iter()
            .filter(|(_, intent)| !intent.persisted)
            .map(|(owner, _)| owner.clone())
            .collect();
        for owner in &fresh {
            self.intents.get_mut(owner).expect("listed above").persisted = true;
        }
        for intent in self.overtaken.values_mut().flatten() {
            intent.persisted = true;
        }
        self.tell_granted(fresh)
    }

    /// Tells those whose address is decided on; returns the claims that have to be called.
    pub(crate) fn tell_decided(&mut self) -> Vec<Owner> {
        let decided = self.intents.iter().filter(|(_, intent)| intent.persisted && intent.reply.is_some());
        let owners = decided.map(|(owner, _)| owner.clone()).collect();
        self.tell_granted(owners)
    }

    fn tell_granted(&mut self, owners: Vec<Owner>) -> Vec<Owner> {
        let mut call = Vec::new();
        for owner in owners {
            let reply = self.intents.get_mut(&owner).and_then(|intent| intent.reply.take());
            let told = reply.is_some_and(|reply| reply.send(self.granted(&owner)).is_ok());
            if !told {
                call.push(owner);
            }
        }
        call
    }

    /// What was chosen could not be written: it is free again, and whoever asked waits on. What another process decided
    /// on stays so.
    pub(crate) fn unchoose(&mut self) {
        let chosen: Vec<Owner> = self
            .intents
            .iter()
            .filter(|(_, intent)| !intent.persisted && !intent.elsewhere)
            .map(|(owner, _)| owner.clone())
            .collect();
        for owner in chosen {
            if let Some(intent) = self.undo(&owner) {
                self.requeue(intent);
            }
        }
    }

    /// The pool's task ends: whoever waits for an answer gets none from it.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        self.unchoose();
        self.answer_all(&Answer::Failed);
    }

    /// What was decided on and is not known to be there, as the status of the pool has it.
    pub(crate) fn pending(&self, pool: &super::PoolKey) -> Vec<PendingAllocation> {
        let overtaken =
            self.overtaken.iter().flat_map(|(owner, intents)| intents.iter().map(move |i| (owner, i)));
        let pending = self.intents.iter().chain(overtaken).map(|(owner, intent)| PendingAllocation {
            namespace: (owner.namespace() != pool.namespace).then(|| owner.namespace().to_owned()),
            name: owner.name().to_owned(),
            uid: intent.request.uid.to_string(),
            address: intent.place.address().to_string(),
            prefix: intent.place.length().map(i32::from),
        });
        pending.collect()
    }

    /// The counts, as the status of the pool has them.
    pub(crate) fn counts(&self) -> IPAddressCounts {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let used = count(self.len());
        let Some(space) = &self.space else {
            return IPAddressCounts { total: 0, free: 0, used, out_of_range: used };
        };
        let counts = space.counts();
        IPAddressCounts { total: counts.total, free: counts.free, used, out_of_range: counts.out_of_range }
    }

    /// How many IPAddresses there are or may come to be.
    pub(crate) fn len(&self) -> usize {
        let new = self.intents.keys().filter(|owner| !self.records.contains_key(*owner)).count();
        let overtaken = self.overtaken.iter().flat_map(|(owner, intents)| {
            let place = self.records.get(owner).and_then(|record| record.place);
            intents.iter().filter(move |intent| Some(intent.place) != place)
        });
        self.records.len() + new + overtaken.count()
    }

    fn overtaken_count(&self) -> usize {
        self.overtaken.values().map(Vec::len).sum()
    }

    /// How many claims wait.
    pub(crate) fn waiting(&self) -> usize {
        self.line.len()
    }

    /// Whether anybody waits who could be served, as far as that can be said without trying.
    pub(crate) fn has_work(&self) -> bool {
        let free = self.space.as_ref().is_some_and(|space| space.counts().free > 0);
        self.closed.is_none()
            && self.space.is_some()
            && (!self.adopting.is_empty() || self.line.is_asking() || (free && self.line.is_waiting()))
    }

    /// Claims that have to be called: something that they wait for has changed.
    pub(crate) fn take_calls(&mut self) -> Vec<Owner> {
        self.line.take_calls()
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale || !self.built
    }

    /// Whether there is a decision whose IPAddress has not been seen.
    pub(crate) fn has_intents(&self) -> bool {
        !self.intents.is_empty()
    }

    /// Whether there is a decision that was not seen through to the end.
    pub(crate) fn has_unfinished(&self) -> bool {
        !self.intents.is_empty() || !self.overtaken.is_empty() || !self.unpublished.is_empty()
    }

    /// Whether there is a decision that this process has not written.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.intents.values().chain(self.overtaken.values().flatten()).any(|intent| !intent.persisted)
    }

    /// The allocator, when there is one.
    pub(crate) fn space(&self) -> Option<&Space> {
        self.space.as_ref()
    }

    /// A decision of ours or of somebody else's, as a claim that is asked for would get it.
    pub(crate) fn decided(&self, owner: &Owner, uid: &str) -> Option<Grant> {
        let is_such = |intent: &&Intent| intent.persisted && !intent.adopts && *intent.request.uid == *uid;
        let intent = self.intents.get(owner).filter(is_such)?;
        Some(self.space.as_ref()?.grant(intent.place))
    }

    /// The IPAddresses that are held back, longest first.
    pub(crate) fn held(&self) -> impl Iterator<Item = (Timestamp, &Owner)> {
        self.held.iter().map(|(since, owner)| (*since, owner))
    }

    pub(crate) fn record(&self, owner: &Owner) -> Option<&Record> {
        self.records.get(owner)
    }

    /// Takes what may be orphans.
    pub(crate) fn take_suspects(&mut self) -> Vec<Owner> {
        mem::take(&mut self.suspects).into_iter().collect()
    }

    /// Whether an IPAddress was made by this process and its claim never told of it.
    pub(crate) fn is_unpublished(&self, owner: &Owner, uid: &str) -> bool {
        self.unpublished.get(owner).is_some_and(|made| **made == *uid)
    }

    /// Whether somebody else has the address of a record too.
    pub(crate) fn is_contested(&self, owner: &Owner) -> bool {
        let place = self.records.get(owner).and_then(|record| record.place);
        place.zip(self.space.as_ref()).is_some_and(|(place, space)| space.rival(owner, place).is_some())
    }

    /// Whether a record has no claim any more.
    pub(crate) fn set_orphan(&mut self, owner: &Owner, uid: &str, orphan: bool) {
        if orphan && self.records.get(owner).is_some_and(|record| *record.uid == *uid) {
            self.orphans.insert(owner.clone());
        } else {
            self.orphans.remove(owner);
        }
    }

    pub(crate) fn orphans(&self) -> impl Iterator<Item = &Owner> {
        self.orphans.iter()
    }

    pub(crate) fn troubles(&self) -> Troubles {
        Troubles {
            fault: self.fault.clone(),
            waiting: self.line.len(),
            malformed: Names::of(&self.malformed),
            contested: Names::of(&self.contested),
            orphans: Names::of(&self.orphans),
        }
    }

    // --- Book-keeping.

    fn insert(&mut self, owner: Owner, record: Record) {
        let intent = self.intents.remove(&owner);
        let made = |intent: &Intent| {
            Some(&intent.request.uid) == record.claim_uid.as_ref() && Some(intent.place) == record.place
        };
        let mut asks_again = None;
        match intent {
            Some(intent) if made(&intent) && (intent.persisted || intent.elsewhere) => {
                self.unpublished.insert(owner.clone(), record.uid.clone());
                asks_again = Some(intent);
            }
            Some(intent) if intent.may_be_made() => self.overtake(owner.clone(), intent),
            Some(intent) => asks_again = Some(intent),
            None => {}
        }
        if let Some(overtaken) = self.overtaken.get_mut(&owner) {
            // Its address is the IPAddress's from now on.
            overtaken.retain(|intent| !made(intent));
            if overtaken.is_empty() {
                self.overtaken.remove(&owner);
            }
        }
        self.forget_record(&owner, record.place);
        if let Some(intent) = &asks_again
            && record.place != Some(intent.place)
        {
            self.free(&owner, intent.place);
        }
        match (record.place, &mut self.space) {
            (None, _) => {
                self.malformed.insert(owner.clone());
            }
            (Some(place), Some(space)) => {
                if !space.adopt(&owner, place) {
                    self.contested.insert(owner.clone());
                }
            }
            (Some(_), None) => {}
        }
        if let (Some(since), None, Finalizers::Ours | Finalizers::Shared) =
            (record.deleted_at, &record.claim_uid, record.finalizers)
        {
            self.held.insert((since, owner.clone()));
        }
        if record.is_managed() && record.claim_uid.is_none() && record.deleted_at.is_none() {
            self.suspects.insert(owner.clone());
        }
        let name = owner.clone();
        self.records.insert(owner, record);
        if let Some(intent) = asks_again {
            self.requeue(intent);
        }
        self.found(&name);
    }

    /// The IPAddress of a claim that waits is there: it does not wait for one any more.
    fn found(&mut self, owner: &Owner) {
        let Some(waiter) = self.line.take(owner) else { return };
        match (self.records.get(owner), waiter.reply) {
            (Some(record), Some(reply)) if self.is_settled(&waiter.request, record) => {
                drop(reply.send(Answer::Bound));
            }
            (_, reply) => self.line.call(Waiter { reply, ..waiter }),
        }
    }

    /// Takes a record out of everything but keeps what it takes of the space if that is `kept`.
    fn forget_record(&mut self, owner: &Owner, kept: Option<Place>) -> Option<Record> {
        let record = self.records.remove(owner)?;
        self.malformed.remove(owner);
        self.contested.remove(owner);
        self.suspects.remove(owner);
        self.orphans.remove(owner);
        if let Some(since) = record.deleted_at {
            self.held.remove(&(since, owner.clone()));
        }
        if let (Some(place), Some(space)) = (record.place, &mut self.space)
            && kept != Some(place)
            && !self.overtaken.get(owner).into_iter().flatten().any(|intent| intent.place == place)
        {
            space.release(owner, place);
            self.line.freed(place);
        }
        Some(record)
    }

    /// Gives back an address that was decided on, unless its owner has it otherwise.
    fn free(&mut self, owner: &Owner, place: Place) {
        let record = self.records.get(owner).and_then(|record| record.place);
        let intents =
            self.intents.get(owner).into_iter().chain(self.overtaken.get(owner).into_iter().flatten());
        if record.into_iter().chain(intents.map(|intent| intent.place)).any(|held| held == place) {
            return;
        }
        if let Some(space) = &mut self.space {
            space.release(owner, place);
        }
        self.line.freed(place);
    }

    /// There is an IPAddress of another claim in the place of the one that was decided on.
    fn overtake(&mut self, owner: Owner, mut intent: Intent) {
        if let Some(reply) = intent.reply.take() {
            let _ = reply.send(Answer::Failed);
        }
        let overtaken = self.overtaken.entry(owner).or_default();
        if !overtaken.iter().any(|known| known.is(&intent.request.uid, intent.place)) {
            overtaken.push(intent);
        }
    }

    /// Nothing is in the way of what was overtaken any more.
    fn reinstate(&mut self, owner: &Owner) {
        if self.records.contains_key(owner) || self.intents.contains_key(owner) {
            return;
        }
        let Some(overtaken) = self.overtaken.get_mut(owner) else { return };
        let intent = overtaken.pop();
        if overtaken.is_empty() {
            self.overtaken.remove(owner);
        }
        if let Some(intent) = intent {
            self.intents.insert(owner.clone(), intent);
        }
    }

    fn drop_overtaken(&mut self, owner: &Owner, dropped: impl Fn(&Intent) -> bool) {
        let Some(overtaken) = self.overtaken.remove(owner) else { return };
        let (out, kept): (Vec<_>, Vec<_>) = overtaken.into_iter().partition(dropped);
        if !kept.is_empty() {
            self.overtaken.insert(owner.clone(), kept);
        }
        for intent in out {
            self.free(owner, intent.place);
        }
    }

    fn remove(&mut self, owner: &Owner) {
        self.unpublished.remove(owner);
        // It was to be taken over; its address goes with it.
        if let Some(intent) = self.intents.remove(owner) {
            self.requeue(intent);
        }
        if let Some(record) = self.forget_record(owner, None)
            && let (Some(place), Some(space)) = (record.place, &self.space)
        {
            // Who shared it with the one that is gone may be alone with it now.
            if let Some(rival) = space.rival(owner, place)
                && space.rival(&rival, place).is_none()
            {
                self.contested.remove(&rival);
            }
        }
        self.reinstate(owner);
    }

    /// Whoever asked waits on, at their old place; one that would have taken an IPAddress over asks again.
    fn requeue(&mut self, intent: Intent) {
        let Intent { request, first_asked, reply, .. } = intent;
        match reply {
            Some(reply) if self.records.contains_key(&request.owner) => drop(reply.send(Answer::Failed)),
            None if self.records.contains_key(&request.owner) => {}
            reply => self.line.push_since(request, first_asked, reply),
        }
    }

    fn undo(&mut self, owner: &Owner) -> Option<Intent> {
        let intent = self.intents.remove(owner)?;
        self.free(owner, intent.place);
        self.reinstate(owner);
        Some(intent)
    }

    /// Answers everybody who waits for one.
    pub(crate) fn answer_all(&mut self, answer: &Answer) {
        for (_, adopting) in mem::take(&mut self.adopting) {
            let _ = adopting.reply.send(answer.clone());
        }
        self.line.answer_all(answer);
    }
}

#[cfg(test)]
mod tests;
