//! The state of one name in a pool: an IPAddress has the name of its claim.

use std::net::IpAddr;

use jiff::Timestamp;
use nephele_ipam::Owner;
use tokio::time::Instant;

use crate::{
    address::{Finalizers, Record},
    pool::ranges::Block,
};

/// A claim's request for an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) owner: Owner,
    /// The uid of the claim.
    pub(crate) uid: Box<str>,
    /// When the claim was created: older claims are served first.
    pub(crate) created: Timestamp,
    /// The address that the claim asks for, if any.
    pub(crate) wanted: Option<IpAddr>,
    /// Whether the status of the claim names its IPAddress.
    pub(crate) published: bool,
}

/// A request in the queue.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) request: Request,
    /// When this process first saw the request. Orders claims of the same second.
    pub(super) first_asked: Instant,
}

/// An address that was decided on for a claim.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) request: Request,
    pub(super) block: Block,
    pub(super) first_asked: Instant,
    /// Whether this process has written the decision to the status of the pool. No IPAddress is created before that.
    pub(super) written: bool,
    /// Whether another process made the decision, so that it may be about to create the IPAddress.
    pub(super) foreign: bool,
    /// Whether the claim takes over an IPAddress that exists, so that none is created.
    pub(super) takes_over: bool,
    /// For each request to create the IPAddress that got no response: until when it may still take effect.
    pub(super) unanswered: Vec<Instant>,
    /// Whether a request got no response in its time. It takes no effect any more, but may have taken effect: the watch
    /// can be behind by more than that time.
    pub(super) lost: bool,
    /// Whether no claim wants the IPAddress any more. The address stays reserved while `unanswered` is not empty, and
    /// after a lost request until the IPAddress was looked for in the management API.
    pub(super) given_up: bool,
}

impl Decision {
    pub(super) fn new(queued: Queued, block: Block, takes_over: bool) -> Self {
        let Queued { request, first_asked } = queued;
        Self {
            request,
            block,
            first_asked,
            written: false,
            foreign: false,
            takes_over,
            unanswered: Vec::new(),
            lost: false,
            given_up: false,
        }
    }

    /// Whether the IPAddress of this decision may appear at any time.
    pub(super) fn may_be_created(&self) -> bool {
        (self.written || self.foreign) && !self.takes_over
    }

    /// Whether no claim wants the IPAddress, and no request to create it can take effect any more.
    pub(super) fn is_expired(&self) -> bool {
        self.given_up && self.unanswered.is_empty()
    }

    /// Whether it is certain that the IPAddress of this decision does not exist and cannot appear.
    pub(super) fn is_void(&self) -> bool {
        self.unanswered.is_empty() && !self.lost
    }

    pub(super) fn is(&self, uid: &str, block: Block) -> bool {
        *self.request.uid == *uid && self.block == block
    }

    /// Whether the IPAddress is the one that was decided on.
    pub(super) fn matches(&self, record: &Record) -> bool {
        record.claim_uid.as_ref() == Some(&self.request.uid) && record.block == Some(self.block)
    }

    /// Whether the IPAddress is the one that was decided on, although it may have lost the reference to its claim
    /// since: when it was held back, or because the garbage collector removed the reference to a claim that is gone. No
    /// pool decides on an address for a name whose IPAddress has that address, so it cannot be of an earlier claim of
    /// the name.
    pub(super) fn has_become(&self, record: &Record) -> bool {
        let is_disowned = record.claim_uid.is_none() && record.owned_by_pool;
        self.matches(record) || (is_disowned && record.block == Some(self.block))
    }

    pub(super) fn queued(self) -> Queued {
        Queued {
            request: self.request,
            first_asked: self.first_asked,
        }
    }
}

/// The progress of the claim of a name towards an address.
#[derive(Debug, Default)]
pub(super) enum ClaimState {
    /// There is no claim, or the claim does not want an address: it has one, is paused, or is being deleted.
    #[default]
    Idle,
    /// In the queue. `told` says whether the claim knows that no address is free.
    Waiting { queued: Box<Queued>, told: bool },
    /// Waits for one address: until `on` is free, or, without `on`, until the spec of the pool changes.
    Blocked {
        queued: Box<Queued>,
        on: Option<Block>,
        message: String,
    },
    /// Wants to take over the IPAddress of its name. That needs a decision like an allocation, so that no other process
    /// decides on the address at the same time.
    TakingOver(Box<Queued>),
    /// An address was decided on, and its IPAddress has not been seen yet.
    Decided(Box<Decision>),
}

