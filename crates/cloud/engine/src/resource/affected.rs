//! What active effects do to a resource.

use std::collections::BTreeSet;

use nephele_model::{SimTime, StageName};

use super::{Progress, Resource, StageState};
use crate::environment::Environment;

impl Resource {
    /// Whether it is out of service, whatever stages it has reached.
    pub(crate) fn is_down(&self) -> bool {
        self.active_effects
            .values()
            .any(|active_effect| active_effect.is_down)
    }

    /// Whether a stage is not reached although its time has come.
    pub(crate) fn is_held(&self, stage: &StageName) -> bool {
        self.active_effects
            .values()
            .any(|active_effect| active_effect.holds.contains(stage))
    }

    /// The stages that are not reached although their time may have come.
    pub(crate) fn held_stages(&self) -> BTreeSet<StageName> {
        self.active_effects
            .values()
            .flat_map(|active_effect| active_effect.holds.iter().cloned())
            .collect()
    }

    /// The stages that it has reached, if it is in service.
    pub(crate) fn running_stages(&self) -> Vec<StageName> {
        if self.deleting.is_some() || self.is_down() {
            Vec::new()
        } else {
            self.reached_stages()
        }
    }

    /// Lets stages that were held until now end at the earliest now.
    pub(crate) fn resume(&mut self, now: SimTime, held: &BTreeSet<StageName>, environment: Environment<'_>) {
        for index in 0..self.progress.len() {
            let stage = &self.spec.stages[index].name;
            if !held.contains(stage) || self.is_held(stage) {
                continue;
            }
            let Progress { state, time, .. } = &mut self.progress[index];
            if let StageState::Running { due, .. } = state {
                *due = due.map(|due| due.max(now));
                *time = time.map(|time| time.max(environment.time(now)));
            }
        }
    }
}
