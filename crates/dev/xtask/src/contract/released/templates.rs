//! Requirements of clusterctl for templates and classes.

use std::{collections::BTreeSet, fs};

use super::{documents, file, text, texts};
use crate::paths;

const FOLDER: &str = "config/templates";
/// Variables that clusterctl always has a value for (cluster-api, cmd/clusterctl/client/config.go).
const FILLED_IN: [&str; 2] = ["CLUSTER_NAME", "NAMESPACE"];
/// Variables that have a flag of `clusterctl generate cluster`.
const COMMON: [&str; 3] = [
    "KUBERNETES_VERSION",
    "CONTROL_PLANE_MACHINE_COUNT",
    "WORKER_MACHINE_COUNT",
];

fn names(prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(paths::repository().join(FOLDER)).expect("a folder");
    let names = entries.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    let found: Vec<_> = names.filter(|name| name.starts_with(prefix)).collect();
    assert!(!found.is_empty(), "no {prefix}");
    found
}

/// The lines that clusterctl processes.
fn without_comments(text: &str) -> String {
    text.lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn templates_need_only_what_clusterctl_fills_in() {
    for name in names("cluster-template") {
        let text = without_comments(&file(&format!("{FOLDER}/{name}")));
        let variables: Vec<_> = text
            .split("${")
            .skip(1)
            .map(|rest| rest.split_once('}').expect("a variable ends").0)
            .collect();
        let (with, without): (Vec<_>, Vec<_>) =
            variables.iter().partition(|variable| variable.contains(":="));
        let required: BTreeSet<_> = without.into_iter().copied().collect();
        assert_eq!(required, BTreeSet::from(FILLED_IN), "{name}");
        let defaults: BTreeSet<_> = with
            .iter()
            .filter_map(|variable| variable.split_once(":="))
            .collect();
        assert!(
            defaults.iter().all(|(_, default)| !default.is_empty()),
            "{name}: {defaults:?}"
        );
        for common in COMMON {
            assert!(
                defaults.iter().any(|(variable, _)| *variable == common),
                "{name} has no {common}"
            );
        }
        for object in documents(&text) {
            let namespace = super::text(&object, "/metadata/namespace");
            assert_eq!(namespace, "${NAMESPACE}", "{name}: {}", object["kind"]);
        }
    }
}

/// The names of the variables in a text.
fn variables(text: &str) -> BTreeSet<&str> {
    text.split("${")
        .skip(1)
        .filter_map(|rest| rest.split([':', '}']).next())
        .collect()
}

#[test]
fn the_book_names_every_variable_flavor_and_class() {
    let page = file("docs/src/install.md");
    let templates = names("cluster-template");
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for name in &templates {
        let text = without_comments(&file(&format!("{FOLDER}/{name}")));
        let choices = variables(&text)
            .into_iter()
            .filter(|variable| !FILLED_IN.contains(variable));
        wanted.extend(choices.map(str::to_owned));
        wanted.extend(
            name.strip_prefix("cluster-template-")
                .and_then(|rest| rest.strip_suffix(".yaml"))
                .map(str::to_owned),
        );
    }
    let class = |name: &String| {
        name.strip_prefix("clusterclass-")?
            .strip_suffix(".yaml")
            .map(str::to_owned)
    };
    wanted.extend(names("clusterclass-").iter().filter_map(class));
    for (role, ..) in super::PROVIDERS {
        let text = without_comments(&nephele_components::render(role, nephele_components::IMAGE));
        wanted.extend(variables(&text).into_iter().map(str::to_owned));
    }
    let missing: Vec<_> = wanted
        .iter()
        .filter(|name| !page.contains(&format!("`{name}`")))
        .collect();
    assert_eq!(missing, Vec::<&String>::new());
}

#[test]
fn classes_have_no_variables_and_no_namespaces() {
    for name in names("clusterclass-") {
        let file = without_comments(&file(&format!("{FOLDER}/{name}")));
        assert!(!file.contains("${"), "{name}");
        let objects = documents(&file);
        let class = objects
            .iter()
            .find(|object| object["kind"] == "ClusterClass")
            .expect("a class");
        assert_eq!(
            name,
            format!("clusterclass-{}.yaml", text(class, "/metadata/name"))
        );
        let mut distinct = BTreeSet::new();
        for object in &objects {
            assert!(
                !texts(object).contains(&"namespace"),
                "{name}: {}",
                object["kind"]
            );
            let id = (text(object, "/kind"), text(object, "/metadata/name"));
            assert!(distinct.insert(id), "{name}: {id:?} is there twice");
        }
    }
}
