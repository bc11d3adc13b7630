//! Requests of claims: for an address, and for the state of their allocation.

use std::mem;

use nephele_api::ipam::conditions as reasons;
use nephele_ipam::Owner;
use tokio::time::Instant;

use super::{
    Allocations, Block, LATE_MAX, PoolRanges,
    entry::{ClaimState, Decision, Entry, Queued, Request},
};
use crate::{address::Record, fault::Hold, pool::ranges::Grant};

/// The answer of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The claim has this address: create its IPAddress.
    Granted { grant: Grant, first_asked: Instant },
    /// The IPAddress of the claim exists.
    Bound,
    /// An IPAddress of the claim's name exists: take it over.
    TakeOver,
    /// The request is in the queue. The claim is reconciled when there is an answer.
    Queued,
    /// No address is free. The claim is reconciled when one is.
    Exhausted,
    /// The claim cannot get an address now, for a reason of its own. It is reconciled when that changes.
    Refused { message: String },
    /// A Fault holds the claim. It is reconciled when the Fault is gone.
    Held(Hold),
    /// A Fault holds the claim, and its status does not say so yet. The claim is reconciled when it does.
    Unrecorded,
    /// The pool cannot serve any claim now. Its claims are reconciled when that changes.
    Unavailable { reason: &'static str, message: String },
}

/// The allocation of a claim in its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Allocation {
    /// A decision that is being written. Ask again shortly.
    BeingWritten,
    /// A decision. Its IPAddress may exist.
    Decided,
    /// The IPAddress of the claim's name.
    Exists(Record),
    /// The pool knows nothing of the claim.
    Nothing,
}

impl Allocations {
    /// Asks for an address. Asking again changes nothing; the answer shows the progress of the request.
    pub(crate) fn ask(&mut self, request: Request, now: Instant) -> Answer {
        let entry = self.entries.get(&request.owner);
        if self.built && entry.is_some_and(|entry| is_settled(entry, &request)) {
            return Answer::Bound;
        }
        if let Some((reason, message)) = &self.closed {
            return Answer::Unavailable {
                reason,
                message: message.clone(),
            };
        }
        if !self.built || self.stale {
            return self.enqueue(request, now, false);
        }
        self.set_aside_former(&request);
        let entry = self.entries.get(&request.owner);
        if let Some(record) = entry.and_then(Entry::record) {
            let answer = self.answer_for_record(&request, record);
            let decided = entry
                .and_then(Entry::decision)
                .is_some_and(|decision| decision.written && Some(decision.block) == record.block);
            if answer == Answer::TakeOver && !decided {
                let queued = self.queued(request, now);
                self.change(&queued.request.owner.clone(), |entry| {
                    if !matches!(entry.claim, ClaimState::Decided(_)) {
                        entry.claim = ClaimState::TakingOver(Box::new(queued));
                    }
                });
                return Answer::Queued;
            }
            return answer;
        }
        match entry.map(|entry| &entry.claim) {
            Some(ClaimState::Decided(decision)) if decision.written => return self.granted(decision),
            Some(ClaimState::Decided(_)) => return Answer::Queued,
            Some(ClaimState::Blocked { queued, message, .. }) if is_same(queued, &request) => {
                return Answer::Refused {
                    message: message.clone(),
                };
            }
            _ => {}
        }
        if self.ranges.is_none() {
            return Answer::Unavailable {
                reason: reasons::POOL_NOT_READY,
                message: self.fault.clone(),
            };
        }
        let exhausted = !self.has_free() && request.wanted.is_none();
        self.enqueue(request, now, exhausted)
    }

    /// Whether nothing is decided about the address of a claim yet, and nothing is known to be.
    pub(crate) fn is_undecided(&self, request: &Request) -> bool {
        let is_serving = self.built && !self.stale && self.closed.is_none() && self.ranges.is_some();
        let entry = self.entries.get(&request.owner);
        let has_decision = entry
            .and_then(Entry::decision)
            .is_some_and(|decision| decision.request.uid == request.uid);
        is_serving && entry.is_none_or(|entry| entry.record().is_none()) && !has_decision
    }

    /// The address that a claim without one would get now.
    pub(crate) fn next(&self, request: &Request) -> Option<Block> {
        let has_block = |entry: &Entry| !entry.keys().blocks.is_empty();
        if self.entries.get(&request.owner).is_some_and(has_block) {
            return None;
        }
        self.ranges
            .as_ref()
            .and_then(|ranges| ranges.next(&request.owner, request.wanted))
    }

