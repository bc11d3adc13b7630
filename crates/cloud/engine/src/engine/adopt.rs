//! Resources that an earlier process had.
//!
//! ```text
//!   objects ──▶ Reserve: it exists, and is not known in full yet ──▶ Adopt: it is what it was
//!                                                                     │ no fault is asked, no rate counts
//!                                                                     ▼
//!                     the repeated Create, RegisterBackend, Update and Delete find what they ask for
//! ```
//!
//! So a restart does not show: an adopted resource has its stages, its update, its deletion and its place behind its load
//! balancers, and those who repeat their operations change nothing.

use nephele_model::{CloudError, ResourceId, ResourceKind, SimTime};

use super::{Engine, reschedule};
use crate::{
    adoption::Previous,
    event::Event,
    outcome::Outcome,
    resource::{Resource, UpdateSpec},
    spec::ResourceSpec,
};

/// The creator of what is adopted. No caller has this name: a read that does not show it misses no change of the reader's own.
const BY_AN_EARLIER_PROCESS: &str = "";

impl Engine {
    /// Adopts a resource. One that exists is changed as by a repeated creation.
    pub(crate) fn adopt(
        &mut self,
        now: SimTime,
        spec: &ResourceSpec,
        previous: &Previous,
        events: &mut Vec<Event>,
    ) -> Result<Outcome, CloudError> {
        let id = &spec.id;
        let is_there = self.get(id).is_some();
        // The creation takes the place of the reservation.
        let backends = self
            .reserved
            .get(id)
            .map(|known| known.backends.clone())
            .unwrap_or_default();
        let created = previous.created.min(now);
        let outcome = self.create(
            now,
            BY_AN_EARLIER_PROCESS,
            spec,
            previous.hardware.as_ref(),
            created,
            &previous.reached,
        )?;
        if !is_there && let Some(update) = &previous.update {
            self.resume_update(now, id, update);
        }
        if !is_there {
            if let Some(since) = previous.deleting {
                self.begin_deletion(since.min(now), id, true);
            }
            events.extend(self.get(id).map(|made| made.adopted(now)));
        }
        if outcome == Outcome::Accepted {
            events.extend(self.affect(now, id, !is_there));
        }
        if !is_there && id.kind == ResourceKind::Instance {
            for (name, stage) in &previous.load_balancers {
                let load_balancer = ResourceId {
                    kind: ResourceKind::LoadBalancer,
                    name: name.clone(),
                    ..id.clone()
                };
                if let Some(expected) = self.reserved.get_mut(&load_balancer) {
                    expected.backends.insert(id.name.clone(), stage.clone());
                    continue;
                }
                let as_adopted = self.get(&load_balancer).and_then(Resource::as_adopted);
                self.lead(now, &load_balancer, &id.name, stage, events);
                // Its backend is a part of what is adopted.
                if let Some((at, found)) = as_adopted.zip(self.resources.get_mut(&load_balancer)) {
                    found.note_adoption(at);
                }
            }
        }
        for (name, stage) in &backends {
            self.lead(now, id, name, stage, events);
        }
        // Its creator knows what a read shows, unless it was refused.
        if !is_there
            && !previous.is_read_refused
            && let Some(made) = self.resources.get_mut(id)
        {
            made.note_adoption(now);
        }
        Ok(outcome)
    }

    /// Lets an update that had begun continue.
    fn resume_update(&mut self, now: SimTime, id: &ResourceId, update: &UpdateSpec) {
        let Self {
            resources,
            clouds,
            deadlines,
            ..
        } = self;
        let Some(resource) = resources.get_mut(id) else {
            return;
        };
        let before = resource.next_deadline();
        let environment = clouds.environment_of(&resource.spec);
        resource.begin_update(now, update, environment);
        reschedule(deadlines, before, resource);
    }
}
