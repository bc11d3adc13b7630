use std::{collections::BTreeSet, path::Path};

use super::*;

fn chapters() -> Vec<Chapter> {
    all().expect("readable")
}

#[test]
fn every_folder_is_a_chapter_and_begins_with_its_number() {
    let folder = Path::new("../../../config/workshop");
    let folders: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    let chapters = chapters();
    let names: Vec<_> = chapters.iter().map(|chapter| chapter.name.to_owned()).collect();
    assert_eq!(names, folders.into_iter().collect::<Vec<_>>());
    for chapter in &chapters {
        assert!(
            chapter.name.starts_with(&format!("{}-", chapter.number)),
            "{}",
            chapter.name
        );
        assert_eq!(
            find(chapter.number).expect("readable").map(|found| found.name),
            Some(chapter.name)
        );
    }
    assert!(find(0).expect("readable").is_none());
    assert!(find(len() + 1).expect("readable").is_none());
}

#[test]
fn every_chapter_has_a_task_three_hints_and_scenarios_of_its_number() {
    for Chapter {
        number,
        name,
        about,
        text,
        cluster,
        start,
        check,
        trial,
        hints,
        solution,
    } in chapters()
    {
        assert!(about.teaches.ends_with('.'), "{name}: {}", about.teaches);
        let headings: Vec<_> = text.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(
            headings,
            [
                "## Look around",
                "## Your task",
                "## Look again",
                "## In a real cloud"
            ],
            "{name}"
        );
        assert_eq!(hints.len(), 3, "{name}");
        assert!(
            hints.iter().all(|hint| hint.text.ends_with('.')),
            "{name}: {hints:?}"
        );
        assert!(solution.contains("kubectl") && solution.ends_with('\n'), "{name}");
        let tried = trial
            .iter()
            .flat_map(|trial| [(&trial.breaks, "break"), (&trial.mends, "mend")]);
        let scenarios: Vec<_> = [(&start, "start"), (&check, "check")]
            .into_iter()
            .chain(tried)
            .collect();
        for (scenario, end) in &scenarios {
            assert_eq!(scenario["kind"], "Scenario", "{name}");
            assert_eq!(scenario["metadata"]["name"], format!("workshop-{number}-{end}"));
            assert_eq!(Needs::of(scenario), about.needs, "{name}");
        }
        let clusters = cluster.iter().filter(|object| object["kind"] == "Cluster");
        for object in clusters {
            assert_eq!(object["metadata"]["name"], CLUSTER, "{name}");
        }
        for object in cluster
            .iter()
            .chain(scenarios.iter().map(|(scenario, _)| *scenario))
        {
            assert_eq!(
                object["metadata"]["labels"][WORKSHOP_LABEL],
                number.to_string(),
                "{name}"
            );
            assert!(
                object["metadata"].get("namespace").is_none(),
                "{name} can be in any namespace"
            );
        }
    }
}

#[test]
fn a_chapter_that_the_stand_in_cannot_play_says_what_it_needs() {
    let needing = chapters()
        .into_iter()
        .filter(|chapter| chapter.about.needs != Needs::Up);
    let needing: Vec<_> = needing
        .map(|chapter| (chapter.number, chapter.about.needs))
        .collect();
    let needed = Needs::ClusterApi("drains, and hooks before an upgrade".into());
    assert_eq!(needing, [(7, needed)]);
}

#[test]
fn a_person_is_told_the_name_of_the_scenario_that_is_tried() {
    let tried = chapters().into_iter().filter(|chapter| chapter.trial.is_some());
    let tried: Vec<_> = tried.collect();
    assert_eq!(
        tried.iter().map(|chapter| chapter.number).collect::<Vec<_>>(),
        [8]
    );
    for chapter in tried {
        let name = chapter
            .trial
            .as_ref()
            .map(|trial| trial.scenario.as_str())
            .unwrap_or_default();
        let named = format!("metadata: {{name: {name}}}\n");
        assert!(chapter.solution.contains(&named), "{}", chapter.solution);
        assert!(chapter.task().contains(&format!("a Scenario named `{name}`")));
    }
}

#[test]
fn a_trial_is_there_if_a_person_writes_a_scenario() {
    let one = "kind: Scenario\n";
    let three = [one; 3].join("---\n");
    let is_read = |text: &str, scenario| checks(text, scenario).map(|(_, trial)| trial.is_some()).ok();
    let read = [
        is_read(one, None),
        is_read(&three, Some("a")),
        is_read(one, Some("a")),
        is_read(&three, None),
    ];
    assert_eq!(read, [Some(false), Some(true), None, None]);
}

/// A person reads it in a terminal.
#[test]
fn texts_fit_a_terminal() {
    for chapter in chapters() {
        let mut is_code = false;
        for line in chapter
            .text
            .lines()
            .chain(chapter.hints.iter().flat_map(|hint| hint.text.lines()))
        {
            is_code ^= line.starts_with("```");
            assert!(is_code || line.chars().count() <= 105, "{}: {line}", chapter.name);
        }
    }
}
