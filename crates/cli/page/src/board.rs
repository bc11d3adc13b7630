//! Who of a class has done which chapter of the workshop. Pure: the Scenarios of the chapters say it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use nephele_api::{
    cloud::{WORKSHOP_LABEL, v1alpha1::Scenario},
    labels,
};

use crate::objects::Key;

/// The most people of a board, and the most chapters.
const PEOPLE_MAX: usize = 100;
const CHAPTERS_MAX: usize = 20;
/// How many chapters the workshop has.
pub const CHAPTERS: u8 = 8;
/// How the name of the Scenario ends that checks a chapter.
const CHECK: &str = "-check";

/// How far a person is with a chapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// It is under way.
    Begun,
    /// The last check did not pass.
    NotYet,
    /// A check of it runs.
    Checking,
    /// A check of it passed.
    Done,
}

impl Progress {
    /// What a Scenario says of a chapter, and the number of the chapter. None if it is not of the workshop.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Option<(u8, Self)> {
        let chapter = labels::value(&scenario.metadata, WORKSHOP_LABEL)?;
        let name = scenario.metadata.name.as_deref().unwrap_or_default();
        let phase = scenario.status.as_ref().map(|status| status.phase.as_str());
        let progress = match (name.ends_with(CHECK), phase.unwrap_or_default()) {
            (false, _) => Self::Begun,
            (true, "Passed") => Self::Done,
            (true, "Failed" | "Stopped" | "Invalid") => Self::NotYet,
            (true, _) => Self::Checking,
        };
        Some((chapter.parse().ok()?, progress))
    }

    /// The progress in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::NotYet => "not yet",
            Self::Checking => "checking",
            Self::Done => "done",
        }
    }
}

/// People, each with a namespace, and chapters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Board {
    pub(crate) chapters: BTreeSet<u8>,
    pub(crate) people: BTreeMap<String, BTreeMap<u8, Progress>>,
    pub(crate) people_left_out: usize,
}

impl Board {
    pub(crate) fn new(scenarios: &[Arc<Scenario>]) -> Self {
        let mut board = Self::default();
        for scenario in scenarios {
            let Some((chapter, progress)) = Progress::of(scenario) else {
                continue;
            };
            if board.chapters.len() == CHAPTERS_MAX && !board.chapters.contains(&chapter) {
                continue;
            }
            board.chapters.insert(chapter);
            let Key { namespace, .. } = Key::of(&scenario.metadata);
            let known = board
                .people
                .entry(namespace)
                .or_default()
                .entry(chapter)
                .or_insert(progress);
            *known = progress.max(*known);
        }
        board.people_left_out = board.people.len().saturating_sub(PEOPLE_MAX);
        while board.people.len() > PEOPLE_MAX {
            board.people.pop_last();
        }
        board
    }

    /// The chapters of the workshop, and others that someone has begun.
    pub(crate) fn rows(&self) -> BTreeSet<u8> {
        (1..=CHAPTERS).chain(self.chapters.iter().copied()).collect()
    }

    /// What the names of all people begin with, up to a hyphen. The rest tells them apart.
    pub(crate) fn prefix(&self) -> &str {
        let mut names = self.people.keys();
        // The names are sorted, so the first and the last have in common what all have.
        let (Some(first), Some(last)) = (names.next(), names.next_back()) else {
            return "";
        };
        let common = first
            .bytes()
            .zip(last.bytes())
            .take_while(|(one, other)| one == other);
        let common = common.count();
        first.as_bytes()[..common]
            .iter()
            .rposition(|byte| *byte == b'-')
            .map_or("", |hyphen| &first[..=hyphen])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scenario(namespace: &str, name: &str, chapter: &str, phase: &str) -> Arc<Scenario> {
        let scenario = json!({
            "metadata": {"namespace": namespace, "name": name, "labels": {WORKSHOP_LABEL: chapter}},
            "spec": {"steps": []}, "status": {"phase": phase},
        });
        Arc::new(serde_json::from_value(scenario).expect("a Scenario"))
    }

    #[test]
    fn each_person_has_the_progress_that_the_checks_say() {
        let mut other = Scenario::clone(&scenario("ann", "quota", "1", "Passed"));
        other.metadata.labels = None;
        let board = Board::new(&[
            scenario("ann", "workshop-1-start", "1", "Passed"),
            scenario("ann", "workshop-1-check", "1", "Passed"),
            scenario("ann", "workshop-2-check", "2", "Failed"),
            scenario("ann", "workshop-2-start", "2", "Passed"),
            scenario("ben", "workshop-1-start", "1", "Failed"),
            scenario("ben", "workshop-2-check", "2", "Running"),
            scenario("eve", "workshop-9-check", "<b>", "Passed"),
            Arc::new(other),
        ]);
        let expected = Board {
            chapters: BTreeSet::from([1, 2]),
            people: BTreeMap::from([
                (
                    "ann".into(),
                    BTreeMap::from([(1, Progress::Done), (2, Progress::NotYet)]),
                ),
                (
                    "ben".into(),
                    BTreeMap::from([(1, Progress::Begun), (2, Progress::Checking)]),
                ),
            ]),
            people_left_out: 0,
        };
        assert_eq!(board, expected);
    }

    #[test]
    fn people_are_told_apart_by_what_their_names_do_not_have_in_common() {
        let prefix = |names: &[&str]| {
            let all = names
                .iter()
                .map(|name| scenario(name, "workshop-1-check", "1", "Passed"));
            Board::new(&all.collect::<Vec<_>>()).prefix().to_owned()
        };
        for (names, expected) in [
            (&["workshop-01", "workshop-02", "workshop-10"][..], "workshop-"),
            (&["a-class-01", "a-class-02"], "a-class-"),
            (&["ann", "anna"], ""),
            (&["workshop-01"], ""),
            (&[], ""),
        ] {
            assert_eq!(prefix(names), expected, "{names:?}");
        }
        let board = Board::new(&[scenario("a", "workshop-12-check", "12", "Passed")]);
        assert_eq!(
            board.rows().into_iter().collect::<Vec<_>>(),
            [1, 2, 3, 4, 5, 6, 7, 8, 12]
        );
    }

    #[test]
    fn a_board_has_bounds() {
        let many = |people: u32, chapters: u32| {
            let all = (0..people.max(chapters)).map(|number| {
                let person = format!("n{:03}", number % people);
                scenario(
                    &person,
                    "workshop-check",
                    &(number % chapters).to_string(),
                    "Passed",
                )
            });
            let board = Board::new(&all.collect::<Vec<_>>());
            (board.people.len(), board.people_left_out, board.chapters.len())
        };
        assert_eq!(many(300, 1), (PEOPLE_MAX, 200, 1));
        assert_eq!(many(1, 200), (1, 0, CHAPTERS_MAX));
    }
}
