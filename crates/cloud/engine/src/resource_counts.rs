//! How many resources exist and which stages they have reached.

use std::collections::BTreeMap;

use nephele_model::{ResourceKind, StageName};

use crate::{
    event::{Event, EventKind},
    resource::{Resource, StageState},
};

/// Counts over the whole cloud. They are updated with each change, so reading them does not iterate over the resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCounts {
    kinds: BTreeMap<ResourceKind, u64>,
    /// A small map: callers choose the stage names, and many resources share each name.
    reached: BTreeMap<StageName, u64>,
}

impl ResourceCounts {
    /// The number of resources of a kind, including those that are being deleted.
    #[must_use]
    pub fn resources(&self, kind: ResourceKind) -> u64 {
        self.kinds.get(&kind).copied().unwrap_or(0)
    }

    /// The number of resources that have reached a stage.
    #[must_use]
    pub fn reached(&self, stage: &StageName) -> u64 {
        self.reached.get(stage).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, kind: ResourceKind) {
        *self.kinds.entry(kind).or_default() += 1;
    }

    /// Counts an event. The end of a resource is counted by [`ResourceCounts::remove`] instead.
    pub(crate) fn count(&mut self, event: &Event) {
        match &event.kind {
            EventKind::StageReached(stage) => self.reach(stage),
            EventKind::Adopted { reached, .. } => reached.iter().for_each(|(stage, _)| self.reach(stage)),
            EventKind::StageFailed { .. }
            | EventKind::BecameAffected { .. }
            | EventKind::Updated(_)
            | EventKind::BackendInService(_)
            | EventKind::BackendOutOfService(_)
            | EventKind::Leaked { .. }
            | EventKind::LeakedDeleted { .. }
            | EventKind::Deleted => {}
        }
    }

    pub(crate) fn remove(&mut self, resource: &Resource) {
        decrease(&mut self.kinds, &resource.spec.id.kind);
        for (stage, state) in resource.stages() {
            if matches!(state, StageState::Reached { .. }) {
                decrease(&mut self.reached, stage);
            }
        }
    }

    pub(crate) fn reach(&mut self, stage: &StageName) {
        match self.reached.get_mut(stage) {
            Some(count) => *count += 1,
            None => drop(self.reached.insert(stage.clone(), 1)),
        }
    }
}

/// Decrements a count, and removes its key at zero.
fn decrease<K: Ord>(counts: &mut BTreeMap<K, u64>, key: &K) {
    let Some(count) = counts.get_mut(key) else { return };
    *count = count.saturating_sub(1);
    if *count == 0 {
        counts.remove(key);
    }
}
