//! What comes next in a scenario. Pure: whoever stops between two calls continues with the last status.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_api::cloud::v1alpha1::{CloudClock, FaultSpec, STEP_MESSAGE_MAX, ScenarioStatus, StepStatus};

use crate::{
    clock::{self, SeenClock},
    script::{Action, Change, ClockChange, Script, Sight, Step},
};

/// How often something is looked for. A state that is shorter may not be seen.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long after its deadline a look still counts, and how far two looks for what must not be seen may be apart: a manager
/// that has much to do looks late, but one that was away for longer cannot say what was there meanwhile.
pub(crate) const LATE_MAX: Duration = Duration::from_secs(5);
/// How old a look for what must not be seen may become before the status has the next one. The next process counts from there,
/// so the rest of [`LATE_MAX`] is what a change of the leader may take.
const NOTED_EVERY: Duration = Duration::from_millis(2500);
/// How old any other look may become. Only reports show it.
const SHOWN_EVERY: Duration = Duration::from_secs(30);
/// How long an action may be refused for a reason that may pass, such as a busy API server.
const TRIES_MAX: Duration = Duration::from_secs(60);
/// How long it may take until a new Fault or a changed clock is in force.
const IN_FORCE_MAX: Duration = Duration::from_secs(30);

/// What was observed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Seen {
    /// The Faults of the scenario, and others with names of its Faults, by name.
    pub(crate) faults: BTreeMap<String, SeenFault>,
    /// What is known of the sights of steps, by the step's index.
    pub(crate) looks: BTreeMap<usize, Look>,
    /// The clocks that steps change, by the name of the SimulatedCloud.
    pub(crate) clocks: BTreeMap<String, SeenClock>,
    /// When this process looked last for the sights of steps, by the step's index. The status has these times, too, but less
    /// precisely.
    pub(crate) looked: BTreeMap<usize, Timestamp>,
}

/// What has to be looked for before [`plan`] is called.
#[derive(Debug, Default)]
pub(crate) struct Wants<'a> {
    /// Sights, with the indices of their steps.
    pub(crate) sights: Vec<(usize, &'a Sight)>,
    /// The names of SimulatedClouds whose clocks change.
    pub(crate) clocks: BTreeSet<&'a str>,
}

/// A Fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenFault {
    /// Whether the scenario has made it.
    pub(crate) is_ours: bool,
    /// Whether its deletion has begun.
    pub(crate) is_going: bool,
    /// Its phase; empty while the manager has not seen it.
    pub(crate) phase: String,
    /// The message of its condition `Ready`.
    pub(crate) message: String,
}

/// What is known of a sight, with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Look {
    Met(String),
    NotMet(String),
    /// It cannot be read now, but perhaps later.
    Unclear(String),
    /// It cannot be read.
    Refused(String),
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Act {
    /// The step for which it is done; none when a Fault ends by itself or with the scenario.
    pub(crate) step: Option<usize>,
    pub(crate) deed: Deed,
}

/// An action. It can be repeated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Deed {
    CreateFault {
        name: String,
        spec: Box<FaultSpec>,
    },
    DeleteFault {
        name: String,
    },
    /// Sets these fields of a clock, if the SimulatedCloud still has this resourceVersion.
    SetClock {
        cloud: String,
        version: String,
        clock: CloudClock,
    },
    Change(Change),
    Say(String),
}

/// How an action ended, with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Done(String),
    /// Try again later.
    Unclear(String),
    Refused(String),
}

/// The next status, what to do before it is stored, and when to look again at the latest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) status: ScenarioStatus,
    pub(crate) acts: Vec<Act>,
    pub(crate) again: Option<Duration>,
    /// The indices of the steps whose sights were looked for, whatever was seen.
    pub(crate) looked: Vec<usize>,
}

/// Whether a scenario is over for this generation of its spec.
pub(crate) fn is_over(status: Option<&ScenarioStatus>, generation: i64) -> bool {
    status.is_some_and(|status| {
        status.observed_generation == Some(generation) && matches!(&*status.phase, "Passed" | "Failed")
    })
}

/// What has to be looked for before [`plan`] is called.
pub(crate) fn wants<'a>(script: &'a Script, generation: i64, status: Option<&ScenarioStatus>) -> Wants<'a> {
    let current = status.filter(|status| status.observed_generation == Some(generation));
    let statuses = current.map(|status| status.steps.as_slice()).unwrap_or_default();
    let mut wants = Wants::default();
    for (index, (step, status)) in script.steps.iter().zip(statuses).enumerate() {
        match &step.action {
            _ if status.phase != "Running" => {}
            Action::Expect { sight, .. } | Action::Never { sight, .. } => wants.sights.push((index, sight)),
            Action::Clock(ClockChange { cloud, .. }) => {
                wants.clocks.insert(cloud);
            }
            Action::Fault { .. }
            | Action::Heal { .. }
            | Action::Change(_)
            | Action::Pause(_)
            | Action::Say(_) => {}
        }
    }
    wants
}

