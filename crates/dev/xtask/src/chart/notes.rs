//! Checks that the commands in the notes name what the chart renders.

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::{
    facts::Release,
    object::{find, of_kind, text},
};
use crate::dashboard;

/// What a user has. `nephele` is only mentioned.
const PROGRAMS: [&str; 3] = ["clusterctl", "kubectl", "helm"];
/// The indent of commands; their continuation lines have more.
const INDENT: &str = "     ";
/// The cluster that the commands create and reach.
const CLUSTER: &str = "demo";

/// The words of a command.
type Command<'a> = Vec<&'a str>;

/// Fails with the first command that does not fit the objects.
pub(super) fn check(notes: &str, objects: &[Value], release: &Release<'_>) -> anyhow::Result<()> {
    let joined = notes.replace("\\\n", " ");
    let commands = commands(&joined);
    ensure!(!commands.is_empty(), "no commands");
    let maps = of_kind(objects, "ConfigMap")
        .map(dashboard::is_rendered)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let templates = maps.into_iter().filter(|is_dashboard| !is_dashboard).count();
    let generate: Vec<_> = commands
        .iter()
        .filter(|words| words.contains(&"generate"))
        .collect();
    ensure!(
        generate.len() == templates,
        "{} clusters from {templates} ConfigMaps",
        generate.len()
    );
    let target = generate
        .first()
        .and_then(|words| flag(words, "--target-namespace"));
    for words in &commands {
        one(words, objects, release, target).with_context(|| words.join(" "))?;
    }
    Ok(())
}

fn one(
    words: &Command<'_>,
    objects: &[Value],
    release: &Release<'_>,
    target: Option<&str>,
) -> anyhow::Result<()> {
    let program = words.first().context("no program")?;
    ensure!(PROGRAMS.contains(program), "users may not have {program}");
    if words.contains(&"generate") {
        let wanted = |name: &str| flag(words, name).with_context(|| format!("no {name}"));
        let map = find(objects, &format!("ConfigMap/{}", wanted("--from-config-map")?))?;
        let namespace = wanted("--from-config-map-namespace")?;
        ensure!(
            text(map, "/metadata/namespace") == namespace,
            "the ConfigMap is not in {namespace}"
        );
        let key = wanted("--from-config-map-key")?;
        ensure!(map["data"].get(key).is_some(), "the ConfigMap has no {key}");
        ensure!(words.contains(&CLUSTER), "another cluster");
        return Ok(());
    }
    let namespace = flag(words, "--namespace");
    if let Some(name) = words.iter().find_map(|word| word.strip_prefix("deployment/")) {
        let deployment = find(objects, &format!("Deployment/{name}"))?;
        let at = Some(text(deployment, "/metadata/namespace"));
        ensure!(namespace == at, "the Deployment is not in {namespace:?}");
    } else if words
        .iter()
        .any(|word| word.trim_start_matches("cluster/") == CLUSTER)
    {
        ensure!(namespace == target, "the cluster is not in {namespace:?}");
    } else if *program == "helm" {
        ensure!(words.contains(&release.name), "another release");
        ensure!(
            namespace == Some(release.namespace),
            "the release is not in {namespace:?}"
        );
    } else if words.contains(&"secret") {
        ensure!(
            namespace == Some(release.namespace),
            "the Secret is not in {namespace:?}"
        );
    } else if namespace.is_some() {
        bail!("a namespace that nothing is compared with");
    }
    Ok(())
}

/// The commands of the notes, with those that are part of others: behind a pipe, or between `$(` and `)`.
fn commands(notes: &str) -> Vec<Command<'_>> {
    notes
        .lines()
        .filter_map(|line| line.strip_prefix(INDENT))
        .flat_map(|line| line.split([')', '|']))
        .flat_map(|part| part.split("$("))
        .map(|part| part.split_whitespace().collect::<Command<'_>>())
        .filter(|words| !words.is_empty())
        .collect()
}

/// The word after a flag.
fn flag<'a>(words: &Command<'a>, name: &str) -> Option<&'a str> {
    words
        .windows(2)
        .find_map(|pair| (pair[0] == name).then_some(pair[1]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOTES: &str = "Installed.\n\n     clusterctl generate cluster demo \\\n       --target-namespace t \
                         --from-config-map m --from-config-map-namespace n \\\n       --from-config-map-key k | kubectl \
                         apply -f -\n     kubectl --namespace n port-forward deployment/d 1:$(kubectl get cluster \
                         demo --namespace t)\n     helm get values r --namespace n\n     \
                         kubectl --namespace n delete secret s\n";

    fn said(notes: &str) -> Result<(), String> {
        let objects = [
            json!({"kind": "ConfigMap", "metadata": {"name": "m", "namespace": "n"}, "data": {"k": ""}}),
            json!({"kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}}),
        ];
        let release = Release {
            name: "r",
            namespace: "n",
            watched: "",
        };
        check(notes, &objects, &release).map_err(|error| error.root_cause().to_string())
    }

    #[test]
    fn a_command_that_names_what_is_not_rendered_is_reported() {
        assert_eq!(said(NOTES), Ok(()));
        for (from, to, message) in [
            ("map m", "map other", "no ConfigMap/other"),
            (
                "map-namespace n",
                "map-namespace other",
                "the ConfigMap is not in other",
            ),
            ("key k", "key other", "the ConfigMap has no other"),
            ("--from-config-map-key", "--key", "no --from-config-map-key"),
            ("cluster demo \\", "cluster other \\", "another cluster"),
            ("deployment/d", "deployment/other", "no Deployment/other"),
            (
                "kubectl --namespace n",
                "kubectl --namespace other",
                "the Deployment is not in Some(\"other\")",
            ),
            ("demo --namespace t", "demo", "the cluster is not in None"),
            (
                "--namespace n delete",
                "--namespace o delete",
                "the Secret is not in Some(\"o\")",
            ),
            ("values r", "values other", "another release"),
            ("r --namespace n", "r", "the release is not in None"),
            ("| kubectl", "| nephele", "users may not have nephele"),
            (
                "clusterctl generate",
                "clusterctl make",
                "0 clusters from 1 ConfigMaps",
            ),
            ("     ", "  ", "no commands"),
        ] {
            assert!(NOTES.contains(from), "{from}");
            assert_eq!(said(&NOTES.replace(from, to)), Err(message.to_owned()), "{to}");
        }
    }
}
