//! The page of the book with the scenarios of the library.

use std::{fmt::Write as _, time::Duration};

use nephele_scenario_library::{self as library, Needs};

/// The name of the page, in the folder of the reference.
pub(super) const NAME: &str = "scenarios.md";

const BEGINNING: &str = "\
<!-- Generated from config/scenarios by `cargo xtask codegen`. -->

# Scenarios of the library

`nephele scenario list` prints this table, `nephele scenario show NAME` the cluster and the steps of a scenario, and
`nephele scenario run NAME --make-cluster` runs it. See [Scenarios](../scenarios.md#the-library).

Those that need `up` run under `nephele up`, and with Cluster API. The others need Cluster API itself, for what the column says;
`nephele up --cluster-api` gives it. The time is that on a cluster that is available.

| Scenario | What it shows | Needs | Takes |
|---|---|---|---|
";

/// The text of the page.
pub(super) fn render() -> anyhow::Result<String> {
    let mut text = BEGINNING.to_owned();
    for entry in library::all()? {
        let needs = match &entry.needs {
            Needs::Up => "`up`".to_owned(),
            Needs::ClusterApi(needed) => format!("`cluster-api`: {needed}"),
        };
        writeln!(
            text,
            "| `{}` | {} | {needs} | {} |",
            entry.name,
            entry.about.shows,
            seconds(entry.about.takes)
        )?;
    }
    Ok(text)
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs())
}
