//! Resources and their stages.

use std::collections::{BTreeMap, BTreeSet};

use crate::identity::{ResourceId, StageName};
use crate::latency::{Latency, Odds};
use crate::time::SimTime;

/// What a resource shall be.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceSpec {
    /// Its name.
    pub id: ResourceId,
    /// Where it shall be.
    pub zone: Option<String>,
    /// How large it shall be.
    pub instance_type: Option<String>,
    /// What it belongs to.
    pub owner: Option<ResourceId>,
    /// Marks for rules to match on.
    pub labels: BTreeMap<String, String>,
    /// What it passes through to be up.
    pub stages: Vec<StageSpec>,
    /// How long its deletion takes.
    pub deletion: Latency,
}

/// One stage of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct StageSpec {
    /// Its name, unique in the resource.
    pub name: StageName,
    /// The stages that must be reached before this one is entered.
    pub after: Vec<StageName>,
    /// How long it takes.
    pub latency: Latency,
    /// How often it fails.
    pub failure: Odds,
}

impl ResourceSpec {
    /// Whether the stages form a graph that can be walked: unique names, predecessors that exist, no cycle.
    pub(crate) fn is_walkable(&self) -> bool {
        let names: BTreeSet<_> = self.stages.iter().map(|stage| &stage.name).collect();
        if names.len() != self.stages.len() {
            return false;
        }
        let mut reached = BTreeSet::new();
        // Each round reaches every stage whose predecessors were reached; a round without progress found a cycle or
        // a predecessor that does not exist.
        while reached.len() < names.len() {
            let before = reached.len();
            let next: Vec<_> = self
                .stages
                .iter()
                .filter(|stage| stage.after.iter().all(|name| reached.contains(name)))
                .map(|stage| &stage.name)
                .collect();
            reached.extend(next);
            if reached.len() == before {
                return false;
            }
        }
        true
    }
}

/// Where a resource stands in a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageState {
    /// A predecessor is not reached yet.
    Blocked,
    /// Entered.
    Running {
        /// When it was entered.
        since: SimTime,
        /// When it will be decided; drawn on entry.
        due: SimTime,
    },
    /// Passed.
    Reached {
        /// When.
        at: SimTime,
    },
    /// Failed. A retry enters it again.
    Failed {
        /// When.
        at: SimTime,
        /// Why, in a few words.
        cause: String,
    },
}

/// A resource of the cloud.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// What it shall be.
    pub spec: ResourceSpec,
    /// Grows with each change of state.
    pub generation: u64,
    /// When it was created.
    pub created: SimTime,
    /// When its deletion will be done, once asked for.
    pub deleting: Option<SimTime>,
    pub(crate) stages: BTreeMap<StageName, Progress>,
}

/// A stage's state and how often it was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) state: StageState,
    pub(crate) attempt: u32,
}

impl Resource {
    /// The state of a stage, or none when the resource has no such stage.
    #[must_use]
    pub fn stage(&self, name: &StageName) -> Option<&StageState> {
        self.stages.get(name).map(|progress| &progress.state)
    }

    /// All stages by name.
    pub fn stages(&self) -> impl Iterator<Item = (&StageName, &StageState)> {
        self.stages.iter().map(|(name, progress)| (name, &progress.state))
    }

    /// The next instant at which this resource changes by itself.
    pub(crate) fn next_deadline(&self) -> Option<SimTime> {
        if self.deleting.is_some() {
            return self.deleting;
        }
        let due = |progress: &Progress| match progress.state {
            StageState::Running { due, .. } => Some(due),
            StageState::Blocked | StageState::Reached { .. } | StageState::Failed { .. } => None,
        };
        self.stages.values().filter_map(due).min()
    }
}
