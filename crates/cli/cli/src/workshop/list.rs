//! `nephele workshop list`: the chapters.

use std::process::ExitCode;

use nephele_scenario_library::workshop::{self, Chapter};

use crate::{columns::columns, output::print, scenario::short};

pub(super) const AFTER_HELP: &str = "\
`up` runs under `nephele up`, and on a management cluster with Cluster API. `cluster-api` needs Cluster API itself: \
`nephele up --cluster-api` gives it.

Examples:
  nephele workshop list
  nephele workshop start 1
  nephele workshop check 1";

/// Prints the list.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    print(&table(&workshop::all()?))?;
    Ok(ExitCode::SUCCESS)
}

fn table(chapters: &[Chapter]) -> String {
    let header = ["CHAPTER", "TITLE", "NEEDS", "TAKES", "TEACHES"]
        .map(str::to_owned)
        .to_vec();
    let row = |chapter: &Chapter| {
        vec![
            chapter.number.to_string(),
            chapter.about.title.clone(),
            chapter.about.needs.word().to_owned(),
            short(chapter.about.takes),
            chapter.about.teaches.trim_end_matches('.').to_owned(),
        ]
    };
    let rows: Vec<_> = std::iter::once(header).chain(chapters.iter().map(row)).collect();
    columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_number_that_other_commands_take() {
        let chapters = workshop::all().expect("readable");
        let table = table(&chapters);
        assert_eq!(table.lines().count(), chapters.len() + 1);
        let first = table.lines().nth(1).expect("a line");
        assert!(
            first.starts_with("1         A cloud in one command   up            15m     A few"),
            "{first}"
        );
    }

    #[test]
    fn the_book_prints_the_list() {
        let page = std::fs::read_to_string("../../../docs/src/workshop.md").expect("a page");
        let table = table(&workshop::all().expect("readable"));
        assert!(page.contains(&format!("```text\n{table}```\n")), "{table}");
    }
}