/// What comes next. An action is only returned for a step that has begun in the stored status, so that its begin is
/// known before anything of it is done.
pub(crate) fn plan(
    script: &Script,
    generation: i64,
    stored: Option<&ScenarioStatus>,
    seen: &Seen,
    now: Timestamp,
) -> Plan {
    let is_current = |status: &&ScenarioStatus| {
        status.observed_generation == Some(generation) && status.steps.len() == script.steps.len()
    };
    let mut plan = Plan {
        status: stored
            .filter(is_current)
            .cloned()
            .unwrap_or_else(|| unbegun(script, generation)),
        acts: Vec::new(),
        again: None,
        looked: Vec::new(),
    };
    let phase = plan.status.phase.clone();
    match phase.as_str() {
        // A Fault of an earlier run, or one that was on its way when the scenario was over.
        "Pending" | "Passed" | "Failed" if plan.heal_all(seen) => return plan,
        "Passed" | "Failed" => return plan,
        "Pending" => {
            plan.status.phase = "Running".to_owned();
            plan.status.start_time = Some(MicroTime(now));
        }
        _ => {}
    }
    let stored = stored
        .filter(is_current)
        .map(|status| status.steps.clone())
        .unwrap_or_default();
    if plan.follow(script, &stored, seen, now) {
        return plan;
    }
    if stored != plan.status.steps {
        // How the steps ended has to be stored before their Faults go: without these, it could end in another way.
        plan.again = Some(Duration::ZERO);
    } else if !plan.heal_all(seen) {
        let has_failed = plan.status.steps.iter().any(|step| step.phase == "Failed");
        plan.status.phase = if has_failed { "Failed" } else { "Passed" }.to_owned();
        plan.status.finish_time = Some(MicroTime(now));
        plan.again = None;
    }
    plan
}

/// What comes next while the scenario is paused: its Faults end on time. No step continues, and the status stays.
pub(crate) fn plan_paused(
    script: &Script,
    generation: i64,
    stored: &ScenarioStatus,
    seen: &Seen,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan {
        status: stored.clone(),
        acts: Vec::new(),
        again: None,
        looked: Vec::new(),
    };
    if stored.observed_generation == Some(generation) && stored.steps.len() == script.steps.len() {
        plan.end_faults(script, &stored.steps, seen, now);
    }
    plan
}

/// The status of a scenario of which nothing has begun.
fn unbegun(script: &Script, generation: i64) -> ScenarioStatus {
    let step = |step: &Step| StepStatus {
        name: step.name.clone(),
        phase: "Pending".to_owned(),
        ..StepStatus::default()
    };
    ScenarioStatus {
        observed_generation: Some(generation),
        phase: "Pending".to_owned(),
        steps: script.steps.iter().map(step).collect(),
        ..ScenarioStatus::default()
    }
}

/// What a step comes to.
enum Verdict {
    Passed(String),
    Failed(String),
    /// It continues, with this message, until this time at the latest.
    Waits {
        message: String,
        until: Timestamp,
    },
    /// Something is to be done.
    Acts(Deed),
    /// This clock is to be set, once the status has it.
    Notes(CloudClock),
}

impl Plan {
    /// Follows the steps. False when all have passed, or one has failed.
    fn follow(&mut self, script: &Script, stored: &[StepStatus], seen: &Seen, now: Timestamp) -> bool {
        let has_failed = |plan: &Self| plan.status.steps.iter().any(|step| step.phase == "Failed");
        // An action that was refused has failed its step before; then the others stop where they are.
        if !has_failed(self) {
            for (index, step) in script.steps.iter().enumerate() {
                self.follow_step(index, step, seen, now);
            }
        }
        if has_failed(self) {
            self.skip_rest();
            return false;
        }
        for (index, step) in script.steps.iter().enumerate() {
            if self.can_begin(index, step, script) {
                let status = &mut self.status.steps[index];
                status.phase = "Running".to_owned();
                status.started = Some(MicroTime(now));
                // Its status has to be stored before anything is done.
                self.look_again(Duration::ZERO);
            }
        }
        if self.status.steps.iter().all(|step| step.phase == "Passed") {
            return false;
        }
        self.end_faults(script, stored, seen, now);
        true
    }

