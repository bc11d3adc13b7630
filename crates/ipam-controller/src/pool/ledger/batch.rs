//! The next write of the pool: what is decided on for it, and what becomes of that.

use nephele_api::ipam::v1alpha2::{PENDING_MAX, PendingAllocation};
use nephele_ipam::Owner;

use super::{Adopting, Answer, BATCH_MAX, Intent, Ledger, Request};
use crate::pool::PoolKey;
use crate::pool::space::Refusal;

impl Ledger {
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
    pub(super) fn choose_adopted(&mut self, room: usize) -> usize {
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

    pub(super) fn tell_granted(&mut self, owners: Vec<Owner>) -> Vec<Owner> {
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

    /// What was decided on and is not known to be there, as the status of the pool has it.
    pub(crate) fn pending(&self, pool: &PoolKey) -> Vec<PendingAllocation> {
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
}
