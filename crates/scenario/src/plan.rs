//! What comes next in a scenario. Pure: whoever stops between two calls goes on with the last status.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use nephele_api::cloud::v1alpha1::{FaultSpec, STEP_MESSAGE_MAX, ScenarioStatus, StepStatus};

use crate::script::{Action, Change, Script, Sight, Step};

/// How often something is looked for. A state that is shorter may not be seen.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long after its deadline a look still counts: a manager that has much to do looks late, but one that was away for
/// longer cannot say when it was met.
pub(crate) const LATE_MAX: Duration = Duration::from_secs(5);
/// How long an action may be refused for a reason that may pass, such as a busy API server.
const TRIES_MAX: Duration = Duration::from_secs(60);
/// How long it may take until a new Fault is in force.
const IN_FORCE_MAX: Duration = Duration::from_secs(30);

/// What was observed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Seen {
    /// The Faults of the scenario, and others with names of its Faults, by name.
    pub(crate) faults: BTreeMap<String, SeenFault>,
    /// What is known of the sights of steps, by the step's index.
    pub(crate) looks: BTreeMap<usize, Look>,
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
    CreateFault { name: String, spec: Box<FaultSpec> },
    DeleteFault { name: String },
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
}

/// Whether a scenario is over for this generation of its spec.
pub(crate) fn is_over(status: Option<&ScenarioStatus>, generation: i64) -> bool {
    status.is_some_and(|status| {
        status.observed_generation == Some(generation) && matches!(&*status.phase, "Passed" | "Failed")
    })
}

/// The sights that have to be looked for before [`plan`] is called, with the indices of their steps.
pub(crate) fn sights<'a>(
    script: &'a Script,
    generation: i64,
    status: Option<&ScenarioStatus>,
) -> Vec<(usize, &'a Sight)> {
    let current = status.filter(|status| status.observed_generation == Some(generation));
    let statuses = current.map(|status| status.steps.as_slice()).unwrap_or_default();
    let running = |index: &usize| statuses.get(*index).is_some_and(|status| status.phase == "Running");
    let steps = script.steps.iter().enumerate().filter(|(index, _)| running(index));
    steps
        .filter_map(|(index, step)| match &step.action {
            Action::Expect { sight, .. } | Action::Never { sight, .. } => Some((index, sight)),
            _ => None,
        })
        .collect()
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
        status: stored.filter(is_current).cloned().unwrap_or_else(|| unbegun(script, generation)),
        acts: Vec::new(),
        again: None,
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
    let stored = stored.filter(is_current).map(|status| status.steps.clone()).unwrap_or_default();
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
    /// It goes on, with this message, until this time at the latest.
    Waits {
        message: String,
        until: Timestamp,
    },
    /// Something is to be done.
    Acts(Deed),
}

impl Plan {
    /// Follows the steps. False when all have passed, or one has failed.
    fn follow(&mut self, script: &Script, stored: &[StepStatus], seen: &Seen, now: Timestamp) -> bool {
        let mut first = 0;
        while let Some(group) = script.steps.get(first).map(|step| step.group) {
            let length = script.steps[first..].iter().take_while(|step| step.group == group).count();
            let members = first..first + length;
            for index in members.clone() {
                self.follow_step(index, &script.steps[index], seen, now);
            }
            let statuses = &self.status.steps[members.clone()];
            if statuses.iter().any(|step| step.phase == "Failed") {
                self.skip_rest();
                return false;
            }
            if statuses.iter().any(|step| step.phase != "Passed") {
                self.end_faults(script, stored, seen, now);
                return true;
            }
            first = members.end;
        }
        false
    }