    /// Whether a step begins: when all steps before it have passed. The steps that change the same clock run one after the
    /// other, so that none counts from what another one is about to set.
    fn can_begin(&self, index: usize, step: &Step, script: &Script) -> bool {
        let statuses = &self.status.steps;
        let changes_it_too = |other: &Step| match (&step.action, &other.action) {
            (Action::Clock(clock), Action::Clock(other)) => clock.cloud == other.cloud,
            _ => false,
        };
        statuses[index].phase == "Pending"
            && step
                .after
                .iter()
                .all(|before| statuses[*before].phase == "Passed")
            && script
                .steps
                .iter()
                .zip(statuses)
                .all(|(other, status)| status.phase != "Running" || !changes_it_too(other))
    }

    fn follow_step(&mut self, index: usize, step: &Step, seen: &Seen, now: Timestamp) {
        let status = &mut self.status.steps[index];
        if status.phase != "Running" {
            return;
        }
        let started = status.started.as_ref().map_or(now, |started| started.0);
        let look = seen.looks.get(&index);
        let last = status
            .looked
            .as_ref()
            .map(|looked| looked.0)
            .max(seen.looked.get(&index).copied());
        let progress = Progress {
            started,
            clock: status.clock.as_ref(),
            looked: last.unwrap_or(started),
        };
        let verdict = verdict(&step.action, &progress, look, seen, now);
        if let Some(Look::Met(_) | Look::NotMet(_)) = look {
            let is_over = matches!(verdict, Verdict::Passed(_) | Verdict::Failed(_));
            let noted = status.looked.as_ref().map(|noted| noted.0);
            if is_over || noted.is_none_or(|noted| is_to_be_noted(&step.action, noted, now)) {
                status.looked = Some(MicroTime(now));
            }
            self.looked.push(index);
        }
        match verdict {
            Verdict::Passed(message) => self.end(index, "Passed", &message, now),
            Verdict::Failed(message) => self.end(index, "Failed", &message, now),
            Verdict::Waits { message, until } => {
                status.message = cut(&message);
                let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                let at_most = if matches!(step.action, Action::Pause(_)) {
                    Duration::MAX
                } else {
                    LOOK_EVERY
                };
                self.look_again(left.min(at_most));
            }
            Verdict::Acts(deed) => {
                self.acts.push(Act {
                    step: Some(index),
                    deed,
                });
                self.look_again(LOOK_EVERY);
            }
            Verdict::Notes(clock) => {
                status.clock = Some(clock);
                self.look_again(Duration::ZERO);
            }
        }
    }

    fn end(&mut self, index: usize, phase: &str, message: &str, now: Timestamp) {
        let status = &mut self.status.steps[index];
        status.phase = phase.to_owned();
        status.finished = Some(MicroTime(now));
        status.message = cut(message);
        self.look_again(Duration::ZERO);
    }

    fn skip_rest(&mut self) {
        let unfinished = |step: &&mut StepStatus| matches!(&*step.phase, "Pending" | "Running");
        for step in self.status.steps.iter_mut().filter(unfinished) {
            step.phase = "Skipped".to_owned();
            step.message = String::new();
        }
        self.acts.clear();
    }

    /// Deletes the Faults whose time is over.
    fn end_faults(&mut self, script: &Script, stored: &[StepStatus], seen: &Seen, now: Timestamp) {
        for (index, step) in script.steps.iter().enumerate() {
            let Action::Fault {
                name,
                lasts: Some(lasts),
                ..
            } = &step.action
            else {
                continue;
            };
            let ours = seen
                .faults
                .get(name)
                .is_some_and(|fault| fault.is_ours && !fault.is_going);
            let finished = stored
                .get(index)
                .and_then(|step| step.finished.as_ref())
                .filter(|_| ours);
            let Some(finished) = finished else { continue };
            let end = after(finished.0, *lasts);
            if now >= end {
                self.acts.push(Act {
                    step: None,
                    deed: Deed::DeleteFault { name: name.clone() },
                });
                self.look_again(LOOK_EVERY);
            } else {
                self.look_again(Duration::try_from(end.duration_since(now)).unwrap_or_default());
            }
        }
    }

    /// Deletes all Faults that the scenario has made. False when there are none.
    fn heal_all(&mut self, seen: &Seen) -> bool {
        let ours = seen.faults.iter().filter(|(_, fault)| fault.is_ours);
        let (going, staying): (Vec<_>, Vec<_>) = ours.partition(|(_, fault)| fault.is_going);
        let deeds = staying
            .into_iter()
            .map(|(name, _)| Deed::DeleteFault { name: name.clone() });
        self.acts = deeds.map(|deed| Act { step: None, deed }).collect();
        if self.acts.is_empty() && going.is_empty() {
            return false;
        }
        self.look_again(LOOK_EVERY);
        true
    }