impl ClaimState {
    /// The request, while it has no decision.
    pub(super) fn queued(&self) -> Option<&Queued> {
        match self {
            Self::Waiting { queued, .. } | Self::Blocked { queued, .. } | Self::TakingOver(queued) => {
                Some(queued)
            }
            Self::Idle | Self::Decided(_) => None,
        }
    }

    /// The request, whether or not it has a decision.
    pub(super) fn into_queued(self) -> Option<Queued> {
        match self {
            Self::Waiting { queued, .. } | Self::Blocked { queued, .. } | Self::TakingOver(queued) => {
                Some(*queued)
            }
            Self::Decided(decision) => Some(decision.queued()),
            Self::Idle => None,
        }
    }

    pub(super) fn waiting(queued: Queued) -> Self {
        Self::Waiting {
            queued: Box::new(queued),
            told: false,
        }
    }
}

/// Whether the claim of an IPAddress exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The claim exists, as far as this process knows.
    Owned,
    /// The claim may be gone, or may exist again: it has to be read from the management API.
    Suspect { was_orphan: bool },
    /// The claim is gone.
    Orphan,
}

impl Ownership {
    fn is_orphan(self) -> bool {
        matches!(self, Self::Orphan | Self::Suspect { was_orphan: true })
    }

    pub(super) fn suspected(self) -> Self {
        Self::Suspect {
            was_orphan: self.is_orphan(),
        }
    }

    /// The ownership to assume until the claim was read.
    pub(super) fn believed(self) -> Self {
        if self.is_orphan() {
            Self::Orphan
        } else {
            Self::Owned
        }
    }
}

/// The IPAddress of a name.
#[derive(Debug)]
pub(super) struct KnownAddress {
    pub(super) record: Record,
    /// Whether this process created the IPAddress and the claim's status does not name it yet, so that no client can
    /// have used it.
    pub(super) unpublished: bool,
    pub(super) ownership: Ownership,
}

/// The state of one name.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) address: Option<KnownAddress>,
    pub(super) claim: ClaimState,
    /// Decisions whose IPAddress may still be created although the name is in use, or although the claim is gone: the
    /// request to create it may be on its way. Their addresses stay reserved, and they stay in the status of the pool.
    pub(super) late: Vec<Decision>,
    /// Whether the pool's task has to complete the decisions, because no claim will.
    pub(super) abandoned: bool,
}

impl Entry {
    pub(super) fn record(&self) -> Option<&Record> {
        self.address.as_ref().map(|address| &address.record)
    }

    pub(super) fn decision(&self) -> Option<&Decision> {
        match &self.claim {
            ClaimState::Decided(decision) => Some(decision),
            _ => None,
        }
    }

    /// Every decision, that of the claim first.
    pub(super) fn decisions(&self) -> impl Iterator<Item = &Decision> {
        self.decision().into_iter().chain(&self.late)
    }

    pub(super) fn decisions_mut(&mut self) -> impl Iterator<Item = &mut Decision> {
        let decision = match &mut self.claim {
            ClaimState::Decided(decision) => Some(&mut **decision),
            _ => None,
        };
        decision.into_iter().chain(&mut self.late)
    }

    /// Removes and returns the claim's decision if `wanted` is true for it.
    pub(super) fn take_decision(&mut self, wanted: impl Fn(&Decision) -> bool) -> Option<Decision> {
        match std::mem::take(&mut self.claim) {
            ClaimState::Decided(decision) if wanted(&decision) => Some(*decision),
            state => {
                self.claim = state;
                None
            }
        }
    }