    /// Puts a request into the queue, at its earlier position if it had one.
    fn enqueue(&mut self, request: Request, now: Instant, told: bool) -> Answer {
        let queued = self.queued(request, now);
        self.change(&queued.request.owner.clone(), |entry| {
            if !matches!(entry.claim, ClaimState::Decided(_)) {
                entry.claim = ClaimState::Waiting {
                    queued: Box::new(queued),
                    told,
                };
            }
        });
        if told { Answer::Exhausted } else { Answer::Queued }
    }

    /// The request, with the time at which its claim first asked.
    fn queued(&self, request: Request, now: Instant) -> Queued {
        let known = self
            .entries
            .get(&request.owner)
            .and_then(|entry| entry.claim.queued());
        let same = known.filter(|known| known.request.uid == request.uid);
        let first_asked = same.map_or(now, |known| known.first_asked);
        Queued { request, first_asked }
    }

    /// Sets aside a decision for a former claim of the name, so that it does not delay the claim. It stays until it is
    /// known whether its IPAddress was created.
    fn set_aside_former(&mut self, request: &Request) {
        let is_former = |decision: &Decision| decision.request.uid != request.uid;
        let former = self
            .entries
            .get(&request.owner)
            .and_then(Entry::decision)
            .is_some_and(is_former);
        if !former {
            return;
        }
        self.change(&request.owner, |entry| {
            if let Some(decision) = entry.take_decision(is_former)
                && decision.may_be_created()
            {
                entry.abandoned |= decision.written;
                entry.keep_late(decision);
            }
        });
    }

    pub(super) fn answer_for_record(&self, request: &Request, record: &Record) -> Answer {
        if self
            .entries
            .get(&request.owner)
            .is_some_and(|entry| is_settled(entry, request))
        {
            return Answer::Bound;
        }
        let refused = |message: String| Answer::Refused { message };
        if record.deleted_at.is_some() {
            return refused(format!(
                "IPAddress {} of a former claim is still being released",
                request.owner
            ));
        }
        let Some(block) = record.block else {
            return refused(format!(
                "IPAddress {} exists and its address cannot be read",
                request.owner
            ));
        };
        match self
            .ranges
            .as_ref()
            .and_then(|ranges| ranges.rival(&request.owner, block))
        {
            Some(rival) => {
                // The reader of a claim may not know the claims of other namespaces.
                let is_known = rival.namespace() == request.owner.namespace();
                let by = if is_known {
                    format!("by {rival}")
                } else {
                    "in another namespace".to_owned()
                };
                let owner = &request.owner;
                let address = block.address();
                refused(format!(
                    "IPAddress {owner} exists and its address {address} is in use {by}"
                ))
            }
            None => Answer::TakeOver,
        }
    }

    fn granted(&self, decision: &Decision) -> Answer {
        let grant = self
            .ranges
            .as_ref()
            .map(|ranges: &PoolRanges| ranges.grant(decision.block));
        match grant {
            Some(grant) => Answer::Granted {
                grant,
                first_asked: decision.first_asked,
            },
            None => Answer::Unavailable {
                reason: reasons::POOL_NOT_READY,
                message: self.fault.clone(),
            },
        }
    }

    /// The claim does not want an address for now: it is paused, is being deleted or is gone.
    pub(crate) fn withdraw(&mut self, owner: &Owner) {
        if self
            .entries
            .get(owner)
            .is_some_and(|entry| entry.claim.queued().is_some())
        {
            self.change(owner, |entry| drop(mem::take(&mut entry.claim)));
        }
    }

    /// The allocation of the claim of this uid.
    pub(crate) fn allocation(&self, owner: &Owner, uid: &str) -> Allocation {
        let entry = self.entries.get(owner);
        if let Some(record) = entry.and_then(Entry::record) {
            return Allocation::Exists(record.clone());
        }
        let mut decisions = entry.into_iter().flat_map(Entry::decisions);
        match decisions.find(|decision| *decision.request.uid == *uid) {
            Some(decision) if !decision.written => Allocation::BeingWritten,
            Some(_) => Allocation::Decided,
            None if self.is_stale() => Allocation::BeingWritten,
            None => Allocation::Nothing,
        }
    }