    fn look_again(&mut self, wait: Duration) {
        self.again = Some(self.again.map_or(wait, |again| again.min(wait)));
    }

    /// Writes down how an action ended.
    pub(crate) fn settle(&mut self, act: &Act, ending: &Ending, now: Timestamp) {
        let Some(index) = act.step else {
            if let Ending::Done(_) = ending {
                self.look_again(Duration::ZERO);
            }
            return;
        };
        let status = &mut self.status.steps[index];
        let started = status.started.as_ref().map_or(now, |started| started.0);
        match (ending, &act.deed) {
            // The step passes when this is seen.
            (
                Ending::Done(_),
                Deed::CreateFault { .. } | Deed::DeleteFault { .. } | Deed::SetClock { .. },
            ) => {
                self.look_again(Duration::ZERO);
            }
            (Ending::Done(message), Deed::Change(_) | Deed::Say(_)) => {
                self.end(index, "Passed", message, now);
            }
            (Ending::Refused(message), _) => self.end(index, "Failed", message, now),
            (Ending::Unclear(message), _) if now >= after(started, TRIES_MAX) => {
                self.end(index, "Failed", message, now);
            }
            (Ending::Unclear(message), _) => status.message = cut(message),
        }
    }
}

/// How far a running step is, as its stored status says.
struct Progress<'a> {
    started: Timestamp,
    /// The clock that it sets.
    clock: Option<&'a CloudClock>,
    /// When it was looked last, as far as is known; its begin before the first look.
    looked: Timestamp,
}

/// Whether the status has to have a look of now, because the one that it has would become too old by the next one.
fn is_to_be_noted(action: &Action, noted: Timestamp, now: Timestamp) -> bool {
    let every = if matches!(action, Action::Never { .. }) {
        NOTED_EVERY
    } else {
        SHOWN_EVERY
    };
    after(now, LOOK_EVERY) > after(noted, every)
}

fn verdict(
    action: &Action,
    progress: &Progress<'_>,
    look: Option<&Look>,
    seen: &Seen,
    now: Timestamp,
) -> Verdict {
    let started = progress.started;
    match action {
        Action::Expect { within, .. } => expected(look, after(started, *within), now),
        Action::Never { during, .. } => unwanted(look, progress.looked, after(started, *during), now),
        Action::Fault { name, spec, .. } => match seen.faults.get(name) {
            None => Verdict::Acts(Deed::CreateFault {
                name: name.clone(),
                spec: spec.clone(),
            }),
            Some(fault) => in_force(name, fault, after(started, IN_FORCE_MAX), now),
        },
        Action::Heal { fault: name } => match seen.faults.get(name).filter(|fault| fault.is_ours) {
            Some(fault) if fault.is_going => Verdict::Waits {
                message: format!("Fault {name} is being deleted"),
                until: Timestamp::MAX,
            },
            Some(_) => Verdict::Acts(Deed::DeleteFault { name: name.clone() }),
            None => Verdict::Passed(format!("Fault {name} is gone")),
        },
        Action::Clock(change) => match seen.clocks.get(&change.cloud) {
            Some(clock) => changed(change, progress, clock, now),
            None => Verdict::Waits {
                message: String::new(),
                until: Timestamp::MAX,
            },
        },
        Action::Change(change) => Verdict::Acts(Deed::Change(change.clone())),
        Action::Pause(length) => {
            let until = after(started, *length);
            match now >= until {
                true => Verdict::Passed(String::new()),
                false => Verdict::Waits {
                    message: String::new(),
                    until,
                },
            }
        }
        Action::Say(text) => Verdict::Acts(Deed::Say(text.clone())),
    }
}

fn expected(look: Option<&Look>, until: Timestamp, now: Timestamp) -> Verdict {
    match look {
        Some(Look::Met(message) | Look::NotMet(message)) if now > after(until, LATE_MAX) => {
            Verdict::Failed(format!("not looked at before the time was over; now {message}"))
        }
        Some(Look::Met(message)) => Verdict::Passed(message.clone()),
        Some(Look::Refused(message)) => Verdict::Failed(message.clone()),
        Some(Look::NotMet(message) | Look::Unclear(message)) if now >= until => {
            Verdict::Failed(message.clone())
        }
        Some(Look::NotMet(message) | Look::Unclear(message)) => Verdict::Waits {
            message: message.clone(),
            until,
        },
        None => Verdict::Waits {
            message: String::new(),
            until,
        },
    }
}

