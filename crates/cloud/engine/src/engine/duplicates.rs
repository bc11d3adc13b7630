//! Creations that are carried out twice: the answer to the first one is lost, and the cloud does not know the second one
//! for a repetition.
//!
//! ```text
//!   CreateInstance, hit by a fault ──▶ the instance exists, and its creator does not know: Timeout
//!                                         │
//!   CreateInstance again ──▶ Accepted: a second instance of the name. The first one leaks, see [`crate::Leaked`]
//! ```
//!
//! If no more instances can leak, or there is no room for a second one, the repetition finds the first one. So it does
//! when the fault is gone or its time is over.

use nephele_model::ResourceId;

use super::Engine;
use crate::{
    checks::{Checked, check},
    event::Event,
    operation::{Operation, Request},
    outcome::Outcome,
    spec::ResourceSpec,
};

impl Engine {
    /// Whether the creator of a resource that runs does not know that it exists, because the answer to the creation was lost. A
    /// repetition of the creation may make another one.
    #[must_use]
    pub fn is_unanswered(&self, id: &ResourceId) -> bool {
        self.get(id)
            .is_some_and(|found| found.unanswered.is_some() && found.deleting.is_none())
    }

    /// Whether an operation repeats a creation whose answer was lost.
    pub(crate) fn is_repetition(&self, operation: &Operation) -> bool {
        match &operation.request {
            Request::Create(spec) => self.is_unanswered(&spec.id),
            _ => false,
        }
    }

    /// Lets the first instance leak if an operation makes a second one. From then on its name is free.
    pub(crate) fn make_way(&mut self, operation: &Operation, events: &mut Vec<Event>) {
        let Request::Create(spec) = &operation.request else {
            return;
        };
        let first = self
            .resources
            .get_mut(&spec.id)
            .filter(|first| first.deleting.is_none());
        let Some(fault) = first.and_then(|first| first.unanswered.take()) else {
            return;
        };
        if self.can_be_twice(operation, spec, &fault) {
            self.leak_replaced(operation.at, &spec.id, &fault, events);
            self.note_caller_mistake(&spec.cloud_id(), &operation.caller, |caller_mistakes| {
                caller_mistakes.double_creates += 1;
            });
        }
    }

    fn can_be_twice(&self, operation: &Operation, spec: &ResourceSpec, fault: &str) -> bool {
        let fault = self.faults.get(&ResourceId::fault(&spec.id.namespace, fault));
        let Self {
            clouds,
            usage,
            waiting,
            ..
        } = self;
        let as_new = Checked {
            clouds,
            usage,
            waiting,
            operation,
            is_there: false,
            is_reserved: false,
        };
        fault.is_some_and(|fault| fault.is_in_force(operation.at))
            && self.can_leak(&spec.cloud_id(), spec.id.kind)
            && check(&as_new).is_ok()
    }

    /// Notes that the creator of a resource does not know that it exists.
    pub(crate) fn lose_answer(&mut self, operation: &Operation, outcome: &Outcome, fault: &str) {
        if *outcome == Outcome::Accepted
            && let Some(made) = self.resources.get_mut(operation.request.target())
        {
            made.unanswered = Some(fault.to_owned());
        }
    }
}
