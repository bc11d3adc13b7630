//! All steps of a spec in one list, with those of each branch and each round. Pure.
//!
//! ```text
//!  up ─▶ zones (parallel) ─┬─▶ a: fault ─▶ heal ──────────────┬─▶ down
//!                          └─▶ b (forEach x, y): x ─▶ y ──────┘
//!
//!  up, zones/a/fault, zones/a/heal, zones/b/x/step-1, zones/b/y/step-1, down
//! ```

use nephele_api::cloud::v1alpha1::{
    BRANCHES_MAX, Branch, INNER_STEPS_MAX, InnerStep, STEP_NAME_MAX, STEPS_MAX, ScenarioSpec, ScenarioStep,
    StepAction,
};
use serde::Serialize;

use crate::{
    mistake::{Mistake, Valid, mistake},
    variables::Round,
};

/// How long the steps may be as JSON, with those of each branch and each round. They are kept while the scenario runs. An object
/// can have 1.5 MiB, and rounds can make a hundred times as much of that.
pub(crate) const TEXTS_MAX: usize = 1024 * 1024;

/// A step of the list.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FlatStep {
    /// Its name in the status, such as `zones/b/x/step-1`.
    pub(crate) name: String,
    /// Its field in the spec, such as `steps[1].parallel[1].steps[0]`.
    pub(crate) field: String,
    /// The indices of the steps that have to pass before it begins.
    pub(crate) after: Vec<usize>,
    /// Whether other rounds have the same step.
    pub(crate) is_repeated: bool,
    /// Its action, with the variables replaced.
    pub(crate) action: StepAction,
}

/// The steps of a spec in the order of the status: a step comes after all those before which it cannot begin.
///
/// # Errors
/// When the spec has a structure that the schema refuses, or has too many steps. Actions are not checked.
pub(crate) fn expanded(spec: &ScenarioSpec) -> Valid<Vec<FlatStep>> {
    let count: usize = spec
        .steps
        .iter()
        .map(count)
        .fold(0, usize::saturating_add)
        .max(spec.steps.len());
    if spec.steps.is_empty() || count > STEPS_MAX {
        let message =
            format!("must be 1 to {STEPS_MAX} steps, with those of each branch and each round, not {count}");
        return Err(mistake("steps", message));
    }
    if spec.steps.iter().map(bytes).fold(0, usize::saturating_add) > TEXTS_MAX {
        return Err(too_many_texts());
    }
    let mut list = List {
        steps: Vec::with_capacity(count),
    };
    let mut after = Vec::new();
    for (index, step) in spec.steps.iter().enumerate() {
        let field = format!("steps[{index}]");
        let name = named(&step.name, "step", index);
        after = list.add(&field, name, after, step)?;
    }
    Ok(list.steps)
}

pub(crate) fn too_many_texts() -> Mistake {
    let message =
        format!("must have at most {TEXTS_MAX} bytes of texts, with those of each branch and each round");
    mistake("steps", message)
}

/// How many rounds a step or a branch has.
fn rounds(repeat: Option<i32>, values: &[String]) -> usize {
    match repeat {
        Some(times) => usize::try_from(times).unwrap_or(0),
        None => values.len().max(1),
    }
}

/// How many bytes the steps of the list have that a step makes, before their variables are replaced.
fn bytes(step: &ScenarioStep) -> usize {
    let of_steps = |repeat: Option<i32>, values: &[String], steps: &[InnerStep]| {
        let once = steps.iter().map(written_bytes).fold(0, usize::saturating_add);
        once.saturating_mul(rounds(repeat, values))
    };
    let branches = step
        .parallel
        .iter()
        .map(|branch| of_steps(branch.repeat, &branch.for_each, &branch.steps));
    let looped = of_steps(step.repeat, &step.for_each, &step.steps);
    branches
        .fold(looped, usize::saturating_add)
        .saturating_add(written_bytes(&step.action))
}

/// How long a value is as JSON, in bytes; more than allowed if it cannot be written.
pub(crate) fn written_bytes(value: &impl Serialize) -> usize {
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).map_or(usize::MAX, |()| counter.0)
}

/// Counts what is written to it.
struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// How many steps of the list a step makes.
fn count(step: &ScenarioStep) -> usize {
    let branches = step.parallel.iter().map(|branch| {
        branch
            .steps
            .len()
            .saturating_mul(rounds(branch.repeat, &branch.for_each))
    });
    let looped = step
        .steps
        .len()
        .saturating_mul(rounds(step.repeat, &step.for_each));
    branches.fold(looped, usize::saturating_add).max(1)
}

/// A name, or the default one of this index.
fn named(name: &str, kind: &str, index: usize) -> String {
    if name.is_empty() {
        format!("{kind}-{}", index.saturating_add(1))
    } else {
        name.to_owned()
    }
}

struct List {
    steps: Vec<FlatStep>,
}

impl List {
    /// Adds a step, and returns the indices of the steps that have to pass before the next one begins.
    fn add(
        &mut self,
        field: &str,
        name: String,
        after: Vec<usize>,
        step: &ScenarioStep,
    ) -> Valid<Vec<usize>> {
        let ScenarioStep {
            name: _,
            action,
            parallel,
            repeat,
            for_each,
            steps,
        } = step;
        let has_action = *action != StepAction::default();
        let given = [has_action, !parallel.is_empty(), !steps.is_empty()];
        if given.into_iter().filter(|given| *given).count() > 1 {
            return Err(mistake(
                field,
                "must have only one of an action, parallel and steps",
            ));
        }
        if steps.is_empty() && (repeat.is_some() || !for_each.is_empty()) {
            return Err(mistake(
                format!("{field}.steps"),
                "must be the steps to run several times",
            ));
        }
        if !parallel.is_empty() {
            return self.add_branches(field, &name, &after, parallel);
        }
        if steps.is_empty() {
            return Ok(self.push(FlatStep {
                name,
                field: field.to_owned(),
                after,
                is_repeated: false,
                action: action.clone(),
            }));
        }
        if repeat.is_none() && for_each.is_empty() {
            return Err(mistake(field, "must have repeat or forEach with steps"));
        }
        self.add_rounds(field, &name, after, (*repeat, for_each), steps)
    }

