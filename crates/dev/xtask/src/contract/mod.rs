//! `cargo xtask contract`: every row of Cluster API's provider contracts, every case of its own tests of the
//! Runtime SDK, and the tests that show that we meet them.
//!
//! ```text
//!  table: rows.yaml ──rows──▶ each has one state: held, open, or not ours
//!        names tests              │
//!                                 ├─▶ the source has the tests that are named  (tidy)
//!                                 ├─▶ a page for people                        (tidy)
//!  output of test runs ───────────┴─▶ those tests ran and passed               (--ran)
//! ```
//!
//! A row that holds names at least one test that would fail if the row did not hold. A renamed test fails tidy, and a
//! test that did not run fails CI. The same is true of tests to which pages of the book link.

mod programs;
mod ran;
#[cfg(test)]
mod released;
mod rows;
mod source;
mod table;

use std::{fs, path::PathBuf};

use anyhow::{Context, bail};

pub(crate) use self::{programs::TestPrograms, source::find};
use self::{
    ran::Ran,
    rows::{Group, State},
    table::Table,
};
use crate::{book, files::write, paths};

const TABLES: [Table; 3] = [
    Table {
        rows: "e2e/contract/rows.yaml",
        page: "e2e/CONTRACT.md",
        beginning: "\
# What Cluster API asks of providers, and what of it holds

Every row of the contracts for infrastructure and IPAM providers, for clusterctl, Helm and the Cluster API Operator, and
of what users expect beside them. A row **holds** when tests show it that would fail if it did not; CI checks that they
ran and passed. A row that **does not apply** says why. A row that is **open** says what is missing; tests beside it show
a part of it.
",
    },
    Table {
        rows: "crates/extensions/runtime-sdk/docs/cases.yaml",
        page: "crates/extensions/runtime-sdk/docs/cases.md",
        beginning: "\
# Cases of Cluster API's own tests of its Runtime SDK, and where they are here

Every case of the unit tests of Cluster API 1.14 for its Runtime SDK, what these leave untested, and what is better here.
A case **holds** when tests show it that would fail if it did not; CI checks that they ran and passed. A case that **does
not apply** says why: it is of the controllers that call, or of what compilers see to here.
",
    },
    Table {
        rows: "e2e/reports.yaml",
        page: "docs/src/reports.md",
        beginning: "\
# Reports from users of similar tools

What users reported about other tools for clusters, told in the kinds of Nephele. A row **holds** when tests show it that
would fail if it did not; CI checks that they ran and passed. A row that is **open** breaks here, too, and says how.
",
    },
];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Check that the tests of each row ran and passed, by these outputs of `cargo test`, `cargo xtask chart` and
    /// `cargo xtask e2e`, instead of writing the table.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    ran: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.ran.is_empty() {
        return TABLES.iter().try_for_each(|table| {
            let path = paths::repository().join(table.page);
            write(&path, table::render(table, &groups(table)?))
        });
    }
    let mut ran = Ran::default();
    for file in &args.ran {
        let text = fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
        ran.read(&String::from_utf8_lossy(&text));
    }
    let programs = TestPrograms::of_workspace()?;
    for table in &TABLES {
        shown(&groups(table)?, programs, &ran)
            .with_context(|| format!("not all of {} was shown", table.rows))?;
    }
    let linked = book::tests()?;
    let wrong: Vec<_> = (linked.iter())
        .filter_map(|test| {
            ran.passed(programs, test)
                .err()
                .map(|error| format!("{test}: {error}"))
        })
        .collect();
    if !wrong.is_empty() {
        bail!("pages link to tests that did not pass:\n{}", wrong.join("\n"));
    }
    println!("{} tests to which pages link passed in this run", linked.len());
    Ok(())
}

/// Fails when rows are malformed, name a test that does not exist, or differ from their page.
pub(crate) fn check() -> anyhow::Result<()> {
    for table in &TABLES {
        let page = fs::read_to_string(paths::repository().join(table.page));
        if page.ok() != Some(table::render(table, &groups(table)?)) {
            bail!(
                "{} is out of date with {}; run `cargo xtask contract`",
                table.page,
                table.rows
            );
        }
    }
    Ok(())
}

/// The rows, after checking that their tests exist.
fn groups(table: &Table) -> anyhow::Result<Vec<Group>> {
    let file = table.rows;
    let text = fs::read_to_string(paths::repository().join(file))
        .with_context(|| format!("failed to read {file}"))?;
    let groups = rows::read(&text).with_context(|| format!("{file} is not sound"))?;
    let programs = TestPrograms::of_workspace()?;
    let mut missing = Vec::new();
    for row in groups.iter().flat_map(|group| &group.rows) {
        for test in &row.tests {
            if let Err(error) = find(programs, paths::repository(), test) {
                missing.push(format!("{}: {test}: {error:#}", row.id));
            }
        }
    }
    if missing.is_empty() {
        Ok(groups)
    } else {
        bail!("{file} names missing tests:\n{}", missing.join("\n"))
    }
}

/// Fails with the rows that should hold but have a test that did not pass.
fn shown(groups: &[Group], programs: &TestPrograms, ran: &Ran) -> anyhow::Result<()> {
    let rows = || groups.iter().flat_map(|group| &group.rows);
    let mut wrong = Vec::new();
    for row in rows() {
        for test in &row.tests {
            if let Err(error) = ran.passed(programs, test) {
                wrong.push(format!("{}: {test}: {error}", row.id));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("rows of which a test did not pass:\n{}", wrong.join("\n"));
    }
    let count = |state: State| rows().filter(|row| row.state() == state).count();
    println!(
        "{} rows hold by tests of this run, {} are open, {} do not apply",
        count(State::Holds),
        count(State::Open),
        count(State::DoesNotApply)
    );
    Ok(())
}
