//! The faults of all accounts.

use std::collections::{BTreeMap, BTreeSet};

use crate::affliction::{Affliction, NoticeEnd};
use crate::clock::CloudTime;
use crate::fault::{Answer, Call, Fault, FaultRecord, FaultState, Subject, Verdict};
use crate::identity::ResourceId;
use crate::seed::Seed;
use crate::time::SimTime;

/// The faults of all accounts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    by_id: BTreeMap<ResourceId, FaultState>,
    /// When the time of each fault that ends by itself is over.
    ends: BTreeSet<(SimTime, ResourceId)>,
}

impl Faults {
    /// All faults, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &FaultState> {
        self.by_id.values()
    }

    pub(crate) fn get(&self, id: &ResourceId) -> Option<&FaultState> {
        self.by_id.get(id)
    }

    /// Whether there are no faults. Such a cloud pays nothing for them.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Adds a fault, or changes it. A changed fault keeps what it has done. Returns whether something changed.
    pub(crate) fn put(
        &mut self,
        id: &ResourceId,
        fault: &Fault,
        record: FaultRecord,
        afflicted: &[ResourceId],
        notices: &[NoticeEnd],
    ) -> bool {
        let state = match self.by_id.get(id) {
            Some(known) if known.fault == *fault => return false,
            Some(known) => known.clone().changed(fault.clone()),
            None => {
                let afflicted = afflicted.iter().cloned().collect();
                FaultState::new(id.clone(), fault.clone(), record, afflicted, notices.to_vec())
            }
        };
        self.insert(state);
        true
    }

    /// Adds a fault as it was. Replaces a fault of the same name.
    pub(crate) fn insert(&mut self, state: FaultState) {
        self.remove(&state.id);
        let ends = state.ends().filter(|_| !state.has_ended);
        self.ends.extend(ends.map(|ends| (ends, state.id.clone())));
        self.by_id.insert(state.id.clone(), state);
    }

    /// Removes a fault, and returns it.
    pub(crate) fn remove(&mut self, id: &ResourceId) -> Option<FaultState> {
        let state = self.by_id.remove(id)?;
        if let Some(ends) = state.ends() {
            self.ends.remove(&(ends, state.id.clone()));
        }
        Some(state)
    }

    /// The faults of an account that afflict resources, in order.
    pub(crate) fn afflicting(&self, account: &str) -> Vec<ResourceId> {
        let faults = self.by_id.range(ResourceId::fault(account, "")..).map(|(_, state)| state);
        let faults = faults.take_while(|state| state.id.account == account);
        faults.filter(|state| state.affliction().is_some()).map(|state| state.id.clone()).collect()
    }

    /// What is wrong with a resource because of a fault.
    pub(crate) fn decide(
        &mut self,
        fault: &ResourceId,
        subject: &Subject<'_>,
        at: SimTime,
        is_adopted: bool,
        seed: &Seed,
    ) -> Option<Affliction> {
        let state = self.by_id.get_mut(fault)?;
        state.decide(subject, at, is_adopted, seed).then(|| state.affliction().cloned()).flatten()
    }

    /// Keeps when the notice of a fault to a resource is over.
    pub(crate) fn keep_notice(&mut self, fault: &ResourceId, id: &ResourceId, ends: CloudTime) {
        if let Some(state) = self.by_id.get_mut(fault) {
            state.notices.retain(|notice| notice.id != *id);
            state.notices.push(NoticeEnd { id: id.clone(), ends });
        }
    }

    /// Forgets a resource that is gone.
    pub(crate) fn forget(&mut self, id: &ResourceId) {
        let faults = self.by_id.range_mut(ResourceId::fault(&id.account, "")..).map(|(_, state)| state);
        faults.take_while(|state| state.id.account == id.account).for_each(|state| state.forget(id));
    }

    /// When the next time of a fault is over.
    pub(crate) fn next_end(&self) -> Option<SimTime> {
        self.ends.first().map(|(at, _)| *at)
    }

    /// The fault whose time is over next, and what it has afflicted. It is not returned again.
    pub(crate) fn pop_end(&mut self) -> Option<(ResourceId, BTreeSet<ResourceId>)> {
        let (_, id) = self.ends.pop_first()?;
        let state = self.by_id.get_mut(&id).expect("a fault is removed with its end");
        state.has_ended = true;
        Some((id, std::mem::take(&mut state.afflicted)))
    }

    /// Asks the faults of the account of a call, in the order of their names. The first one that hits decides.
    pub(crate) fn strike(&mut self, call: &Call<'_>, seed: &Seed) -> Verdict {
        let account = &call.subject.spec.id.account;
        let faults = self.by_id.range_mut(ResourceId::fault(account.as_str(), "")..).map(|(_, state)| state);
        let faults = faults.take_while(|state| state.id.account == *account);
        let mut verdict = Verdict::default();
        for state in faults {
            verdict.hit = match state.strike(call, seed) {
                Answer::NotCounted => continue,
                Answer::Passes => None,
                Answer::Hits(strike) => Some(strike),
            };
            verdict.faults.push(state.id.name.clone());
            if verdict.hit.is_some() {
                break;
            }
        }
        verdict
    }
}
