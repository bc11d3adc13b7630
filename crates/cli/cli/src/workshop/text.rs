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

/// Which task.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    chapter: ChapterArgs,
}

/// Which solution.
#[derive(Debug, Args)]
pub(crate) struct SolutionArgs {
    #[command(flatten)]
    chapter: ChapterArgs,
}

/// Prints the text of a chapter.
pub(super) fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    print(&task(&args.chapter.chapter()?, None))?;
    Ok(ExitCode::SUCCESS)
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
        let message = format!(
            "there is no hint {wanted}; chapter {} has the hints 1 to {}",
            chapter.number,
            hints.len()
        );
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

/// The text of a chapter for a terminal, as far as its task. A namespace that is not that of the kubeconfig has to be given to
/// each command.
pub(super) fn task(chapter: &Chapter, namespace: Option<&str>) -> String {
    let number = chapter.number;
    let mut text = format!(
        "\nChapter {number}: {}\n\n{}",
        chapter.about.title,
        without_outputs(chapter.task())
    );
    let flag = namespace
        .map(|namespace| format!(" -n {namespace}"))
        .unwrap_or_default();
    if let Some(namespace) = namespace {
        text += &format!(
            "These commands are for the namespace {namespace}: add{flag} to each, or run\n\
             `kubectl config set-context --current --namespace {namespace}` once.\n\n"
        );
    }
    text + &format!(
        "Done? `nephele workshop check {number}{flag}`\nStuck? `nephele workshop hint {number}`\n\
         This text again: `nephele workshop show {number}`\n"
    )
}

/// The rest of the text of a chapter, for a person whose task is done.
pub(super) fn answers(chapter: &Chapter) -> String {
    format!("\n{}\n", without_outputs(chapter.answers()))
}

/// A text as in the book, without what its commands print.
fn without_outputs(text: &str) -> String {
    let mut kept = String::new();
    let mut is_output = false;
    let mut is_blank = false;
    for line in text.lines() {
        match line {
            "```text" => is_output = true,
            "```" if is_output => is_output = false,
            _ if is_output => {}
            // Without an output, two blank lines meet.
            "" if is_blank => {}
            line => {
                is_blank = line.is_empty();
                kept.push_str(line);
                kept.push('\n');
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use nephele_scenario_library::workshop;

    use super::*;

    #[test]
    fn a_terminal_gets_the_commands_and_not_what_they_print() {
        for chapter in workshop::all().expect("readable") {
            let text = task(&chapter, None);
            assert!(
                text.contains("## Your task") && text.contains("```sh\n"),
                "{text}"
            );
            assert!(!text.contains("```text") && !text.contains("\n\n\n"), "{text}");
            let fences = text.lines().filter(|line| line.starts_with("```")).count();
            assert_eq!(fences % 2, 0, "{text}");
        }
    }

    #[test]
    fn commands_that_are_printed_name_the_namespace_that_was_given() {
        let chapter = workshop::find(4).expect("readable").expect("a chapter");
        let text = task(&chapter, Some("two"));
        assert!(text.contains("`nephele workshop check 4 -n two`\n"), "{text}");
        assert!(!task(&chapter, None).contains("namespace two"));
    }
}
