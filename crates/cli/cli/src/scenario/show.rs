//! `nephele scenario show`: an entry of the library, for people or as YAML.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use nephele_scenario_library::{Entry, Needs};
use serde_json::Value;

use super::{
    library::entry,
    list::short,
    needs::{documents, named},
};
use crate::output::print;

pub(super) const AFTER_HELP: &str = "\
Examples:
  nephele scenario show quota
  nephele scenario show quota -o yaml | kubectl apply -f -
A cluster with a topology needs its ClusterClass, too: `nephele scenario run quota --make-cluster` creates it, and \
`nephele template topology` prints it.";

/// The most characters of what a step does.
const STEP_MAX: usize = 90;

/// Which scenario, and how it is printed.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The name of a scenario of the library.
    name: String,
    /// How to print it.
    #[arg(long, short, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    /// The cluster that it needs, and the Scenario.
    Yaml,
}

/// Prints the entry.
pub(super) fn run(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let entry = entry(&args.name)?;
    print(&match args.output {
        Format::Text => text(&entry),
        Format::Yaml => entry.yaml,
    })?;
    Ok(ExitCode::SUCCESS)
}

fn text(entry: &Entry) -> String {
    let Entry {
        name,
        about,
        story,
        needs,
        cluster,
        scenario,
        yaml: _,
    } = entry;
    let needs = match needs {
        Needs::Up => "`nephele up`, or a management cluster with Cluster API".to_owned(),
        Needs::ClusterApi(needed) => {
            format!("Cluster API itself, as `nephele up --cluster-api` gives it: {needed}")
        }
    };
    let objects: Vec<_> = cluster.iter().map(object).collect();
    let after = about.after;
    let mut text = format!(
        "{name}: {}\n\n{story}\n\nNeeds     {needs}\nCluster   {}\nTakes     about {}\nLeaves    {}\n\nSteps\n",
        about.shows,
        objects.join("\n          "),
        short(about.takes),
        machines(after.control_plane.into(), after.workers.into()),
    );
    steps(&scenario["spec"]["steps"], 1, &mut text);
    text.push_str(&format!(
        "\nRun it with `nephele scenario run {name} --make-cluster`\n"
    ));
    text
}

/// An object of a cluster in a line, with the shape of a topology.
fn object(object: &Value) -> String {
    let (kind, name) = named(object);
    let topology = &object["spec"]["topology"];
    let Some(version) = topology["version"].as_str() else {
        return format!("{kind} {name}");
    };
    let groups = topology["workers"]["machineDeployments"].as_array();
    let count = |group: &Value| group["replicas"].as_u64().unwrap_or(1);
    let workers = groups.into_iter().flatten().map(count).sum();
    let machines = machines(count(&topology["controlPlane"]), workers);
    format!("{kind} {name} with a topology, {version}, {machines}")
}

fn machines(control_plane: u64, workers: u64) -> String {
    let of = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "{} and {}",
        of(control_plane, "control plane machine"),
        of(workers, "worker")
    )
}

/// The steps, one in a line; those of branches and rounds are below theirs. They are nested no deeper than a Scenario can be.
fn steps(list: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for (index, step) in list.as_array().into_iter().flatten().enumerate() {
        let name = step["name"]
            .as_str()
            .map_or_else(|| format!("step-{}", index + 1), str::to_owned);
        text.push_str(&format!("{indent}{name}: {}\n", action(step)));
        for branch in step["parallel"].as_array().into_iter().flatten() {
            let name = branch["name"].as_str().unwrap_or("branch");
            text.push_str(&format!("{indent}  {name}{}\n", rounds(branch)));
            steps(&branch["steps"], depth + 2, text);
        }
        steps(&step["steps"], depth + 1, text);
    }
}

/// What a step does.
fn action(step: &Value) -> String {
    let fields = step.as_object().into_iter().flatten();
    let other = |name: &str| ["name", "steps", "forEach", "repeat"].contains(&name);
    let action = fields.into_iter().find(|(name, _)| !other(name));
    let told = match action {
        None => format!("rounds{}", rounds(step)),
        Some((name, _)) if name == "parallel" => "at the same time".to_owned(),
        Some((name, value)) if name == "apply" => {
            let manifests = value["manifests"].as_str().unwrap_or_default();
            let objects = documents(manifests).into_iter().map(|object| {
                let (kind, name) = named(&object);
                format!("{kind} {name} {}", flow(&object["spec"]))
            });
            format!("{name} {}", objects.collect::<Vec<_>>().join(", "))
        }
        Some((name, value)) => format!("{name} {}", flow(value)),
    };
    match told.char_indices().nth(STEP_MAX) {
        Some((end, _)) => format!("{}…", told.split_at(end).0),
        None => told,
    }
}

fn rounds(step: &Value) -> String {
    match (&step["forEach"], &step["repeat"]) {
        (Value::Array(_), _) => format!(" for each of {}", flow(&step["forEach"])),
        (_, Value::Number(times)) => format!(" {times} times"),
        _ => String::new(),
    }
}

/// A value as YAML in a line, without the quotes of strings.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{name}: {}", flow(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Null => "{}".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use nephele_scenario_library as library;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_is_told_with_its_cluster_and_steps() {
        let entry = library::find("quota").expect("readable").expect("an entry");
        let text = text(&entry);
        for expected in [
            "quota: Workers wait for a quota until it is raised.\n\nA Cluster `demo` with",
            "Cluster   Cluster demo with a topology, v1.36.3, 1 control plane machine and 1 worker\n",
            "Leaves    1 control plane machine and 3 workers\n",
            "\n  cluster-is-up: wait {cluster: demo, condition: Available, within: 10m}\n",
            "\n  quota-of-two: apply SimulatedCloud default {quotas: {instances: 2}}\n",
            "\n  step-3: scale {",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    #[test]
    fn steps_of_branches_and_rounds_are_below_theirs() {
        let mut text = String::new();
        let inner = json!([{ "pause": "1s" }]);
        let branches = json!([
            { "name": "lose", "forEach": ["a", "b"], "steps": inner }, { "repeat": 2, "steps": inner },
        ]);
        let all = json!([{ "name": "both", "parallel": branches }, { "forEach": ["c"], "steps": inner }]);
        steps(&all, 1, &mut text);
        assert_eq!(
            text,
            "  both: at the same time\n    lose for each of [a, b]\n      step-1: pause 1s\n    branch 2 times\n      \
             step-1: pause 1s\n  step-2: rounds for each of [c]\n    step-1: pause 1s\n"
        );
    }

    #[test]
    fn yaml_has_every_object_of_every_entry() {
        for entry in library::all().expect("readable") {
            let read: Vec<_> = documents(&entry.yaml);
            assert_eq!(read.len(), entry.cluster.len() + 1, "{}", entry.name);
            assert_eq!(read.last(), Some(&entry.scenario));
        }
    }
}