    /// The claim does not want the address that was decided on, because the management API refused the IPAddress or the
    /// claim is gone. The address is free as soon as no request to create the IPAddress can take effect any more.
    pub(crate) fn drop_decision(&mut self, owner: &Owner, uid: &str) {
        if !self.entries.contains_key(owner) {
            return;
        }
        self.change(owner, |entry| {
            let own = entry.take_decision(|decision| *decision.request.uid == *uid);
            let (dropped, kept) = mem::take(&mut entry.late)
                .into_iter()
                .partition(|late| *late.request.uid == *uid);
            entry.late = kept;
            let dropped: Vec<Decision> = dropped;
            for decision in own.into_iter().chain(dropped) {
                entry.give_up(decision);
            }
            if entry.reinstate() {
                entry.abandoned = true;
            }
        });
    }

    /// A request to create the IPAddress of a decision is about to be sent. It may take effect until it is answered, or
    /// until the returned time.
    pub(crate) fn sending(&mut self, owner: &Owner, uid: &str, now: Instant) -> Instant {
        let until = now + LATE_MAX;
        self.each_decision(owner, uid, |decision| decision.unanswered.push(until));
        until
    }

    /// The management API has answered the request.
    pub(crate) fn answered(&mut self, owner: &Owner, uid: &str, until: Instant) {
        self.each_decision(owner, uid, |decision| {
            if let Some(index) = decision.unanswered.iter().position(|sent| *sent == until) {
                decision.unanswered.swap_remove(index);
            }
        });
        self.forget_given_up(owner);
    }

    /// Forgets requests that cannot take effect any more, and returns the time of the next one for a decision that was
    /// given up. Such a decision without any request left is abandoned: the pool's task reads from the management API
    /// whether a request took effect.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<Instant> {
        let due: Vec<Owner> = self
            .decisions()
            .filter(|(_, decision)| decision.unanswered.iter().any(|until| *until <= now))
            .map(|(owner, _)| owner.clone())
            .collect();
        for owner in &due {
            self.change(owner, |entry| {
                for decision in entry.decisions_mut() {
                    let sent = decision.unanswered.len();
                    decision.unanswered.retain(|until| *until > now);
                    decision.lost |= decision.unanswered.len() < sent;
                }
                entry.abandoned |= entry.late.iter().any(Decision::is_expired);
            });
        }
        let waits = self.decisions().filter(|(_, decision)| decision.given_up);
        waits
            .flat_map(|(_, decision)| decision.unanswered.iter().copied())
            .min()
    }

    /// Forgets the expired decisions for this claim, after the management API was asked whether their IPAddress exists.
    pub(crate) fn forget_expired(&mut self, owner: &Owner, uid: &str) {
        if self.entries.contains_key(owner) {
            self.change(owner, |entry| {
                entry
                    .late
                    .retain(|late| *late.request.uid != *uid || !late.is_expired());
            });
        }
    }

    fn each_decision(&mut self, owner: &Owner, uid: &str, mut change: impl FnMut(&mut Decision)) {
        if !self.entries.contains_key(owner) {
            return;
        }
        self.change(owner, |entry| {
            for decision in entry
                .decisions_mut()
                .filter(|decision| *decision.request.uid == *uid)
            {
                change(decision);
            }
        });
    }

    fn forget_given_up(&mut self, owner: &Owner) {
        if self.entries.contains_key(owner) {
            self.change(owner, |entry| {
                entry.late.retain(|late| !(late.given_up && late.is_void()));
                entry.abandoned |= entry.late.iter().any(Decision::is_expired);
            });
        }
    }
}

/// Whether the IPAddress certainly belongs to the claim: the claim's status names it, or this process created it for
/// the claim. An IPAddress that only has the claim as its owner may have been created too late, when another claim
/// had the address already. One that lost an owner or the finalizer is taken over again.
pub(super) fn is_settled(entry: &Entry, request: &Request) -> bool {
    entry.address.as_ref().is_some_and(|address| {
        address.record.claim_uid.as_ref() == Some(&request.uid)
            && address.record.is_whole()
            && (request.published || address.unpublished)
    })
}

fn is_same(queued: &Queued, request: &Request) -> bool {
    queued.request.uid == request.uid && queued.request.wanted == request.wanted
}