    fn follow_step(&mut self, index: usize, step: &Step, seen: &Seen, now: Timestamp) {
        let status = &mut self.status.steps[index];
        if status.phase == "Pending" {
            status.phase = "Running".to_owned();
            status.started = Some(MicroTime(now));
            // Its status has to be stored before anything is done.
            self.look_again(Duration::ZERO);
            return;
        }
        if status.phase != "Running" {
            return;
        }
        let started = status.started.as_ref().map_or(now, |started| started.0);
        match verdict(&step.action, started, seen.looks.get(&index), seen, now) {
            Verdict::Passed(message) => self.end(index, "Passed", &message, now),
            Verdict::Failed(message) => self.end(index, "Failed", &message, now),
            Verdict::Waits { message, until } => {
                status.message = cut(&message);
                let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                let at_most =
                    if matches!(step.action, Action::Pause(_)) { Duration::MAX } else { LOOK_EVERY };
                self.look_again(left.min(at_most));
            }
            Verdict::Acts(deed) => {
                self.acts.push(Act { step: Some(index), deed });
                self.look_again(LOOK_EVERY);
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
            let Action::Fault { name, lasts: Some(lasts), .. } = &step.action else { continue };
            let ours = seen.faults.get(name).is_some_and(|fault| fault.is_ours && !fault.is_going);
            let finished = stored.get(index).and_then(|step| step.finished.as_ref()).filter(|_| ours);
            let Some(finished) = finished else { continue };
            let end = after(finished.0, *lasts);
            if now >= end {
                self.acts.push(Act { step: None, deed: Deed::DeleteFault { name: name.clone() } });
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
        let deeds = staying.into_iter().map(|(name, _)| Deed::DeleteFault { name: name.clone() });
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
            (Ending::Done(_), Deed::CreateFault { .. } | Deed::DeleteFault { .. }) => {
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

fn verdict(action: &Action, started: Timestamp, look: Option<&Look>, seen: &Seen, now: Timestamp) -> Verdict {
    match action {
        Action::Expect { within, .. } => expected(look, after(started, *within), now),
        Action::Never { during, .. } => unwanted(look, after(started, *during), now),
        Action::Fault { name, spec, .. } => match seen.faults.get(name) {
            None => Verdict::Acts(Deed::CreateFault { name: name.clone(), spec: spec.clone() }),
            Some(fault) => in_force(name, fault, after(started, IN_FORCE_MAX), now),
        },
        Action::Heal { fault: name } => match seen.faults.get(name).filter(|fault| fault.is_ours) {
            Some(fault) if fault.is_going => {
                Verdict::Waits { message: format!("Fault {name} is being deleted"), until: Timestamp::MAX }
            }
            Some(_) => Verdict::Acts(Deed::DeleteFault { name: name.clone() }),
            None => Verdict::Passed(format!("Fault {name} is gone")),
        },
        Action::Change(change) => Verdict::Acts(Deed::Change(change.clone())),
        Action::Pause(length) => {
            let until = after(started, *length);
            match now >= until {
                true => Verdict::Passed(String::new()),
                false => Verdict::Waits { message: String::new(), until },
            }
        }
        Action::Say(text) => Verdict::Acts(Deed::Say(text.clone())),
    }
}

fn expected(look: Option<&Look>, until: Timestamp, now: Timestamp) -> Verdict {
    match look {
        Some(Look::Met(message)) if now <= after(until, LATE_MAX) => Verdict::Passed(message.clone()),
        Some(Look::Met(message)) => {
            Verdict::Failed(format!("nobody looked before the time was over; now {message}"))
        }
        Some(Look::Refused(message)) => Verdict::Failed(message.clone()),
        Some(Look::NotMet(message) | Look::Unclear(message)) if now >= until => {
            Verdict::Failed(message.clone())
        }
        Some(Look::NotMet(message) | Look::Unclear(message)) => {
            Verdict::Waits { message: message.clone(), until }
        }
        None => Verdict::Waits { message: String::new(), until },
    }
}

fn unwanted(look: Option<&Look>, until: Timestamp, now: Timestamp) -> Verdict {
    match look {
        Some(Look::Met(message) | Look::Refused(message)) => Verdict::Failed(message.clone()),
        Some(Look::NotMet(message)) if now >= until => Verdict::Passed(message.clone()),
        Some(Look::Unclear(message)) if now >= until => Verdict::Failed(message.clone()),
        Some(Look::NotMet(message) | Look::Unclear(message)) => {
            Verdict::Waits { message: message.clone(), until }
        }
        None => Verdict::Waits { message: String::new(), until },
    }
}

fn in_force(name: &str, fault: &SeenFault, until: Timestamp, now: Timestamp) -> Verdict {
    if !fault.is_ours {
        return Verdict::Failed(format!("there is a Fault {name} that is not of this scenario; delete it"));
    }
    match fault.phase.as_str() {
        "" if now >= until => Verdict::Failed(format!("Fault {name} was not in force in time")),
        "" => Verdict::Waits { message: format!("Fault {name} is not in force yet"), until },
        "Invalid" => Verdict::Failed(format!("Fault {name} is invalid: {}", fault.message)),
        _ => Verdict::Passed(format!("Fault {name} is in force")),
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