    /// Keeps a decision whose IPAddress may still be created.
    pub(super) fn keep_late(&mut self, decision: Decision) {
        let known = self
            .late
            .iter_mut()
            .find(|late| late.is(&decision.request.uid, decision.block));
        match known {
            Some(known) => {
                known.unanswered.extend(decision.unanswered);
                known.lost |= decision.lost;
                known.given_up &= decision.given_up;
            }
            None => self.late.push(decision),
        }
        self.abandoned |= self.late.iter().any(Decision::is_expired);
    }

    /// Gives up a decision: no claim wants its IPAddress any more. The address stays reserved while a request to create
    /// the IPAddress has no response, and until it is known what a lost request did.
    pub(super) fn give_up(&mut self, mut decision: Decision) {
        decision.given_up = true;
        if !decision.is_void() {
            self.keep_late(decision);
        }
    }

    /// Gives up a decision whose IPAddress has been seen, so that nothing is unknown of lost requests.
    pub(super) fn give_up_seen(&mut self, mut decision: Decision) {
        decision.lost = false;
        self.give_up(decision);
    }

    /// Makes the newest late decision for the current claim the claim's own again, now that the name is free. True if
    /// there was one.
    pub(super) fn reinstate(&mut self) -> bool {
        if self.address.is_some() || matches!(self.claim, ClaimState::Decided(_)) {
            return false;
        }
        let uid = self.claim.queued().map(|queued| &queued.request.uid);
        let is_next = |late: &Decision| !late.given_up && uid.is_none_or(|uid| *uid == late.request.uid);
        let Some(index) = self.late.iter().rposition(is_next) else {
            return false;
        };
        self.claim = ClaimState::Decided(Box::new(self.late.remove(index)));
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.address.is_none() && matches!(self.claim, ClaimState::Idle) && self.late.is_empty()
    }

    /// The keys of this entry in the indices.
    pub(super) fn keys(&self) -> Keys {
        let address = self.address.as_ref();
        let record = self.record();
        let mut keys = Keys {
            decisions: self.decisions().count(),
            in_progress: self.decision().is_some(),
            abandoned: self.abandoned,
            malformed: record.is_some_and(|record| record.block.is_none()),
            suspect: address.is_some_and(|address| matches!(address.ownership, Ownership::Suspect { .. })),
            orphan: address.is_some_and(|address| address.ownership.is_orphan()),
            unpublished: address.is_some_and(|address| address.unpublished),
            held: record
                .filter(|record| record.is_held_back())
                .and_then(|record| record.deleted_at),
            ..Keys::default()
        };
        let blocks = record.and_then(|record| record.block).into_iter();
        for block in blocks.chain(self.decisions().map(|decision| decision.block)) {
            if !keys.blocks.contains(&block) {
                keys.blocks.push(block);
            }
        }
        // An IPAddress whose address cannot be parsed counts as in use, too.
        keys.used = keys.blocks.len() + usize::from(keys.malformed);
        match &self.claim {
            ClaimState::Idle | ClaimState::Decided(_) => {}
            ClaimState::Waiting { queued, told } => {
                keys.position = Some((queued.request.created, queued.first_asked));
                keys.untold = !told;
            }
            ClaimState::Blocked { on, .. } => keys.blocked = Some(*on),
            ClaimState::TakingOver(_) => keys.taking_over = true,
        }
        keys
    }
}

impl Record {
    /// Whether the IPAddress was released and stays for the grace period of its pool.
    fn is_held_back(&self) -> bool {
        self.claim_uid.is_none() && self.finalizers != Finalizers::Foreign
    }
}

/// The keys of an entry in the indices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Keys {
    /// The position in the queue.
    pub(super) position: Option<(Timestamp, Instant)>,
    pub(super) untold: bool,
    pub(super) blocked: Option<Option<Block>>,
    pub(super) taking_over: bool,
    pub(super) decisions: usize,
    pub(super) in_progress: bool,
    pub(super) abandoned: bool,
    pub(super) malformed: bool,
    pub(super) suspect: bool,
    pub(super) orphan: bool,
    pub(super) unpublished: bool,
    pub(super) held: Option<Timestamp>,
    /// The addresses or prefixes that the entry takes from the pool, each once.
    pub(super) blocks: Vec<Block>,
    pub(super) used: usize,
}
