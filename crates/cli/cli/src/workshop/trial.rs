//! The trial of a Scenario that a person has written: it has passed, and a copy of it fails while the cloud is broken again.
//!
//! ```text
//!  passed? ─▶ Scenario `workshop-N-break` ─▶ copy `workshop-N-trial`, which has to fail ─▶ Scenario `workshop-N-mend`
//! ```

use kube::ResourceExt as _;
use nephele_api::cloud::{WORKSHOP_LABEL, v1alpha1::Scenario};
use nephele_scenario_library::workshop::Trial;

use super::{chapter::scenario, run::Run};
use crate::{exit::Problem, output::print, scenario::failure};

/// What came of a trial.
pub(super) enum Verdict {
    Interrupted,
    /// The Scenario does not do what it should, for this reason.
    Missing(String),
    Proved,
}

/// Tries the Scenario of a person in a chapter of this number.
pub(super) async fn prove(number: usize, trial: &Trial, run: &Run<'_>) -> anyhow::Result<Verdict> {
    let Trial {
        scenario: name,
        breaks,
        mends,
    } = trial;
    let written = run.api.get_opt(name).await.map_err(|error| {
        let what = format!("read Scenario {}/{name}", run.namespace);
        Problem::request(&what, "get scenarios.cloud.nephele.dev", error)
    })?;
    let Some(written) = written else {
        let why = format!("there is no Scenario {name} in namespace {}", run.namespace);
        return Ok(Verdict::Missing(why));
    };
    if let Some(why) = not_passed(&written) {
        return Ok(Verdict::Missing(why));
    }
    print(&format!(
        "The cloud is broken again, and a copy of your Scenario {name} has to fail\n"
    ))?;
    let Some(broken) = run.followed(&scenario(breaks)?).await? else {
        return Ok(Verdict::Interrupted);
    };
    if let Some(why) = failure(&broken) {
        return Ok(Verdict::Missing(why));
    }
    // When this is interrupted, the cloud stays broken, and the next check says so.
    let Some(tried) = run.followed(&copy(&written, number)).await? else {
        return Ok(Verdict::Interrupted);
    };
    let Some(mended) = run.followed(&scenario(mends)?).await? else {
        return Ok(Verdict::Interrupted);
    };
    Ok(match (failure(&tried), failure(&mended)) {
        (Some(_), None) => Verdict::Proved,
        (_, Some(why)) => Verdict::Missing(why),
        (None, None) => Verdict::Missing(format!(
            "a copy of Scenario {name} passed in a broken cloud, so it proves nothing; let it take a worker away and bring it \
             back, and then expect what the task says"
        )),
    })
}

/// Why a Scenario does not count as passed, if it does not.
fn not_passed(written: &Scenario) -> Option<String> {
    let name = written.name_any();
    let status = written.status.as_ref();
    let phase = status.map_or("", |status| status.phase.as_str());
    match phase {
        "Passed" => None,
        "" => Some(format!("Scenario {name} has not run yet")),
        phase => Some(format!(
            "Scenario {name} is {phase}, not Passed; `nephele scenario rerun {name}` runs it again"
        )),
    }
}

/// The same steps under another name, with the label of the chapter.
fn copy(written: &Scenario, number: usize) -> Scenario {
    let mut copy = Scenario::new(&format!("workshop-{number}-trial"), written.spec.clone());
    copy.labels_mut()
        .insert(WORKSHOP_LABEL.to_owned(), number.to_string());
    copy
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(status: &Value) -> Scenario {
        let object = json!({
            "metadata": { "name": "regression", "annotations": { "a": "b" } },
            "spec": { "steps": [{ "say": "Hello." }] },
            "status": status,
        });
        serde_json::from_value(object).expect("a Scenario")
    }

    #[test]
    fn only_a_scenario_that_has_passed_is_tried() {
        let phases = ["Passed", "Failed", ""].map(|phase| not_passed(&written(&json!({ "phase": phase }))));
        assert_eq!(
            phases,
            [
                None,
                Some(
                    "Scenario regression is Failed, not Passed; `nephele scenario rerun regression` runs it again"
                        .to_owned()
                ),
                Some("Scenario regression has not run yet".to_owned()),
            ]
        );
        assert_eq!(not_passed(&written(&Value::Null)), phases[2]);
    }

    #[test]
    fn a_copy_has_the_steps_and_is_cleared_with_its_chapter() {
        let copy = serde_json::to_value(copy(&written(&json!({ "phase": "Passed" })), 8)).expect("JSON");
        assert_eq!(
            copy,
            json!({
                "apiVersion": "cloud.nephele.dev/v1alpha1",
                "kind": "Scenario",
                "metadata": { "name": "workshop-8-trial", "labels": { WORKSHOP_LABEL: "8" } },
                "spec": { "steps": [{ "say": "Hello." }] },
            })
        );
    }
}
