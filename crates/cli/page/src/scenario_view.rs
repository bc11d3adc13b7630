//! A Scenario, as a line beside the grid and in the Drawer. Pure.

use jiff::SignedDuration;
use nephele_api::cloud::v1alpha1::{Scenario, StepStatus};
use nephele_scenario::actions;

/// The action of a step that tells the story.
const SAY: &str = "say";

/// A Scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioView {
    pub phase: String,
    /// How many of its steps are over, and how many it has.
    pub over: usize,
    pub steps: usize,
    /// The step that runs or has failed, and what it saw.
    pub step: String,
    pub message: String,
    /// What it said last, while it runs.
    pub said: String,
    /// It changes when a detail changes that the line does not show.
    pub revision: String,
}

impl ScenarioView {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let none = Vec::new();
        let status = scenario.status.as_ref();
        let steps = status.map_or(&none, |status| &status.steps);
        let phase = status.map(|status| status.phase.clone()).unwrap_or_default();
        let is_at = |step: &&StepStatus| matches!(step.phase.as_str(), "Running" | "Failed");
        let at = steps.iter().find(is_at);
        let said = steps
            .iter()
            .zip(actions(&scenario.spec))
            .rfind(|(step, action)| *action == SAY && step.phase == "Passed");
        Self {
            over: steps.iter().filter(|step| is_over(step)).count(),
            steps: steps.len(),
            step: at.map(|step| step.name.clone()).unwrap_or_default(),
            message: at.map(|step| step.message.clone()).unwrap_or_default(),
            said: said
                .filter(|_| phase == "Running")
                .map(|(step, _)| step.message.clone())
                .unwrap_or_default(),
            revision: scenario.metadata.resource_version.clone().unwrap_or_default(),
            phase,
        }
    }

    /// How far it is, in words.
    #[must_use]
    pub fn progress(&self) -> String {
        match self.steps {
            0 => String::new(),
            steps => format!("{} of {steps} steps", self.over),
        }
    }
}

/// Whether a run has ended.
pub(crate) fn has_ended(scenario: &Scenario) -> bool {
    let phase = scenario.status.as_ref().map(|status| status.phase.as_str());
    matches!(phase, Some("Passed" | "Failed"))
}

fn is_over(step: &StepStatus) -> bool {
    matches!(step.phase.as_str(), "Passed" | "Failed" | "Skipped")
}

/// The steps as rows: name, action, phase, how long it took, and what it saw.
pub(crate) fn rows(scenario: &Scenario) -> Vec<Vec<String>> {
    let actions = actions(&scenario.spec);
    let steps = scenario.status.iter().flat_map(|status| &status.steps);
    let row = |(number, step): (usize, &StepStatus)| {
        let action = actions.get(number).copied().unwrap_or_default();
        vec![
            step.name.clone(),
            action.to_owned(),
            step.phase.clone(),
            took(step).unwrap_or_default(),
            step.message.clone(),
        ]
    };
    steps.enumerate().map(row).collect()
}

/// How long a step took.
fn took(step: &StepStatus) -> Option<String> {
    let started = step.started.as_ref()?;
    let finished = step.finished.as_ref()?;
    let took: SignedDuration = finished.0.duration_since(started.0);
    Some(format!("{:.1}s", took.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scenario(phase: &str) -> Scenario {
        let object = json!({
            "metadata": { "name": "s", "namespace": "n", "resourceVersion": "7" },
            "spec": { "steps": [
                { "say": "the zone dies" },
                { "name": "both", "parallel": [
                    { "name": "a", "steps": [{ "say": "it is silent" }, { "pause": "1m" }] },
                    { "name": "b", "steps": [{ "wait": { "cluster": "demo", "condition": "Available", "within": "1m" } }] },
                ] },
                { "say": "the end" },
            ] },
            "status": { "phase": phase, "steps": [
                { "name": "step-1", "phase": "Passed", "message": "the zone dies",
                  "started": "2026-03-04T05:06:07Z", "finished": "2026-03-04T05:06:08.5Z" },
                { "name": "both/a/step-1", "phase": "Passed", "message": "it is silent" },
                { "name": "both/a/step-2", "phase": "Running", "message": "until 05:07" },
                { "name": "both/b/step-1", "phase": "Running" },
                { "name": "step-3", "phase": "Pending" },
            ] },
        });
        serde_json::from_value(object).expect("a Scenario")
    }

    #[test]
    fn the_line_has_the_step_that_runs_and_its_last_words() {
        let view = ScenarioView::new(&scenario("Running"));
        let expected = ScenarioView {
            phase: "Running".to_owned(),
            over: 2,
            steps: 5,
            step: "both/a/step-2".to_owned(),
            message: "until 05:07".to_owned(),
            said: "it is silent".to_owned(),
            revision: "7".to_owned(),
        };
        assert_eq!(view, expected);
        assert_eq!(view.progress(), "2 of 5 steps");
        assert_eq!(
            ScenarioView::new(&scenario("Failed")).said,
            "",
            "the story is over"
        );
    }

    #[test]
    fn each_step_is_a_row_with_its_action() {
        let rows = rows(&scenario("Running"));
        assert_eq!(rows[0], ["step-1", "say", "Passed", "1.5s", "the zone dies"]);
        let actions: Vec<_> = rows.iter().map(|row| row[1].as_str()).collect();
        assert_eq!(actions, ["say", "say", "pause", "wait", "say"]);
    }
}
