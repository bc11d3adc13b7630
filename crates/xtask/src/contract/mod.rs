//! `cargo xtask contract`: every row of Cluster API's provider contracts, and what shows that we keep it.
//!
//! ```text
//!  e2e/contract/rows.yaml ──rows──▶ each has one state: held, open, or not ours
//!        names tests                     │
//!                                        ├─▶ the source has the tests that are named  (tidy)
//!                                        ├─▶ e2e/CONTRACT.md, for people              (tidy)
//!  output of test runs ──────────────────┴─▶ those tests ran and passed               (--ran)
//! ```
//!
//! A row that holds names at least one test that would fail if it did not hold. Nothing is believed: a test that is
//! renamed fails tidy, one that is not run fails CI.

mod ran;
#[cfg(test)]
mod released;
mod rows;
mod source;
mod table;

use std::{fs, path::PathBuf};

use anyhow::{Context, bail};

use self::{
    ran::Ran,
    rows::{Group, State},
};
use crate::paths;

/// The rows within the repository.
const ROWS: &str = "e2e/contract/rows.yaml";
/// What is made from them.
const TABLE: &str = "e2e/CONTRACT.md";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Check that the tests of each row ran and passed, by these outputs of `cargo test`, `cargo xtask chart` and
    /// `cargo xtask e2e`, instead of writing the table.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    ran: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let groups = groups()?;
    if args.ran.is_empty() {
        let path = paths::repository().join(TABLE);
        return crate::cluster::write(&path, table::render(&groups));
    }
    let mut ran = Ran::default();
    for file in &args.ran {
        let text = fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
        ran.read(&String::from_utf8_lossy(&text));
    }
    shown(&groups, &ran)
}

/// Fails where the rows are not sound, name a test that is not there, or differ from the table.
pub(crate) fn check() -> anyhow::Result<()> {
    let groups = groups()?;
    let path = paths::repository().join(TABLE);
    if fs::read_to_string(path).ok() != Some(table::render(&groups)) {
        bail!("{TABLE} is not what {ROWS} says; run `cargo xtask contract`");
    }
    Ok(())
}

/// The rows, each with tests that are there.
fn groups() -> anyhow::Result<Vec<Group>> {
    let text = fs::read_to_string(paths::repository().join(ROWS))
        .with_context(|| format!("failed to read {ROWS}"))?;
    let groups = rows::read(&text).with_context(|| format!("{ROWS} is not sound"))?;
    let mut missing = Vec::new();
    for row in groups.iter().flat_map(|group| &group.rows) {
        for test in &row.tests {
            if let Err(error) = source::find(paths::repository(), test) {
                missing.push(format!("{}: {test}: {error:#}", row.id));
            }
        }
    }
    if missing.is_empty() {
        Ok(groups)
    } else {
        bail!("{ROWS} names what is not there:\n{}", missing.join("\n"))
    }
}

/// Fails with the rows that are said to hold and of which a test did not pass.
fn shown(groups: &[Group], ran: &Ran) -> anyhow::Result<()> {
    let rows = || groups.iter().flat_map(|group| &group.rows);
    let mut wrong = Vec::new();
    for row in rows() {
        for test in &row.tests {
            if let Err(error) = ran.passed(test) {
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
