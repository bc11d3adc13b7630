//! The rows in a file.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use serde::Deserialize;

/// Rows about one subject. Their ids begin with the same letters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub(super) group: String,
    pub(super) about: String,
    /// The number of rows, so that no row gets lost.
    count: usize,
    pub(super) rows: Vec<Row>,
}

/// A requirement for a provider.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) asks: String,
    /// `file::function` of tests that fail when the row does not hold.
    #[serde(default)]
    pub(super) tests: Vec<String>,
    /// What is missing. Tests of an open row show that a part holds.
    pub(super) open: Option<String>,
    /// Why it does not apply to us.
    pub(super) does_not_apply: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Holds,
    Open,
    DoesNotApply,
}

impl Row {
    pub(super) fn state(&self) -> State {
        match (&self.open, &self.does_not_apply) {
            (None, None) => State::Holds,
            (Some(_), _) => State::Open,
            (None, Some(_)) => State::DoesNotApply,
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.asks.is_empty(), "does not say what is asked");
        for reason in [&self.open, &self.does_not_apply].into_iter().flatten() {
            ensure!(!reason.is_empty(), "gives no reason");
        }
        ensure!(
            self.open.is_none() || self.does_not_apply.is_none(),
            "is open and does not apply"
        );
        match self.state() {
            State::Holds => ensure!(!self.tests.is_empty(), "holds by no test"),
            State::DoesNotApply => ensure!(self.tests.is_empty(), "does not apply and is tested"),
            State::Open => {}
        }
        let distinct: BTreeSet<_> = self.tests.iter().collect();
        ensure!(distinct.len() == self.tests.len(), "names a test twice");
        Ok(())
    }
}

/// The rows of a file, each in exactly one state.
pub(super) fn read(text: &str) -> anyhow::Result<Vec<Group>> {
    let groups: Vec<Group> = serde_yaml_ng::from_str(text).context("failed to read it as rows")?;
    let mut ids = BTreeSet::new();
    for group in &groups {
        let Group {
            group: letters,
            count,
            rows,
            ..
        } = group;
        ensure!(
            rows.len() == *count,
            "{letters} has {} rows instead of {count}",
            rows.len()
        );
        for row in rows {
            let number = row
                .id
                .strip_prefix(letters.as_str())
                .and_then(|rest| rest.strip_prefix('-'));
            let numbered = number.is_some_and(|number| number.len() == 2 && number.parse::<u8>().is_ok());
            ensure!(numbered, "{} is no id of {letters}", row.id);
            ensure!(ids.insert(row.id.as_str()), "{} is there twice", row.id);
            row.check().with_context(|| row.id.clone())?;
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &str) -> Result<Vec<State>, String> {
        let count = rows.matches("id:").count();
        let text = format!("[{{group: A, about: a, count: {count}, rows: [{rows}]}}]");
        let groups = read(&text).map_err(|error| format!("{error:#}"))?;
        Ok(groups
            .iter()
            .flat_map(|group| &group.rows)
            .map(Row::state)
            .collect())
    }

    #[test]
    fn a_row_holds_is_open_or_does_not_apply() {
        let text = "{id: A-01, asks: a, tests: ['a.rs::b']}, {id: A-02, asks: a, open: b, tests: ['a.rs::b']}, \
                    {id: A-03, asks: a, does_not_apply: b}";
        assert_eq!(
            rows(text),
            Ok(vec![State::Holds, State::Open, State::DoesNotApply])
        );
    }

    #[test]
    fn a_row_without_test_or_reason_is_refused() {
        for (text, because) in [
            ("{id: A-01, asks: a}", "A-01: holds by no test"),
            ("{id: A-01, asks: a, open: ''}", "A-01: gives no reason"),
            (
                "{id: A-01, asks: a, open: b, does_not_apply: c}",
                "A-01: is open and does not apply",
            ),
            (
                "{id: A-01, asks: a, does_not_apply: b, tests: [c]}",
                "A-01: does not apply and is tested",
            ),
            ("{id: A-01, asks: a, tests: [c, c]}", "A-01: names a test twice"),
            (
                "{id: A-01, asks: a, open: b}, {id: A-01, asks: a, open: b}",
                "A-01 is there twice",
            ),
            ("{id: B-01, asks: a, open: b}", "B-01 is no id of A"),
        ] {
            assert_eq!(rows(text), Err(because.to_owned()), "{text}");
        }
        let lost = read("[{group: A, about: a, count: 2, rows: [{id: A-01, asks: a, open: b}]}]");
        assert_eq!(
            lost.expect_err("one is missing").to_string(),
            "A has 1 rows instead of 2"
        );
    }
}
