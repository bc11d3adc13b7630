//! Commands of this program that pages and workflows name: each exists, with its flags and their values.

use anyhow::Context;
use clap::{Command, CommandFactory, FromArgMatches as _};

use crate::{files, paths, seeded};

/// How a command begins.
const BEGIN: &str = "cargo xtask ";
/// What ends a command within a line.
const ENDS: [char; 7] = ['`', '#', '|', '&', ';', ')', '"'];

/// The commands of a program.
pub(crate) struct Commands(Command);

impl Commands {
    /// Those of the program with this command line.
    pub(crate) fn of<C: CommandFactory>() -> Self {
        Self(C::command())
    }

    /// What is wrong with the commands in a text: each is told with the reason. Brackets around what may be left out do
    /// not count, and an expression of a workflow counts as a number.
    pub(crate) fn wrong(&self, text: &str) -> anyhow::Result<Vec<String>> {
        let mut wrong = Vec::new();
        for line in text.lines() {
            let line = without_expressions(line);
            for command in line.split(BEGIN).skip(1) {
                let command = command.split(ENDS).next().unwrap_or_default();
                let words: Vec<_> = command
                    .split_whitespace()
                    .map(|word| word.trim_matches(['[', ']']))
                    .collect();
                if let Some(why) = self.mistake(&words)? {
                    wrong.push(format!("{BEGIN}{}: {why}", words.join(" ")));
                }
            }
        }
        Ok(wrong)
    }

    /// Why there is no such command.
    fn mistake(&self, words: &[&str]) -> anyhow::Result<Option<String>> {
        let named = [BEGIN.trim()].into_iter().chain(words.iter().copied());
        let matches = match self.0.clone().try_get_matches_from(named) {
            Ok(matches) => matches,
            Err(error) => {
                let text = error.to_string();
                return Ok(Some(text.lines().next().unwrap_or_default().to_owned()));
            }
        };
        let (program, given) = match matches.subcommand() {
            Some(("hostile", given)) => ("hostile", given),
            Some(("worlds", given)) => ("simulation", given),
            _ => return Ok(None),
        };
        let args = seeded::Args::from_arg_matches(given).context("failed to read arguments of a program")?;
        let source = format!("crates/dev/{program}/src/main.rs");
        let source =
            files::read(&paths::repository().join(&source)).with_context(|| format!("in {source}"))?;
        let is_flag = |name: &str| source.contains(&format!("\n    {}: ", name.replace('-', "_")));
        let flags = args
            .of_program()
            .filter_map(|argument| argument.strip_prefix("--"));
        let mut unknown = flags
            .map(|flag| flag.split('=').next().unwrap_or(flag))
            .filter(|flag| !is_flag(flag));
        Ok(unknown
            .next()
            .map(|flag| format!("its program has no flag --{flag}")))
    }
}

/// The line with `1` instead of each `${{ … }}`.
fn without_expressions(line: &str) -> String {
    let mut rest = line;
    let mut text = String::new();
    while let Some((before, after)) = rest.split_once("${{") {
        text = text + before + "1";
        rest = after.split_once("}}").map_or("", |(_, after)| after);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::{Cli, cluster::ClusterApi};

    #[test]
    fn a_command_that_does_not_exist_is_told() {
        let commands = Commands::of::<Cli>();
        let wrong = |text: &str| commands.wrong(text).expect("the sources are there");
        for right in [
            "cargo xtask e2e [--keep] [FILTER] # what it does",
            "run `cargo xtask worlds`, `cargo xtask hostile --optimized --neighbours` or `cargo xtask tidy`",
            "eval \"$(cargo xtask cluster env)\"",
            "- run: cargo xtask worlds --optimized --seeds 10 --from ${{ github.run_number }}0",
            "cargo build",
        ] {
            assert_eq!(wrong(right), [""; 0], "{right}");
        }
        for (text, because) in [
            (
                "cargo xtask e2f",
                "cargo xtask e2f: error: unrecognized subcommand 'e2f'",
            ),
            (
                "`cargo xtask tidy --fix`",
                "cargo xtask tidy --fix: error: unexpected argument '--fix' found",
            ),
            (
                "cargo xtask e2e --cluster-api 9.9",
                "cargo xtask e2e --cluster-api 9.9: error: invalid value '9.9' for '--cluster-api <CLUSTER_API>'",
            ),
            (
                "cargo xtask worlds --seed 7",
                "cargo xtask worlds --seed 7: its program has no flag --seed",
            ),
        ] {
            assert_eq!(wrong(text), [because], "{text}");
        }
    }

    #[test]
    fn every_night_all_releases_are_run() {
        let workflow = paths::repository().join(".github/workflows/nightly.yaml");
        let workflow = files::read(&workflow).expect("it is there");
        let missing: Vec<_> = (ClusterApi::value_variants().iter())
            .filter(|release| !workflow.contains(&format!("--cluster-api {}", release.name())))
            .collect();
        assert_eq!(missing, [&ClusterApi::V1_14; 0]);
    }
}
