//! A machine of a cluster, and the instance of the cloud that it runs on.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use nephele_engine::{Hardware, Resource, StageState, UpdateState};
use nephele_model::{ClockSkew, Stage, VisibleEffect};

use crate::{active_effect::visible_effects, clock::CloudClock, spec::MachineSpec, time_dependent};

/// What the cloud says about the instance of a machine, as far as its cluster shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instance {
    pub(crate) created: Timestamp,
    pub(crate) hardware: Hardware,
    /// The stages that it has reached, with their times.
    pub(crate) reached: BTreeMap<Stage, Timestamp>,
    /// Its deletion was requested: nothing runs on it any more.
    pub(crate) is_deleting: bool,
    /// What is wrong with it, by the name of the fault.
    pub(crate) visible_effects: BTreeMap<String, VisibleEffect>,
    /// The name of its last update, if that is over.
    pub(crate) updated: Option<String>,
}

impl Instance {
    pub(crate) fn of(resource: &Resource, clock: &CloudClock) -> Self {
        let reached = |(name, state): (_, &StageState)| match state {
            StageState::Reached { at } => Some((Stage::of_name(name)?, clock.wall_time(*at))),
            _ => None,
        };
        let over = resource
            .update
            .as_ref()
            .filter(|update| matches!(update.state, UpdateState::Over { .. }));
        Self {
            created: clock.wall_time(resource.created),
            hardware: resource.hardware.clone(),
            reached: resource.stages().filter_map(reached).collect(),
            is_deleting: resource.deleting.is_some(),
            visible_effects: visible_effects(&resource.active_effects),
            updated: over.map(|update| update.name.clone()),
        }
    }

    /// Whether `later` says something about the same instance: not about one that has taken its place.
    pub(super) fn is_same(&self, later: &Self) -> bool {
        self.created == later.created && self.reached.keys().all(|stage| later.reached.contains_key(stage))
    }
}

/// A machine that its cluster has admitted.
pub(super) struct Machine {
    pub(super) spec: MachineSpec,
    /// Its instance, as the cluster shows it. None until it is shown first.
    pub(super) instance: Option<Instance>,
    /// The faults that let its kubelet fall silent in turn, where it is silent now, as its Node shows.
    pub(super) silenced: BTreeSet<String>,
    /// How far its clock is off, as the heartbeats of its Node show.
    pub(super) shown_skew: Option<ClockSkew>,
    /// The second Node that it has because of a fault.
    pub(super) replaced_node: Option<ReplacedNode>,
}

/// A second Node of a machine. One of the same name that was created at another time is another one: its fault ended, and
/// another one began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplacedNode {
    pub(super) name: String,
    pub(super) created: Timestamp,
}

impl Machine {
    /// A machine of which nothing is shown yet.
    pub(super) fn new(spec: MachineSpec) -> Self {
        let silenced = BTreeSet::new();
        Self {
            spec,
            instance: None,
            silenced,
            shown_skew: None,
            replaced_node: None,
        }
    }

    /// When it reached a stage. None if it did not.
    pub(super) fn reached(&self, stage: Stage) -> Option<Timestamp> {
        self.instance.as_ref()?.reached.get(&stage).copied()
    }

    /// When a stage was reached that runs now.
    pub(super) fn runs(&self, stage: Stage) -> Option<Timestamp> {
        self.reached(stage).filter(|_| !self.is_silent())
    }

    /// Whether its deletion was requested.
    pub(super) fn is_deleting(&self) -> bool {
        self.instance
            .as_ref()
            .is_some_and(|instance| instance.is_deleting)
    }

    /// What is wrong with it, by the name of the fault.
    pub(super) fn visible_effects(&self) -> &BTreeMap<String, VisibleEffect> {
        static NONE: BTreeMap<String, VisibleEffect> = BTreeMap::new();
        self.instance
            .as_ref()
            .map_or(&NONE, |instance| &instance.visible_effects)
    }

    pub(super) fn has(&self, visible_effect: &VisibleEffect) -> bool {
        self.visible_effects().values().any(|has| has == visible_effect)
    }

    /// Whether nothing on it answers.
    pub(super) fn is_silent(&self) -> bool {
        self.is_deleting() || self.visible_effects().values().any(VisibleEffect::is_silence)
    }

    /// When the certificate of its API server expires, if a fault says so.
    pub(super) fn expiry(&self, clock: &CloudClock) -> Option<Timestamp> {
        let started = self.reached(Stage::ApiServer)?;
        let expiry = |visible_effect: &VisibleEffect| match visible_effect {
            VisibleEffect::Certificate(early) => Some(time_dependent::expiry(early, started, clock)),
            _ => None,
        };
        self.visible_effects().values().filter_map(expiry).min()
    }

    pub(super) fn flaps(&self) -> bool {
        self.visible_effects()
            .values()
            .any(|visible_effect| matches!(visible_effect, VisibleEffect::Flapping(_)))
    }

    /// The faults of those that let its kubelet fall silent in turn that silence it now, and when that changes.
    pub(super) fn silence(&self, clock: &CloudClock, now: Timestamp) -> (BTreeSet<String>, Option<Duration>) {
        let mut silenced = BTreeSet::new();
        let mut next = None::<Duration>;
        let Some(registered) = self.reached(Stage::Node) else {
            return (silenced, next);
        };
        for (fault, visible_effect) in self.visible_effects() {
            let VisibleEffect::Flapping(flap) = visible_effect else {
                continue;
            };
            let (is_silent, left) = time_dependent::phase(flap, registered, clock, now);
            silenced.extend(is_silent.then(|| fault.clone()));
            next = Some(next.map_or(left, |next| next.min(left)));
        }
        (silenced, next)
    }

    /// What its Node shows: a kubelet that falls silent in turn is silent, or nothing is wrong with it.
    pub(super) fn shown(&self) -> BTreeMap<String, VisibleEffect> {
        let shown = |(fault, visible_effect): (&String, &VisibleEffect)| match visible_effect {
            VisibleEffect::Flapping(_) if !self.silenced.contains(fault) => None,
            VisibleEffect::Flapping(_) => Some((fault.clone(), VisibleEffect::NotReady)),
            other => Some((fault.clone(), other.clone())),
        };
        self.visible_effects().iter().filter_map(shown).collect()
    }

    /// Installs the software of an update that is over, unless it failed. Returns whether the machine has other software now.
    pub(super) fn finish_update(&mut self, name: &str) -> bool {
        let asked = self
            .spec
            .update
            .as_deref()
            .filter(|asked| asked.name() == name && !asked.fails);
        let Some(software) = asked.map(|asked| asked.software.clone()) else {
            return false;
        };
        self.spec.install(software);
        true
    }
}
