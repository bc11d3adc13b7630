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

mod batch;
mod line;
mod rebuild;
mod records;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem;

use jiff::Timestamp;
use nephele_api::ipam::conditions as reasons;
use nephele_api::ipam::v1alpha2::IPAddressCounts;
use nephele_ipam::Owner;
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::line::Line;
pub(crate) use self::line::Request;
use super::space::{Grant, Place, Space};
use crate::address::Record;

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
    /// only says that it is for the claim may have been made too late, when somebody else had its address already; and one
    /// that lost an owner or the finalizer is taken over again.
    fn is_settled(&self, request: &Request, record: &Record) -> bool {
        record.claim_uid.as_ref() == Some(&request.uid)
            && record.is_whole()
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

    /// The pool's task ends: whoever waits for an answer gets none from it.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        self.unchoose();
        self.answer_all(&Answer::Failed);
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
