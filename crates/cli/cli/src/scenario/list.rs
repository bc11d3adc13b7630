//! `nephele scenario list`: the scenarios of the library.

use std::{process::ExitCode, time::Duration};

use nephele_scenario_library::{self as library, Entry};

use crate::{columns::columns, output::print};

pub(super) const AFTER_HELP: &str = "\
`up` runs under `nephele up`, and on a management cluster with Cluster API. `cluster-api` needs Cluster API itself: \
`nephele up --cluster-api` gives it. The time is that on a cluster that is available.

Examples:
  nephele scenario list
  nephele scenario show quota
  nephele scenario run quota --make-cluster";

/// Prints the list.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    print(&table(&library::all()?))?;
    Ok(ExitCode::SUCCESS)
}

fn table(entries: &[Entry]) -> String {
    let header = ["NAME", "NEEDS", "TAKES", "SHOWS"].map(str::to_owned).to_vec();
    let row = |entry: &Entry| {
        vec![
            entry.name.to_owned(),
            entry.needs.word().to_owned(),
            short(entry.about.takes),
            entry.about.shows.trim_end_matches('.').to_owned(),
        ]
    };
    let rows: Vec<_> = std::iter::once(header).chain(entries.iter().map(row)).collect();
    columns(&rows)
}

/// Whole minutes, or seconds.
pub(crate) fn short(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_a_person_chooses_by() {
        let entries = library::all().expect("readable");
        let table = table(&entries);
        assert_eq!(table.lines().count(), entries.len() + 1);
        let words = |line: &str| line.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
        let quota = table.lines().find(|line| line.starts_with("quota"));
        assert_eq!(words(quota.expect("a line")), "quota up 1m Workers");
        let spot = table.lines().find(|line| line.starts_with("spot-reclaim"));
        assert_eq!(words(spot.expect("a line")), "spot-reclaim cluster-api 3m The");
    }

    #[test]
    fn a_duration_is_short() {
        let seconds = [30, 90, 120].map(|seconds| short(Duration::from_secs(seconds)));
        assert_eq!(seconds, ["30s", "90s", "2m"]);
    }
}
