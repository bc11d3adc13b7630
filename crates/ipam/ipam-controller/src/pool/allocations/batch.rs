//! The next write of the pool: which decisions it contains, and what happens to them after the write.

use std::mem;

use nephele_api::ipam::v1alpha2::{PENDING_MAX, PendingAllocation};
use nephele_ipam::Owner;

use super::{
    Allocations, Block,
    ask::Answer,
    entry::{ClaimState, Decision, Entry, Request},
};
use crate::pool::{PoolKey, ranges::Refusal};

/// Whether no Fault keeps an address from the claim of a request.
pub(crate) type LetsPass<'a> = &'a dyn Fn(&Request, Block) -> bool;

impl Allocations {
    /// Decides on addresses for the claims that wait longest, at most `room`, and returns how many. The decisions have
    /// to be written before the claims get their addresses. `wants` is whether a claim still waits: it may be gone
    /// without having been withdrawn. `lets_pass` is whether no Fault keeps an address from a claim; none if there is no Fault.
    pub(crate) fn choose(
        &mut self,
        room: usize,
        wants: impl Fn(&Request) -> bool,
        lets_pass: Option<LetsPass<'_>>,
    ) -> usize {
        if self.ranges.is_none() || self.is_stale() || self.closed.is_some() {
            return 0;
        }
        let room = room.min(PENDING_MAX.saturating_sub(self.index.decisions));
        let mut chosen = self.choose_taking_over(room);
        while chosen < room {
            let Some((.., owner)) = self.index.queue.first().cloned() else {
                break;
            };
            let entry = self.entries.get(&owner);
            let has_address = entry.is_some_and(|entry| entry.address.is_some());
            let request = entry
                .and_then(|entry| entry.claim.queued())
                .map(|queued| &queued.request);
            let (wanted, is_held) = match request {
                Some(request) if wants(request) => {
                    let is_held = |lets_pass: LetsPass<'_>| {
                        self.next(request).is_some_and(|next| !lets_pass(request, next))
                    };
                    (request.wanted, lets_pass.is_some_and(is_held))
                }
                _ => {
                    self.change(&owner, |entry| entry.claim = ClaimState::Idle);
                    continue;
                }
            };
            if has_address || is_held {
                self.change(&owner, |entry| entry.claim = ClaimState::Idle);
                self.wake(&owner);
                continue;
            }
            let Some(ranges) = &mut self.ranges else { break };
            match ranges.allocate(&owner, wanted) {
                Ok(block) => {
                    self.decide(&owner, block, false);
                    chosen += 1;
                }
                Err(Refusal::Exhausted) => {
                    self.tell_exhausted();
                    break;
                }
                Err(Refusal::Taken { by, message }) => self.block(&owner, Some(by), message),
                Err(Refusal::Impossible { message }) => self.block(&owner, None, message),
            }
        }
        chosen
    }

    fn decide(&mut self, owner: &Owner, block: Block, takes_over: bool) {
        self.change(owner, |entry| {
            if let Some(queued) = mem::take(&mut entry.claim).into_queued() {
                entry.claim = ClaimState::Decided(Box::new(Decision::new(queued, block, takes_over)));
            }
        });
    }

    /// The claim cannot be served before `on` is free. It is reconciled so that it reports that.
    fn block(&mut self, owner: &Owner, on: Option<Block>, message: String) {
        self.change(owner, |entry| {
            if let Some(queued) = mem::take(&mut entry.claim).into_queued() {
                entry.claim = ClaimState::Blocked {
                    queued: Box::new(queued),
                    on,
                    message,
                };
            }
        });
        self.wake(owner);
    }

    /// Wakes the claims that have not reported yet that no address is free. They keep their positions.
    fn tell_exhausted(&mut self) {
        let untold: Vec<Owner> = self
            .index
            .untold
            .iter()
            .map(|(.., owner)| owner.clone())
            .collect();
        for owner in untold {
            self.change(&owner, |entry| {
                if let ClaimState::Waiting { told, .. } = &mut entry.claim {
                    *told = true;
                }
            });
            self.wake(&owner);
        }
    }

    /// Decides on the claims that want to take over an IPAddress.
    fn choose_taking_over(&mut self, room: usize) -> usize {
        let mut chosen = 0;
        while chosen < room {
            let Some(owner) = self.index.taking_over.first().cloned() else {
                break;
            };
            let Some(entry) = self.entries.get(&owner) else {
                break;
            };
            let answer = entry
                .claim
                .queued()
                .zip(entry.record())
                .map(|(queued, record)| (self.answer_for_record(&queued.request, record), record.block));
            match answer {
                Some((Answer::TakeOver, Some(block))) => {
                    self.decide(&owner, block, true);
                    chosen += 1;
                }
                Some(_) => {
                    self.change(&owner, |entry| entry.claim = ClaimState::Idle);
                    self.wake(&owner);
                }
                // The IPAddress is gone, so the claim gets an address like any other claim.
                None => self.requeue(&owner),
            }
        }
        chosen
    }

    /// The decisions are written, so their claims are reconciled.
    pub(crate) fn persisted(&mut self) {
        let unwritten = self.decisions().filter(|(_, decision)| !decision.written);
        let mut owners: Vec<Owner> = unwritten.map(|(owner, _)| owner.clone()).collect();
        owners.dedup();
        for owner in owners {
            let has_decision = self.change(&owner, |entry| {
                for decision in entry.decisions_mut() {
                    decision.written = true;
                }
                entry.decision().is_some()
            });
            if has_decision {
                self.wake(&owner);
            }
        }
    }

    /// The decisions could not be written: the addresses are free again, and the claims keep waiting. Decisions of
    /// another process stay as they are.
    pub(crate) fn unchoose(&mut self) {
        let is_chosen = |decision: &Decision| !decision.written && !decision.foreign;
        let chosen: Vec<Owner> = self
            .index
            .decided
            .iter()
            .filter(|owner| {
                self.entries
                    .get(owner)
                    .and_then(Entry::decision)
                    .is_some_and(is_chosen)
            })
            .cloned()
            .collect();
        for owner in chosen {
            self.requeue(&owner);
        }
    }

    /// The decisions without a known IPAddress, as the status of the pool has them.
    pub(crate) fn pending(&self, pool: &PoolKey) -> Vec<PendingAllocation> {
        let pending = self.decisions().map(|(owner, decision)| PendingAllocation {
            namespace: (owner.namespace() != pool.namespace).then(|| owner.namespace().to_owned()),
            name: owner.name().to_owned(),
            uid: decision.request.uid.to_string(),
            address: decision.block.address().to_string(),
            prefix: decision.block.length().map(i32::from),
        });
        pending.collect()
    }
}
