//! What a person reads of a chapter: its text, hints and the solution.

use std::process::ExitCode;

use clap::Args;
use nephele_scenario_library::workshop::Chapter;

use super::chapter::ChapterArgs;
use crate::{
    exit::{Exit, Problem},
    output::print,
};

pub(super) const AFTER_HELP: &str = "\
Examples:
  nephele workshop hint 4
  nephele workshop hint 4 2";

/// Which hint.
#[derive(Debug, Args)]
pub(crate) struct HintArgs {
    #[command(flatten)]
    chapter: ChapterArgs,
    /// The number of the hint. Each says more than the one before.
    #[arg(value_name = "HINT", default_value_t = 1)]
    hint: usize,
}

/// Which solution.
#[derive(Debug, Args)]
pub(crate) struct SolutionArgs {
    #[command(flatten)]
    chapter: ChapterArgs,
}

/// Prints a hint.
pub(super) fn hint(args: &HintArgs) -> anyhow::Result<ExitCode> {
    let HintArgs {
        chapter,
        hint: wanted,
    } = args;
    let chapter = chapter.chapter()?;
    let hints = &chapter.hints;
    let Some(hint) = wanted.checked_sub(1).and_then(|index| hints.get(index)) else {
        let message = format!("chapter {} has {} hints", chapter.number, hints.len());
        return Err(Problem::new(Exit::NotFound, message).into());
    };
    let next = if *wanted < hints.len() {
        format!("hint {} {}", chapter.number, wanted.saturating_add(1))
    } else {
        format!("solution {}", chapter.number)
    };
    print(&format!(
        "{}\n\n{}\n\nStill stuck? `nephele workshop {next}`\n",
        hint.title, hint.text
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the commands of the solution.
pub(super) fn solution(args: &SolutionArgs) -> anyhow::Result<ExitCode> {
    print(args.chapter.chapter()?.solution)?;
    Ok(ExitCode::SUCCESS)
}

/// The text of a chapter for a terminal: as in the book, without what its commands print.
pub(super) fn task(chapter: &Chapter) -> String {
    let number = chapter.number;
    let mut text = format!("\nChapter {number}: {}\n\n", chapter.about.title);
    let mut is_output = false;
    let mut is_blank = true;
    for line in chapter.text.lines() {
        match line {
            "```text" => is_output = true,
            "```" if is_output => is_output = false,
            _ if is_output => {}
            // Without an output, two blank lines meet.
            "" if is_blank => {}
            line => {
                is_blank = line.is_empty();
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text + &format!("\nDone? `nephele workshop check {number}`\nStuck? `nephele workshop hint {number}`\n")
}

#[cfg(test)]
mod tests {
    use nephele_scenario_library::workshop;

    use super::*;

    #[test]
    fn a_terminal_gets_the_commands_and_not_what_they_print() {
        for chapter in workshop::all().expect("readable") {
            let text = task(&chapter);
            assert!(
                text.contains("## Your task") && text.contains("```sh\n"),
                "{text}"
            );
            assert!(!text.contains("```text") && !text.contains("\n\n\n"), "{text}");
            let fences = text.lines().filter(|line| line.starts_with("```")).count();
            assert_eq!(fences % 2, 0, "{text}");
        }
    }
}
