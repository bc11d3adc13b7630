//! What someone does on the page, as a Scenario that does it again. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::api::ObjectMeta;
use nephele_api::{
    cloud::v1alpha1::{
        ClockChange, Expectation, FaultSpec, FaultStep, Heal, MachineCount, Scenario, ScenarioSpec,
        ScenarioStep, StepAction,
    },
    conditions::{self, TRUE},
};
use nephele_scenario::clock;

use crate::{
    act::Act,
    objects::{Key, Objects},
    outcome::{Change, Outcome},
};

/// The most acts of a recording. Each is up to three steps with what was seen before it, and a Scenario has a hundred.
pub(crate) const ACTS_MAX: usize = 25;
/// How long the Scenario waits for what it needs.
const NEEDED_WITHIN: &str = "10m";
/// The phase of a Machine that runs, and the condition of a Cluster that works.
const RUNNING: &str = "Running";
const AVAILABLE: &str = "Available";

/// What becomes of what is done on the page.
#[derive(Clone, Debug, Default)]
pub(crate) enum Recorder {
    /// Nothing.
    #[default]
    Off,
    Runs(Recording),
    /// It has ended.
    Ended(Recording),
}

impl Recorder {
    /// Changes it, if that is offered now. Returns whether it was.
    pub(crate) fn change(
        &mut self,
        change: Change,
        objects: &Objects,
        namespace: &str,
        now: Timestamp,
    ) -> bool {
        let before = std::mem::take(self);
        let (after, is_offered) = match (change, before) {
            (Change::Begin, Self::Off | Self::Ended(_)) => {
                (Self::Runs(Recording::begin(namespace, now)), true)
            }
            // Of nothing, no Scenario can be made.
            (Change::End, Self::Runs(recording)) if recording.moments.is_empty() => (Self::Off, true),
            (Change::End, Self::Runs(mut recording)) => {
                let seen = Sight::new(objects, &recording.namespace);
                recording.end(seen, now);
                (Self::Ended(recording), true)
            }
            (Change::Forget, Self::Runs(_)) => (Self::Off, true),
            (_, before) => (before, false),
        };
        *self = after;
        is_offered
    }

    /// Takes an act that has been carried out, and what was seen before it.
    pub(crate) fn note(&mut self, act: &Act, outcome: &Outcome, objects: &Objects, now: Timestamp) {
        if let Self::Runs(recording) = self {
            let seen = Sight::new(objects, &recording.namespace);
            recording.note(act, outcome, seen, now);
        }
    }
}

/// Acts in a namespace, and what was seen before each of them.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) namespace: String,
    pub(crate) began: Timestamp,
    moments: Vec<Moment>,
}

/// An act, or the end.
#[derive(Clone, Debug)]
struct Moment {
    at: Timestamp,
    /// What was seen just before.
    seen: Sight,
    done: Option<Done>,
}

/// An act that a Scenario can do.
#[derive(Clone, Debug, PartialEq)]
enum Done {
    Fault { name: String, spec: Box<FaultSpec> },
    Heal { fault: String },
    Clock(clock::ClockChange),
}

/// What a Scenario can see of the clusters of a namespace: whether each is available, and how many of its Machines run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sight(BTreeMap<String, (bool, i32)>);

impl Sight {
    /// What is seen in a namespace.
    pub(crate) fn new(objects: &Objects, namespace: &str) -> Self {
        let is_there = |metadata: &ObjectMeta| metadata.namespace.as_deref() == Some(namespace);
        let clusters = objects
            .clusters
            .iter()
            .filter(|cluster| is_there(&cluster.metadata));
        let clusters = clusters.map(|cluster| {
            let status = cluster.status.as_ref();
            let available = status.and_then(|status| conditions::find(&status.conditions, AVAILABLE));
            let is_available = available.is_some_and(|available| available.status == TRUE);
            (Key::of(&cluster.metadata).name, (is_available, 0))
        });
        let mut seen: BTreeMap<_, _> = clusters.collect();
        let machines = objects
            .machines
            .iter()
            .filter(|machine| is_there(&machine.metadata));
        for machine in machines {
            let phase = machine.status.as_ref().map(|status| status.phase.as_str());
            if let Some((_, running)) = seen.get_mut(&machine.spec.cluster_name)
                && phase == Some(RUNNING)
            {
                *running += 1;
            }
        }
        Self(seen)
    }
}

impl Recording {
    /// A recording without acts.
    pub(crate) fn begin(namespace: &str, now: Timestamp) -> Self {
        Self {
            namespace: namespace.to_owned(),
            began: now,
            moments: Vec::new(),
        }
    }

    /// Takes an act in its namespace that has been carried out, if a Scenario can do it, and there is room for it.
    pub(crate) fn note(&mut self, act: &Act, outcome: &Outcome, seen: Sight, now: Timestamp) {
        let done = match (act, outcome) {
            (Act::Create(fault), Outcome::Created(key)) if key.namespace == self.namespace => Done::Fault {
                name: key.name.clone(),
                spec: Box::new(fault.spec.clone()),
            },
            (Act::Delete(key), _) if key.namespace == self.namespace && self.has_fault(&key.name) => {
                Done::Heal {
                    fault: key.name.clone(),
                }
            }
            (Act::SetClock { namespace, change }, _) if *namespace == self.namespace => {
                Done::Clock(change.clone())
            }
            _ => return,
        };
        if self.moments.len() < ACTS_MAX {
            self.moments.push(Moment {
                at: now,
                seen,
                done: Some(done),
            });
        }
    }

