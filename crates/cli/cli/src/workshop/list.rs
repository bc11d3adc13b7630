//! `nephele workshop list`: the chapters, and how far a person is with each.

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Args;
use kube::Api;
use nephele_api::cloud::v1alpha1::Scenario;
use nephele_page::Progress;
use nephele_scenario_library::workshop::{self, Chapter};
use tokio::time::timeout;

use super::chapter::of_chapters;
use crate::{access::AccessArgs, columns::columns, output::print, scenario::short};

pub(super) const AFTER_HELP: &str = "\
`up` runs under `nephele up`, and on a management cluster with Cluster API. `cluster-api` needs Cluster API itself: \
`nephele up --cluster-api` gives it. Where a chapter has begun in the namespace, the list says how far you are.

Examples:
  nephele workshop list
  nephele workshop start 1
  nephele workshop check 1";

/// How long the list waits for a management cluster, which it does not need.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);

/// Where chapters may have begun.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    access: AccessArgs,
}

/// How far a person is, by the number of the chapter.
type Done = BTreeMap<usize, Progress>;

/// Prints the list.
pub(super) async fn run(args: ListArgs) -> anyhow::Result<ExitCode> {
    let done = match done(&args.access).await {
        Ok(done) => done,
        Err(error) if args.access.is_given() => return Err(error),
        // Nothing says that there is a management cluster.
        Err(_) => Done::new(),
    };
    print(&table(&workshop::all()?, &done))?;
    Ok(ExitCode::SUCCESS)
}

async fn done(access: &AccessArgs) -> anyhow::Result<Done> {
    let read = async {
        let access = access.open().await?;
        let api: Api<Scenario> = Api::namespaced(access.client.clone(), &access.namespace);
        of_chapters(&api, &access.namespace).await
    };
    let late = || {
        format!(
            "the management cluster did not answer within {} s",
            ANSWERED_WITHIN.as_secs()
        )
    };
    let scenarios = timeout(ANSWERED_WITHIN, read).await.with_context(late)??;
    let mut done = Done::new();
    for (number, progress) in scenarios.iter().filter_map(Progress::of) {
        let known = done.entry(number.into()).or_insert(progress);
        *known = progress.max(*known);
    }
    Ok(done)
}

fn table(chapters: &[Chapter], done: &Done) -> String {
    let mut header = vec!["CHAPTER", "TITLE", "NEEDS", "TAKES"];
    if !done.is_empty() {
        header.push("PROGRESS");
    }
    header.push("TEACHES");
    let row = |chapter: &Chapter| {
        let mut cells = vec![
            chapter.number.to_string(),
            chapter.about.title.clone(),
            chapter.about.needs.word().to_owned(),
            short(chapter.about.takes),
        ];
        if !done.is_empty() {
            let progress = done.get(&chapter.number);
            cells.push(progress.map_or_else(String::new, |progress| progress.words().to_owned()));
        }
        cells.push(chapter.about.teaches.trim_end_matches('.').to_owned());
        cells
    };
    let header = header.into_iter().map(str::to_owned).collect();
    let rows: Vec<_> = std::iter::once(header).chain(chapters.iter().map(row)).collect();
    columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_number_that_other_commands_take() {
        let chapters = workshop::all().expect("readable");
        let table = table(&chapters, &Done::new());
        assert_eq!(table.lines().count(), chapters.len() + 1);
        // The board of a class has a row for each.
        assert_eq!(chapters.len(), usize::from(nephele_page::CHAPTERS));
        let first = table.lines().nth(1).expect("a line");
        assert!(
            first.starts_with("1         A cloud in one command   up            15m     A few"),
            "{first}"
        );
    }

    #[test]
    fn a_list_says_how_far_a_person_is_once_a_chapter_has_begun() {
        let chapters = workshop::all().expect("readable");
        let done = Done::from([(1, Progress::Done), (3, Progress::Begun)]);
        let table = table(&chapters, &done);
        let cells = |line: usize| {
            let line = table.lines().nth(line).expect("a line");
            line.split("   ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .skip(3)
                .take(2)
                .collect::<Vec<_>>()
        };
        assert_eq!(cells(0), ["TAKES", "PROGRESS"]);
        assert_eq!(cells(1), ["15m", "done"]);
        assert_eq!(cells(2)[1], chapters[1].about.teaches.trim_end_matches('.'));
        assert_eq!(cells(3), ["15m", "begun"]);
    }

    #[test]
    fn the_book_prints_the_list() {
        let page = std::fs::read_to_string("../../../docs/src/workshop.md").expect("a page");
        let table = table(&workshop::all().expect("readable"), &Done::new());
        assert!(page.contains(&format!("```text\n{table}```\n")), "{table}");
    }
}
