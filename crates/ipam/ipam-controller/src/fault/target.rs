//! The pools of addresses as a target of Faults.

use std::sync::{Arc, atomic::Ordering};

use jiff::Timestamp;
use nephele_api::cloud::v1alpha1::{Fault, FaultSpec, FaultStatus};
use nephele_fault::{Target, id_of, is_of_addresses};
use nephele_ipam::Owner;
use nephele_model::FaultId;

use super::{
    address_faults::{Described, Observation, Presence},
    report,
    spec::{self, AddressFault},
};
use crate::context::Context;

/// Carries Faults out for the claims of a context.
pub(super) struct Addresses {
    context: Arc<Context>,
}

impl Addresses {
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self { context }
    }

    fn presence(&self, owner: &Owner, uid: &str) -> Presence {
        let context = &self.context;
        match context
            .claim(owner)
            .filter(|claim| claim.metadata.uid.as_deref() == Some(uid))
        {
            // Claims are listed only after all Faults are known.
            None if !context.has_listed_claims() => Presence::Waiting,
            None => Presence::Gone,
            Some(claim) if claim.address_name().is_some() => Presence::Bound,
            Some(_) => Presence::Waiting,
        }
    }
}

impl Target for Addresses {
    type Wanted = AddressFault;
    type Seen = Observation;

    fn is_for(spec: &FaultSpec) -> bool {
        is_of_addresses(spec)
    }

    fn read(spec: &FaultSpec) -> Result<AddressFault, String> {
        spec::read(spec).map_err(|mistake| mistake.to_string())
    }

    fn status(object: &Fault, seen: Result<Option<&Observation>, String>, now: Timestamp) -> FaultStatus {
        report::status(object, seen, now)
    }

    fn put(&self, object: &Fault, fault: AddressFault, paused: bool, now: Timestamp) {
        let id = id_of(object);
        let faults = &self.context.faults;
        let mut address_faults = faults.address_faults.lock();
        let is_news = address_faults.put(
            &id,
            Described { fault, paused },
            report::history(object, &id.namespace),
            now,
        );
        faults.any.store(true, Ordering::Release);
        let has_turned = address_faults.tick(&id, now, |owner, uid| self.presence(owner, uid));
        drop(address_faults);
        if is_news || has_turned {
            faults.wake_for(&id.namespace);
        }
    }

    fn remove(&self, id: &FaultId) {
        if self.context.faults.remove(id) {
            self.context.faults.wake_for(&id.namespace);
        }
    }

    fn ids(&self) -> Vec<FaultId> {
        self.context.faults.address_faults.lock().ids()
    }

    fn observe(&self, id: &FaultId, now: Timestamp) -> Option<Observation> {
        self.context.faults.address_faults.lock().observe(id, now)
    }

    /// A claim waits until the status lists it.
    fn is_urgent(seen: &Observation) -> bool {
        seen.hits.values().any(|hit| !hit.recorded)
    }

    fn next_change(seen: &Observation) -> Option<Timestamp> {
        seen.next
    }

    fn listed(&self, id: &FaultId, seen: &Observation) {
        let recorded = self.context.faults.address_faults.lock().recorded(id, &seen.hits);
        self.context.queue.wake(recorded);
    }
}
