//! `nephele scenario report`: the steps of a Scenario.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use kube::{Api, ResourceExt as _};
use nephele_api::cloud::v1alpha1::{Scenario, StepStatus};
use nephele_scenario::actions;

use super::follow::{looked, seconds, took};
use crate::{access::AccessArgs, columns::columns, exit::Problem, output::print};

/// Which scenario, and how it is printed.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The name of the Scenario.
    name: String,
    #[command(flatten)]
    access: AccessArgs,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Yaml,
    /// XML for continuous integration.
    Junit,
}

/// Prints the report.
pub(super) async fn run(args: ReportArgs) -> anyhow::Result<ExitCode> {
    let ReportArgs { name, access, output } = args;
    let access = access.open().await?;
    let api: Api<Scenario> = Api::namespaced(access.client, &access.namespace);
    let read = api.get(&name).await;
    let scenario = read.map_err(|error| {
        let what = format!("read Scenario {}/{name}", access.namespace);
        Problem::request(&what, "get scenarios.cloud.nephele.dev", error)
    })?;
    print(&render(&scenario, output)?)?;
    Ok(ExitCode::SUCCESS)
}

fn render(scenario: &Scenario, format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Table => table(scenario),
        Format::Json => {
            let text = serde_json::to_string_pretty(scenario).context("failed to write the Scenario")?;
            format!("{text}\n")
        }
        Format::Yaml => serde_yaml_ng::to_string(scenario).context("failed to write the Scenario")?,
        Format::Junit => junit(scenario),
    })
}

fn table(scenario: &Scenario) -> String {
    let status = scenario.status.clone().unwrap_or_default();
    let phase = if status.phase.is_empty() {
        "Pending"
    } else {
        status.phase.as_str()
    };
    let message = status
        .conditions
        .first()
        .map(|condition| condition.message.clone())
        .unwrap_or_default();
    let mut text = format!("Scenario {}: {phase}", scenario.name_any());
    if status.steps.is_empty() && !message.is_empty() {
        text.push_str(&format!(": {message}"));
    }
    text.push('\n');
    if !status.steps.is_empty() {
        let header = ["STEP", "PHASE", "TOOK", "LOOKED AT", "MESSAGE"]
            .map(str::to_owned)
            .to_vec();
        let row = |step: &StepStatus| {
            let name = step.name.clone();
            let phase = step.phase.clone();
            let message = step.message.clone();
            vec![name, phase, took(step), looked(step), message]
        };
        let rows: Vec<_> = std::iter::once(header)
            .chain(status.steps.iter().map(row))
            .collect();
        text.push_str(&columns(&rows));
    }
    text
}

/// The steps as test cases. A step that looks for what the scenario checks fails; any other one has an error.
pub(super) fn junit(scenario: &Scenario) -> String {
    let status = scenario.status.clone().unwrap_or_default();
    let name = escaped(&scenario.name_any());
    let mut cases = String::new();
    let mut failures = 0;
    let mut errors = 0;
    let mut skipped = 0;
    let actions = actions(&scenario.spec);
    for (index, step) in status.steps.iter().enumerate() {
        let message = escaped(&step.message);
        let content = match step.phase.as_str() {
            "Passed" => format!("<system-out>{message}</system-out>"),
            "Failed" if matches!(actions.get(index), Some(&("expect" | "never"))) => {
                failures += 1;
                format!("<failure message=\"{message}\"/>")
            }
            "Failed" => {
                errors += 1;
                format!("<error message=\"{message}\"/>")
            }
            _ => {
                skipped += 1;
                "<skipped/>".to_owned()
            }
        };
        let looked = step.looked.as_ref().map(|looked| {
            let looked = looked.0;
            format!("<properties><property name=\"looked\" value=\"{looked:.3}\"/></properties>")
        });
        cases.push_str(&format!(
            "  <testcase classname=\"{name}\" name=\"{}\" time=\"{:.3}\">{}{content}</testcase>\n",
            escaped(&step.name),
            seconds(step).unwrap_or_default(),
            looked.unwrap_or_default(),
        ));
    }
    let mut tests = status.steps.len();
    if status.steps.is_empty() && status.phase == "Failed" {
        // Its spec is invalid, so it has no steps.
        let message = status
            .conditions
            .first()
            .map(|condition| escaped(&condition.message));
        (tests, errors) = (1, 1);
        cases = format!(
            "  <testcase classname=\"{name}\" name=\"spec\" time=\"0.000\"><error message=\"{}\"/></testcase>\n",
            message.unwrap_or_default()
        );
    }
    let time: f64 = status.steps.iter().filter_map(seconds).sum();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" \
         errors=\"{errors}\" skipped=\"{skipped}\" time=\"{time:.3}\">\n{cases}</testsuite>\n"
    )
}