    /// Ends it, with what is seen at its end.
    pub(crate) fn end(&mut self, seen: Sight, now: Timestamp) {
        self.moments.push(Moment {
            at: now,
            seen,
            done: None,
        });
    }

    /// The cluster that the Scenario looks at: the first one that changes, or else the first one.
    fn watched(&self) -> Option<&String> {
        let clusters = || self.moments.iter().flat_map(|moment| moment.seen.0.keys());
        let changes = |cluster: &&String| {
            let mut seen = self.moments.iter().map(|moment| moment.seen.0.get(*cluster));
            let first = seen.next();
            seen.any(|seen| Some(seen) != first)
        };
        clusters().filter(changes).min().or_else(|| clusters().min())
    }

    fn has_fault(&self, name: &str) -> bool {
        self.moments
            .iter()
            .any(|moment| matches!(&moment.done, Some(Done::Fault { name: made, .. }) if made == name))
    }

    /// The acts in words, each with how many seconds after the begin it was.
    pub(crate) fn told(&self) -> Vec<(i64, String)> {
        let acts = self.moments.iter().filter_map(|moment| {
            let done = match moment.done.as_ref()? {
                Done::Fault { name, .. } => format!("Fault {name} begins"),
                Done::Heal { fault } => format!("Fault {fault} ends"),
                Done::Clock(change) => format!("the clock of {} changes", change.cloud),
            };
            Some((moment.at.duration_since(self.began).as_secs(), done))
        });
        acts.collect()
    }

    /// The Scenario: it waits for what the first act found, does each act, and expects before the next one what was seen then.
    /// Where nothing had changed, it lets as much time pass.
    pub(crate) fn scenario(&self) -> Scenario {
        let mut steps = Vec::new();
        let watched = self.watched();
        let seen = |sight: &Sight| {
            let seen = watched.and_then(|cluster| sight.0.get(cluster));
            seen.copied().unwrap_or_default()
        };
        let mut before: Option<&Moment> = None;
        for moment in &self.moments {
            let is = seen(&moment.seen);
            match (before, watched) {
                // What the first act found is what the Scenario needs.
                (None, Some(cluster)) => {
                    steps.extend(is.0.then(|| wait(expectation(cluster, true, NEEDED_WITHIN))));
                    steps.push(wait(counted(cluster, is.1, NEEDED_WITHIN)));
                }
                (None, None) => {}
                (Some(before), watched) => {
                    let was = seen(&before.seen);
                    let passed = moment.at.duration_since(before.at).as_secs().max(0);
                    // A busy machine takes longer.
                    let within = format!("{}s", passed.saturating_mul(2).saturating_add(60));
                    if let Some(cluster) = watched.filter(|_| was != is) {
                        steps.extend((was.0 != is.0).then(|| expect(expectation(cluster, is.0, &within))));
                        steps.extend((was.1 != is.1).then(|| expect(counted(cluster, is.1, &within))));
                    } else if passed > 0 {
                        steps.push(step(StepAction {
                            pause: format!("{passed}s"),
                            ..StepAction::default()
                        }));
                    }
                }
            }
            steps.extend(moment.done.as_ref().map(acted));
            before = Some(moment);
        }
        let name = self.began.strftime("recorded-%H%M%S").to_string();
        Scenario {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: ScenarioSpec { steps },
            status: None,
        }
    }
}

fn acted(done: &Done) -> ScenarioStep {
    let action = match done.clone() {
        Done::Fault { name, spec } => StepAction {
            fault: Some(FaultStep {
                name,
                spec: *spec,
                lasts: String::new(),
            }),
            ..StepAction::default()
        },
        Done::Heal { fault } => StepAction {
            heal: Some(Heal { fault }),
            ..StepAction::default()
        },
        Done::Clock(change) => StepAction {
            clock: Some(ClockChange {
                cloud: change.cloud,
                rate: change
                    .rate
                    .map(|rate| rate.as_str().to_owned())
                    .unwrap_or_default(),
                paused: change.paused,
                step: change.step,
                jump: change
                    .jump
                    .map(|jump| format!("{}s", jump.as_secs()))
                    .unwrap_or_default(),
            }),
            ..StepAction::default()
        },
    };
    step(action)
}

fn wait(expectation: Expectation) -> ScenarioStep {
    step(StepAction {
        wait: Some(expectation),
        ..StepAction::default()
    })
}

fn expect(expectation: Expectation) -> ScenarioStep {
    step(StepAction {
        expect: Some(expectation),
        ..StepAction::default()
    })
}

fn step(action: StepAction) -> ScenarioStep {
    ScenarioStep {
        action,
        ..ScenarioStep::default()
    }
}

fn expectation(cluster: &str, is_available: bool, within: &str) -> Expectation {
    Expectation {
        cluster: cluster.to_owned(),
        condition: AVAILABLE.to_owned(),
        status: if is_available {
            String::new()
        } else {
            "False".to_owned()
        },
        within: within.to_owned(),
        ..Expectation::default()
    }
}

fn counted(cluster: &str, running: i32, within: &str) -> Expectation {
    Expectation {
        machines: Some(MachineCount {
            cluster: cluster.to_owned(),
            phase: RUNNING.to_owned(),
            count: Some(running),
            ..MachineCount::default()
        }),
        within: within.to_owned(),
        ..Expectation::default()
    }
}

#[cfg(test)]
mod tests;