/// `looked` is when it was looked before.
fn unwanted(look: Option<&Look>, looked: Timestamp, until: Timestamp, now: Timestamp) -> Verdict {
    match look {
        Some(Look::Met(message) | Look::Refused(message)) => Verdict::Failed(message.clone()),
        Some(Look::NotMet(message) | Look::Unclear(message)) if now > after(looked, LATE_MAX) => {
            let longest = LATE_MAX.as_secs();
            let gap = format!("not looked at from {looked:.3} to {now:.3}, which is longer than {longest}s");
            Verdict::Failed(format!("{gap}; now {message}"))
        }
        Some(Look::NotMet(message)) if now >= until => {
            Verdict::Passed(format!("it was never seen; the last look: {message}"))
        }
        Some(Look::Unclear(message)) if now >= until => Verdict::Failed(message.clone()),
        Some(Look::NotMet(message) | Look::Unclear(message)) => Verdict::Waits {
            message: message.clone(),
            until,
        },
        None => Verdict::Waits {
            message: String::new(),
            until,
        },
    }
}

fn in_force(name: &str, fault: &SeenFault, until: Timestamp, now: Timestamp) -> Verdict {
    if !fault.is_ours {
        return Verdict::Failed(format!(
            "there is a Fault {name} that is not of this scenario; delete it"
        ));
    }
    match fault.phase.as_str() {
        "" if now >= until => Verdict::Failed(format!("Fault {name} was not in force in time")),
        "" => Verdict::Waits {
            message: format!("Fault {name} is not in force yet"),
            until,
        },
        "Invalid" => Verdict::Failed(format!("Fault {name} is invalid: {}", fault.message)),
        _ => Verdict::Passed(format!("Fault {name} is in force")),
    }
}

/// What comes of a change of a clock.
fn changed(change: &ClockChange, progress: &Progress<'_>, seen: &SeenClock, now: Timestamp) -> Verdict {
    let cloud = &change.cloud;
    let until = |length| after(progress.started, length);
    let (version, set, in_force) = match seen {
        SeenClock::Read {
            version,
            set,
            in_force,
        } => (version, set, in_force.as_deref()),
        SeenClock::Missing => return Verdict::Failed(format!("there is no SimulatedCloud {cloud}")),
        SeenClock::Refused(message) => return Verdict::Failed(message.clone()),
        SeenClock::Unclear(message) if now >= until(TRIES_MAX) => return Verdict::Failed(message.clone()),
        SeenClock::Unclear(message) => {
            return Verdict::Waits {
                message: message.clone(),
                until: until(TRIES_MAX),
            };
        }
    };
    // A manager takes the first count that it sees of a SimulatedCloud as one that was carried out.
    let in_force = match in_force {
        Some(in_force) => in_force,
        None if now >= until(IN_FORCE_MAX) => {
            return Verdict::Failed(format!(
                "SimulatedCloud {cloud} has no status; does its manager run?"
            ));
        }
        None => {
            let message = format!("SimulatedCloud {cloud} has no status yet");
            return Verdict::Waits {
                message,
                until: until(IN_FORCE_MAX),
            };
        }
    };
    let Some(wanted) = progress.clock else {
        return Verdict::Notes(clock::wanted(change, set, in_force));
    };
    let missing = clock::missing(wanted, set);
    if missing != CloudClock::default() && now >= until(TRIES_MAX) {
        let message = format!(
            "SimulatedCloud {cloud} was not given this clock in time: {}",
            clock::told(&missing)
        );
        return Verdict::Failed(message);
    }
    if missing != CloudClock::default() {
        let cloud = cloud.clone();
        let version = version.clone();
        return Verdict::Acts(Deed::SetClock {
            cloud,
            version,
            clock: missing,
        });
    }
    let told = format!("the clock of SimulatedCloud {cloud}: {}", clock::told(wanted));
    match clock::is_in_force(wanted, in_force) {
        true => Verdict::Passed(told),
        false if now >= until(IN_FORCE_MAX) => Verdict::Failed(format!("not in force in time: {told}")),
        false => Verdict::Waits {
            message: format!("not in force yet: {told}"),
            until: until(IN_FORCE_MAX),
        },
    }
}

fn after(time: Timestamp, length: Duration) -> Timestamp {
    let length = SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX);
    time.checked_add(length).unwrap_or(Timestamp::MAX)
}

/// A message that the schema takes.
fn cut(message: &str) -> String {
    message.chars().take(STEP_MESSAGE_MAX).collect()
}

#[cfg(test)]
mod tests;