    fn add_branches(
        &mut self,
        field: &str,
        name: &str,
        after: &[usize],
        branches: &[Branch],
    ) -> Valid<Vec<usize>> {
        if !(2..=BRANCHES_MAX).contains(&branches.len()) {
            let message = format!("must be 2 to {BRANCHES_MAX} branches, not {}", branches.len());
            return Err(mistake(format!("{field}.parallel"), message));
        }
        let mut ends = Vec::new();
        let mut names = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            let Branch {
                name: given,
                repeat,
                for_each,
                steps,
            } = branch;
            let field = format!("{field}.parallel[{index}]");
            let called = named(given, "branch", index);
            if names.contains(&called) {
                let message = format!("{called:?} must be another name; an earlier branch has this one");
                return Err(mistake(format!("{field}.name"), message));
            }
            let path = format!("{name}/{called}");
            ends.extend(self.add_rounds(&field, &path, after.to_vec(), (*repeat, for_each), steps)?);
            names.push(called);
        }
        Ok(ends)
    }

    /// Adds the steps once, or once for each round.
    fn add_rounds(
        &mut self,
        field: &str,
        name: &str,
        mut after: Vec<usize>,
        (repeat, values): (Option<i32>, &[String]),
        steps: &[InnerStep],
    ) -> Valid<Vec<usize>> {
        if !(1..=INNER_STEPS_MAX).contains(&steps.len()) {
            let message = format!("must be 1 to {INNER_STEPS_MAX} steps, not {}", steps.len());
            return Err(mistake(format!("{field}.steps"), message));
        }
        match (repeat, values) {
            (Some(_), [_, ..]) => return Err(mistake(field, "must have only one of repeat and forEach")),
            (None, []) => return self.add_inner(field, name, after, None, steps),
            (None, values) => {
                for (index, item) in values.iter().enumerate() {
                    if values[..index].contains(item) {
                        let message = format!("{item:?} must be another value; an earlier one is the same");
                        return Err(mistake(format!("{field}.forEach[{index}]"), message));
                    }
                    let round = Round {
                        index: index.saturating_add(1),
                        item: Some(item),
                    };
                    after = self.add_inner(field, &format!("{name}/{item}"), after, Some(round), steps)?;
                }
            }
            (Some(times), []) => {
                let rounds = usize::try_from(times).ok().filter(|times| *times > 0);
                let Some(rounds) = rounds else {
                    return Err(mistake(
                        format!("{field}.repeat"),
                        format!("{times} must be 1 or more"),
                    ));
                };
                for index in 1..=rounds {
                    let round = Round { index, item: None };
                    after = self.add_inner(field, &format!("{name}/{index}"), after, Some(round), steps)?;
                }
            }
        }
        Ok(after)
    }

    fn add_inner(
        &mut self,
        field: &str,
        path: &str,
        mut after: Vec<usize>,
        round: Option<Round<'_>>,
        steps: &[InnerStep],
    ) -> Valid<Vec<usize>> {
        for (index, step) in steps.iter().enumerate() {
            let field = format!("{field}.steps[{index}]");
            let InnerStep { name, action } = match round {
                Some(round) => of_round(&field, round, step)?,
                None => step.clone(),
            };
            let name = format!("{path}/{}", named(&name, "step", index));
            after = self.push(FlatStep {
                name: name.chars().take(STEP_NAME_MAX).collect(),
                field,
                after,
                is_repeated: round.is_some(),
                action,
            });
        }
        Ok(after)
    }

    fn push(&mut self, step: FlatStep) -> Vec<usize> {
        let index = self.steps.len();
        self.steps.push(step);
        vec![index]
    }
}

/// A step with the variables of a round replaced.
fn of_round(field: &str, round: Round<'_>, step: &InnerStep) -> Valid<InnerStep> {
    let unreadable = |error: serde_json::Error| mistake(field, format!("must be a step: {error}"));
    let mut value = serde_json::to_value(step).map_err(unreadable)?;
    round.replace_in(&mut value);
    serde_json::from_value(value).map_err(unreadable)
}

/// The action of each step of the status, such as `wait`, by the index of the step. Empty when the spec is invalid.
#[must_use]
pub fn actions(spec: &ScenarioSpec) -> Vec<&'static str> {
    let steps = expanded(spec).unwrap_or_default();
    steps.iter().map(|step| word(&step.action)).collect()
}

/// The field of an action that is set. Empty if none is.
fn word(action: &StepAction) -> &'static str {
    let StepAction {
        wait,
        expect,
        never,
        fault,
        heal,
        clock,
        scale,
        upgrade,
        apply,
        delete,
        pause,
        say,
    } = action;
    let words = [
        ("wait", wait.is_some()),
        ("expect", expect.is_some()),
        ("never", never.is_some()),
        ("fault", fault.is_some()),
        ("heal", heal.is_some()),
        ("clock", clock.is_some()),
        ("scale", scale.is_some()),
        ("upgrade", upgrade.is_some()),
        ("apply", apply.is_some()),
        ("delete", delete.is_some()),
        ("pause", !pause.is_empty()),
        ("say", !say.is_empty()),
    ];
    let set = words.into_iter().find(|(_, is_set)| *is_set);
    set.map(|(word, _)| word).unwrap_or_default()
}

#[cfg(test)]
mod tests;
