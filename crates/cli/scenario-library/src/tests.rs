use std::{collections::BTreeSet, path::Path};

use super::*;

fn entries() -> Vec<Entry> {
    all().expect("readable")
}

#[test]
fn every_folder_of_scenarios_is_an_entry() {
    let folder = Path::new("../../../config/scenarios");
    let folders: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    let names: Vec<_> = entries().iter().map(|entry| entry.name.to_owned()).collect();
    assert_eq!(names, folders.into_iter().collect::<Vec<_>>());
}

#[test]
fn every_entry_has_a_head_a_story_a_cluster_and_a_scenario_of_its_name() {
    for entry in entries() {
        let name = entry.name;
        let shows = &entry.about.shows;
        assert!(
            shows.ends_with('.') && shows.matches(". ").count() == 0,
            "{name}: {shows}"
        );
        assert!(entry.story.ends_with('.'), "{name}: {}", entry.story);
        assert_eq!(entry.scenario["kind"], "Scenario", "{name}");
        assert_eq!(entry.scenario["metadata"]["name"], name);
        let clusters = entry.cluster.iter().filter(|object| object["kind"] == "Cluster");
        assert_eq!(clusters.count(), 1, "{name}");
        let with_namespace = entry
            .cluster
            .iter()
            .chain([&entry.scenario])
            .filter(|object| object["metadata"].get("namespace").is_some());
        assert_eq!(with_namespace.count(), 0, "{name} can be in any namespace");
    }
}

/// The stand-in plays nothing else.
#[test]
fn what_needs_no_cluster_api_has_a_topology() {
    for entry in entries().iter().filter(|entry| entry.needs == Needs::Up) {
        let has_topology = |object: &Value| object["spec"]["topology"].is_object();
        assert!(entry.cluster.iter().any(has_topology), "{}", entry.name);
    }
}

/// The time that steps take at least, one after the other; of branches, that of the longest.
fn fixed(steps: &Value) -> Duration {
    let of = |value: &Value| {
        value
            .as_str()
            .map(|text| nephele_go_duration::parse(text).expect("a duration"))
    };
    let time = |step: &Value| {
        let branches = step["parallel"].as_array().into_iter().flatten();
        let branches = branches.map(|branch| fixed(&branch["steps"])).max();
        let rounds = step["forEach"]
            .as_array()
            .map_or(step["repeat"].as_u64(), |values| Some(values.len() as u64));
        let rounds = rounds.map(|rounds| fixed(&step["steps"]) * u32::try_from(rounds).expect("few rounds"));
        let plain = of(&step["pause"]).or(of(&step["never"]["during"]));
        plain.or(branches).or(rounds).unwrap_or_default()
    };
    steps.as_array().into_iter().flatten().map(time).sum()
}

#[test]
fn no_entry_takes_less_than_its_steps_do() {
    for entry in entries() {
        let fixed = fixed(&entry.scenario["spec"]["steps"]);
        assert!(
            fixed < entry.about.takes,
            "{} takes more than {fixed:?}",
            entry.name
        );
    }
}

#[test]
fn the_first_comment_is_one_paragraph() {
    assert_eq!(first_comment("# One\n# two.\n\n# Three.\na: b\n"), "One two.");
    assert_eq!(first_comment("a: b\n"), "");
}

#[test]
fn a_name_that_is_not_there_is_no_entry() {
    assert!(find("../quota").expect("readable").is_none());
    assert!(find("quota").expect("readable").is_some());
}
