//! The claims that wait, in the order in which they are served.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::net::IpAddr;

use jiff::Timestamp;
use nephele_ipam::Owner;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Answer;
use crate::pool::space::Place;

/// What a claim asks a pool for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) owner: Owner,
    /// The uid of the claim.
    pub(crate) uid: Box<str>,
    /// When the claim was made: older ones are served first.
    pub(crate) created: Timestamp,
    /// The address it wants, when it does.
    pub(crate) wanted: Option<IpAddr>,
    /// Whether its status names its IPAddress.
    pub(crate) published: bool,
}

/// A claim's place in the line: by age, then by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    created: Timestamp,
    owner: Owner,
}

/// A claim that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) request: Request,
    pub(super) first_asked: Instant,
    /// Where the answer goes; none once the claim was told to wait. It is called when its turn has come.
    pub(super) reply: Option<oneshot::Sender<Answer>>,
}

/// A claim that waits for one address.
#[derive(Debug)]
struct Blocked {
    waiter: Waiter,
    /// What has to become free; none when only another spec can help.
    on: Option<Place>,
}

/// Owned by the ledger. Bounded by the claims that there are.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: BTreeMap<Turn, Waiter>,
    /// Those of `waiting` that wait for an answer.
    asking: BTreeSet<Turn>,
    blocked: BTreeMap<Owner, Blocked>,
    blocked_on: BTreeMap<Place, BTreeSet<Owner>>,
    turns: BTreeMap<Owner, Timestamp>,
    calls: BTreeSet<Owner>,
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.blocked.len()
    }

    /// Whether anybody waits for an answer.
    pub(super) fn is_asking(&self) -> bool {
        !self.asking.is_empty()
    }

    /// Whether anybody waits who is not blocked.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whose turn it is.
    pub(super) fn first(&self) -> Option<&Request> {
        self.waiting.first_key_value().map(|(_, waiter)| &waiter.request)
    }

    /// Lines up, or asks again.
    pub(super) fn push(&mut self, request: Request, now: Instant, reply: Option<oneshot::Sender<Answer>>) {
        let known = self.take(&request.owner);
        let since =
            known.filter(|known| known.request.uid == request.uid).map_or(now, |known| known.first_asked);
        self.push_since(request, since, reply);
    }

    /// The same for one that asked before.
    pub(super) fn push_since(
        &mut self,
        request: Request,
        first_asked: Instant,
        reply: Option<oneshot::Sender<Answer>>,
    ) {
        self.take(&request.owner);
        let turn = Turn { created: request.created, owner: request.owner.clone() };
        self.turns.insert(request.owner.clone(), request.created);
        if reply.is_some() {
            self.asking.insert(turn.clone());
        }
        self.waiting.insert(turn, Waiter { request, first_asked, reply });
    }

    /// Takes one out, blocked or not.
    pub(super) fn take(&mut self, owner: &Owner) -> Option<Waiter> {
        if let Some(created) = self.turns.remove(owner) {
            let turn = Turn { created, owner: owner.clone() };
            self.asking.remove(&turn);
            return self.waiting.remove(&turn);
        }
        let blocked = self.blocked.remove(owner)?;
        if let Some(on) = blocked.on
            && let Some(owners) = self.blocked_on.get_mut(&on)
        {
            owners.remove(owner);
            if owners.is_empty() {
                self.blocked_on.remove(&on);
            }
        }
        Some(blocked.waiter)
    }

    /// Takes one out if told to.
    pub(super) fn take_if(&mut self, owner: &Owner, really: bool) -> Option<Waiter> {
        if really { self.take(owner) } else { None }
    }

    /// The uid of the claim of this name that waits.
    pub(super) fn uid_of(&self, owner: &Owner) -> Option<&str> {
        let waiter = match self.turns.get(owner) {
            Some(created) => self.waiting.get(&Turn { created: *created, owner: owner.clone() }),
            None => self.blocked.get(owner).map(|blocked| &blocked.waiter),
        };
        waiter.map(|waiter| &*waiter.request.uid)
    }

    /// It does not wait any more.
    pub(super) fn remove(&mut self, owner: &Owner) {
        self.take(owner);
        self.calls.remove(owner);
    }

    /// It cannot be served before `on` is free, and is told so.
    pub(super) fn block(&mut self, owner: &Owner, on: Option<Place>, message: String) {
        let Some(mut waiter) = self.take(owner) else { return };
        if let Some(reply) = waiter.reply.take() {
            let _ = reply.send(Answer::Refused { message });
        }
        if let Some(on) = on {
            self.blocked_on.entry(on).or_default().insert(owner.clone());
        }
        self.blocked.insert(owner.clone(), Blocked { waiter, on });
    }

    /// This may be free: the ones that wait for it are served again.
    pub(super) fn freed(&mut self, place: Place) {
        for owner in self.blocked_on.remove(&place).unwrap_or_default() {
            if let Some(Blocked { waiter, .. }) = self.blocked.remove(&owner) {
                self.push_since(waiter.request, waiter.first_asked, waiter.reply);
            }
        }
    }

    /// What was impossible may be possible now.
    pub(super) fn unblock_all(&mut self) {
        self.blocked_on.clear();
        for (_, Blocked { waiter, .. }) in mem::take(&mut self.blocked) {
            self.push_since(waiter.request, waiter.first_asked, waiter.reply);
        }
    }

    /// Everybody who waits for an answer is told that there is nothing left, and keeps their place.
    pub(super) fn tell_exhausted(&mut self) {
        self.answer(&Answer::Exhausted);
    }

    /// Everybody who waits for an answer gets this one and keeps their place, or loses it if they shall ask again.
    pub(super) fn answer_all(&mut self, answer: &Answer) {
        self.answer(answer);
        if matches!(answer, Answer::Unavailable { .. }) {
            // They are all looked at again when the pool is to be had.
            self.waiting.clear();
            self.blocked.clear();
            self.blocked_on.clear();
            self.turns.clear();
        }
    }

    fn answer(&mut self, answer: &Answer) {
        for turn in mem::take(&mut self.asking) {
            let reply = self.waiting.get_mut(&turn).and_then(|waiter| waiter.reply.take());
            if let Some(reply) = reply {
                let _ = reply.send(answer.clone());
            }
        }
    }

    /// Something else has answered its question: it is looked at again.
    pub(super) fn call(&mut self, waiter: Waiter) {
        match waiter.reply {
            Some(reply) => drop(reply.send(Answer::Failed)),
            None => {
                self.calls.insert(waiter.request.owner);
            }
        }
    }

    pub(super) fn take_calls(&mut self) -> Vec<Owner> {
        mem::take(&mut self.calls).into_iter().collect()
    }
}
