//! What is known of IPAddresses and intents, and what one means to the other.

use nephele_ipam::Owner;

use super::line::Waiter;
use super::{Answer, Intent, Ledger};
use crate::address::{Finalizers, Record};
use crate::pool::space::Place;

impl Ledger {
    pub(super) fn insert(&mut self, owner: Owner, record: Record) {
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
    pub(super) fn found(&mut self, owner: &Owner) {
        let Some(waiter) = self.line.take(owner) else { return };
        match (self.records.get(owner), waiter.reply) {
            (Some(record), Some(reply)) if self.is_settled(&waiter.request, record) => {
                drop(reply.send(Answer::Bound));
            }
            (_, reply) => self.line.call(Waiter { reply, ..waiter }),
        }
    }

    /// Takes a record out of everything but keeps what it takes of the space if that is `kept`.
    pub(super) fn forget_record(&mut self, owner: &Owner, kept: Option<Place>) -> Option<Record> {
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
    pub(super) fn free(&mut self, owner: &Owner, place: Place) {
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
    pub(super) fn overtake(&mut self, owner: Owner, mut intent: Intent) {
        if let Some(reply) = intent.reply.take() {
            let _ = reply.send(Answer::Failed);
        }
        let overtaken = self.overtaken.entry(owner).or_default();
        if !overtaken.iter().any(|known| known.is(&intent.request.uid, intent.place)) {
            overtaken.push(intent);
        }
    }

    /// Nothing is in the way of what was overtaken any more.
    pub(super) fn reinstate(&mut self, owner: &Owner) {
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

    pub(super) fn drop_overtaken(&mut self, owner: &Owner, dropped: impl Fn(&Intent) -> bool) {
        let Some(overtaken) = self.overtaken.remove(owner) else { return };
        let (out, kept): (Vec<_>, Vec<_>) = overtaken.into_iter().partition(dropped);
        if !kept.is_empty() {
            self.overtaken.insert(owner.clone(), kept);
        }
        for intent in out {
            self.free(owner, intent.place);
        }
    }

    pub(super) fn remove(&mut self, owner: &Owner) {
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
    pub(super) fn requeue(&mut self, intent: Intent) {
        let Intent { request, first_asked, reply, .. } = intent;
        match reply {
            Some(reply) if self.records.contains_key(&request.owner) => drop(reply.send(Answer::Failed)),
            None if self.records.contains_key(&request.owner) => {}
            reply => self.line.push_since(request, first_asked, reply),
        }
    }

    pub(super) fn undo(&mut self, owner: &Owner) -> Option<Intent> {
        let intent = self.intents.remove(owner)?;
        self.free(owner, intent.place);
        self.reinstate(owner);
        Some(intent)
    }
}
