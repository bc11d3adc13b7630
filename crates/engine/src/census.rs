//! How many resources there are and how far they are.

use std::collections::BTreeMap;

use crate::identity::{ResourceKind, StageName};
use crate::operation::{Event, EventKind};
use crate::resource::{Resource, StageState};

/// Counts over the whole cloud, kept up to date so that nobody need count resources to know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    kinds: BTreeMap<ResourceKind, u64>,
    /// Few: the names of stages are the caller's, and each is the same for many resources.
    reached: BTreeMap<StageName, u64>,
}

impl Census {
    /// Resources of a kind, those being deleted among them.
    #[must_use]
    pub fn resources(&self, kind: ResourceKind) -> u64 {
        self.kinds.get(&kind).copied().unwrap_or(0)
    }

    /// Resources that have reached a stage.
    #[must_use]
    pub fn reached(&self, stage: &StageName) -> u64 {
        self.reached.get(stage).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, kind: ResourceKind) {
        *self.kinds.entry(kind).or_default() += 1;
    }

    /// Counts what happened, but for the end of a resource, which [`Census::remove`] counts.
    pub(crate) fn count(&mut self, event: &Event) {
        match &event.kind {
            EventKind::StageReached(stage) => self.reach(stage),
            EventKind::Adopted { reached } => reached.iter().for_each(|(stage, _)| self.reach(stage)),
            EventKind::StageFailed { .. }
            | EventKind::Updated(_)
            | EventKind::BackendInService(_)
            | EventKind::BackendOutOfService(_)
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

/// Forgets a key whose count reaches zero.
fn decrease<K: Ord>(counts: &mut BTreeMap<K, u64>, key: &K) {
    let Some(count) = counts.get_mut(key) else { return };
    *count = count.saturating_sub(1);
    if *count == 0 {
        counts.remove(key);
    }
}