/// Text as XML has it. Control characters, which it cannot have, become spaces.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            character if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => {
                escaped.push(' ');
            }
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn scenario(steps: &Value, status: &Value) -> Scenario {
        let object = json!({ "metadata": { "name": "zone" }, "spec": { "steps": steps }, "status": status });
        serde_json::from_value(object).expect("a Scenario")
    }

    fn failed() -> Scenario {
        let at = |second: u32| format!("2026-03-04T05:06:{second:02}.000000Z");
        let sight = json!({ "cluster": "demo", "condition": "Available", "within": "1s" });
        scenario(
            &json!([{ "name": "up", "wait": sight }, { "expect": sight }, { "say": "done" }]),
            &json!({ "phase": "Failed", "steps": [
                { "name": "up", "phase": "Passed", "started": at(0), "finished": at(3), "looked": at(3), "message": "it is True" },
                { "name": "step-2", "phase": "Failed", "started": at(3), "finished": at(4), "looked": at(4), "message": "it is <\"False\"> & more" },
                { "name": "step-3", "phase": "Skipped" },
            ] }),
        )
    }

    #[test]
    fn a_table_has_a_line_for_each_step() {
        assert_eq!(
            render(&failed(), Format::Table).expect("text"),
            "\
Scenario zone: Failed
STEP     PHASE     TOOK   LOOKED AT   MESSAGE
up       Passed    3.0s   3.0s        it is True
step-2   Failed    1.0s   1.0s        it is <\"False\"> & more
step-3   Skipped   -      -
"
        );
        assert_eq!(
            render(&scenario(&json!([]), &Value::Null), Format::Table).expect("text"),
            "Scenario zone: Pending\n"
        );
    }

    #[test]
    fn junit_tells_what_was_claimed_from_what_was_needed() {
        assert_eq!(
            render(&failed(), Format::Junit).expect("text"),
            "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuite name=\"zone\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"4.000\">
  <testcase classname=\"zone\" name=\"up\" time=\"3.000\"><properties><property name=\"looked\" value=\"2026-03-04T05:06:03.000Z\"/></properties><system-out>it is True</system-out></testcase>
  <testcase classname=\"zone\" name=\"step-2\" time=\"1.000\"><properties><property name=\"looked\" value=\"2026-03-04T05:06:04.000Z\"/></properties><failure message=\"it is &lt;&quot;False&quot;&gt; &amp; more\"/></testcase>
  <testcase classname=\"zone\" name=\"step-3\" time=\"0.000\"><skipped/></testcase>
</testsuite>
"
        );
        let mut needed = failed();
        let action = &mut needed.spec.steps[1].action;
        action.wait = action.expect.take();
        assert!(junit(&needed).contains("failures=\"0\" errors=\"1\""));
        let condition = json!({ "type": "Passed", "status": "False", "reason": "InvalidConfiguration",
            "message": "spec.steps: must be 1", "lastTransitionTime": "2026-03-04T05:06:07Z" });
        let invalid = scenario(
            &json!([]),
            &json!({ "phase": "Failed", "conditions": [condition] }),
        );
        assert!(junit(&invalid).contains("<error message=\"spec.steps: must be 1\"/>"));
        assert_eq!(table(&invalid), "Scenario zone: Failed: spec.steps: must be 1\n");
    }

    #[test]
    fn each_step_of_each_round_has_its_own_line() {
        let sight = json!({ "cluster": "demo", "condition": "Available", "within": "1s" });
        let step = |name: &str, phase: &str, message: &str| json!({ "name": name, "phase": phase, "message": message });
        let scenario = scenario(
            &json!([{ "name": "each", "forEach": ["a", "b"], "steps": [{ "say": "$(item)" }, { "expect": sight }] }]),
            &json!({ "phase": "Failed", "steps": [
                step("each/a/step-1", "Passed", "a"), step("each/a/step-2", "Failed", "it is False"),
                step("each/b/step-1", "Skipped", ""), step("each/b/step-2", "Skipped", ""),
            ] }),
        );
        assert_eq!(
            table(&scenario),
            "\
Scenario zone: Failed
STEP            PHASE     TOOK   LOOKED AT   MESSAGE
each/a/step-1   Passed    -      -           a
each/a/step-2   Failed    -      -           it is False
each/b/step-1   Skipped   -      -
each/b/step-2   Skipped   -      -
"
        );
        let junit = junit(&scenario);
        assert!(
            junit.contains("tests=\"4\" failures=\"1\" errors=\"0\" skipped=\"2\""),
            "{junit}"
        );
        assert!(
            junit.contains("name=\"each/a/step-2\" time=\"0.000\"><failure message=\"it is False\"/>"),
            "{junit}"
        );
    }

    #[test]
    fn other_formats_have_the_object() {
        let json: Value =
            serde_json::from_str(&render(&failed(), Format::Json).expect("text")).expect("JSON");
        let yaml: Value =
            serde_yaml_ng::from_str(&render(&failed(), Format::Yaml).expect("text")).expect("YAML");
        assert_eq!((&json["status"]["phase"], &json), (&json!("Failed"), &yaml));
    }
}
