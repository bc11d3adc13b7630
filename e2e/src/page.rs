//! Pages of the book: their code blocks, and what commands print beside what the page shows.
//!
//! ````text
//! ```sh      commands, which a shell runs
//! ```text    right below: what they print; a line … stands for any lines; a command that prints more while it runs on has one at its end
//! ```yaml    objects, which are applied if a command of the page names one of them; or a file NAME.yaml, if one names that
//! *No test runs this: it needs kind.*       below a block that cannot be played
//! *[A test](…) runs this.*                  below a block that another test plays
//! ````

use std::{
    collections::BTreeSet,
    env,
    fmt::Write as _,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use anyhow::{Context as _, ensure};
use regex::Regex;

/// A block of a page that can be played.
#[derive(Debug, PartialEq, Eq)]
pub struct Block<'a> {
    pub kind: Kind<'a>,
    pub text: &'a str,
    /// What the page shows below commands.
    pub output: Option<&'a str>,
    /// Where what the page shows is in it, in bytes, with its fences. Empty if it shows nothing.
    shown: Range<usize>,
}

impl Block<'_> {
    fn has_commands(&self) -> bool {
        matches!(self.kind, Kind::Commands | Kind::RunsOn)
    }
}

/// What is in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// Commands for a shell.
    Commands,
    /// A command that runs until a person ends it, while others follow.
    RunsOn,
    /// Objects for `kubectl apply`.
    Objects,
    /// A file of this name with `.yaml`, which a command reads.
    File(&'a str),
}

const FENCE: &str = "```";
const OUTPUT: &str = "\n```text\n";
/// A line that stands for any lines.
const GAP: &str = "…";
/// Commands of ours that run until they are ended, without the flag that ends them by itself.
const RUN_ON: [&str; 4] = ["nephele up", "nephele demo", "nephele page", "nephele connect"];
const ENDS: &str = "--once";
/// How a paragraph begins that says why no test plays the block above it.
const NO_TEST: &str = "*No test runs ";
/// How a paragraph begins that says which test plays the block above it.
const OTHER_TEST: &str = "*[A test](";

/// The blocks of a page that are played: commands without a mark below them, and the objects that they name.
#[must_use]
pub fn blocks(page: &str) -> Vec<Block<'_>> {
    let is_ours = |below: &str| ![NO_TEST, OTHER_TEST].iter().any(|mark| below.starts_with(mark));
    with_their_objects(all(page, is_ours))
}

/// The blocks of commands whose mark names a test, by the end of its address.
#[must_use]
pub fn blocks_for<'a>(page: &'a str, test: &str) -> Vec<Block<'a>> {
    let is_for = |below: &str| {
        let address = below.strip_prefix(OTHER_TEST);
        address
            .and_then(|address| address.split_once(')'))
            .is_some_and(|(address, _)| address.ends_with(test))
    };
    let mut blocks = all(page, is_for);
    blocks.retain(Block::has_commands);
    blocks
}

/// The pages in a folder of the book and their files, in the order of their names.
///
/// # Errors
///
/// When the folder or a page cannot be read.
pub fn pages(folder: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let entries = fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?;
    let mut pages = Vec::new();
    for entry in entries {
        let file = entry
            .with_context(|| format!("failed to list {}", folder.display()))?
            .path();
        if file.extension().is_some_and(|extension| extension == "md") {
            let text =
                fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
            pages.push((file, text));
        }
    }
    pages.sort();
    Ok(pages)
}

/// How a page says that none of its commands is played with those of the other pages.
const OF_PAGE: [&str; 2] = [
    "*No test runs the commands of this page",
    "runs the commands of this page*",
];

/// Whether a page says that none of its commands is played with those of the other pages.
#[must_use]
pub fn is_marked(page: &str) -> bool {
    let text = in_one_line(page);
    OF_PAGE.iter().any(|mark| text.contains(mark))
}

/// The text of a page without the ends of its lines.
#[must_use]
pub fn in_one_line(page: &str) -> String {
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How many blocks of commands a page has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// A test runs them as they stand, or a test that the page names does the same.
    pub tested: usize,
    /// Those of them whose output stands in the page.
    pub recorded: usize,
    /// A mark says why no test runs them.
    pub marked: usize,
}

/// The numbers of a page.
#[must_use]
pub fn counts(page: &str) -> Counts {
    let commands = |is_wanted: fn(&str) -> bool| {
        let blocks = all(page, is_wanted).into_iter();
        blocks.filter(Block::has_commands)
    };
    let has_no_test = in_one_line(page).contains(OF_PAGE[0]);
    let marked = commands(|below| below.starts_with(NO_TEST)).count();
    let run = commands(|below| !below.starts_with(NO_TEST));
    let (recorded, silent): (Vec<_>, Vec<_>) = run.partition(|block| block.output.is_some());
    let of_tests = recorded.len() + silent.len();
    match has_no_test {
        true => Counts {
            tested: 0,
            recorded: 0,
            marked: marked + of_tests,
        },
        false => Counts {
            tested: of_tests,
            recorded: recorded.len(),
            marked,
        },
    }
}

/// The blocks whose paragraph below is as wanted.
fn all(page: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut at = 0;
    while let Some(block) = next(page, &mut at, &is_wanted) {
        blocks.extend(block);
    }
    blocks
}

/// Without the objects that no command names.
fn with_their_objects(mut blocks: Vec<Block<'_>>) -> Vec<Block<'_>> {
    let commands: String = blocks
        .iter()
        .filter(|block: &&Block<'_>| block.has_commands())
        .map(|block| block.text)
        .collect();
    let is_name = |of: char| of.is_ascii_alphanumeric() || "-.".contains(of);
    let named: BTreeSet<_> = commands.split(|of| !is_name(of)).collect();
    blocks.retain_mut(|block| {
        if block.has_commands() {
            return true;
        }
        if let Some(name) = names(block.text).find(|name| named.contains(format!("{name}.yaml").as_str())) {
            block.kind = Kind::File(name);
            return true;
        }
        names(block.text).any(|name| named.contains(name))
    });
    blocks
}

/// The blocks of commands that are played.
pub fn commands(page: &str) -> impl Iterator<Item = Block<'_>> {
    let blocks = blocks(page).into_iter();
    blocks.filter(Block::has_commands)
}

/// The names of objects.
fn names(objects: &str) -> impl Iterator<Item = &str> {
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)^metadata:\s+\{?name: ([a-z0-9.-]+)").expect("a pattern"));
    NAME.captures_iter(objects)
        .filter_map(|found| Some(found.get(1)?.as_str()))
}

/// The block after this place, which moves behind it. The inner option is empty for a block that is not played.
fn next<'a>(page: &'a str, at: &mut usize, is_wanted: impl Fn(&str) -> bool) -> Option<Option<Block<'a>>> {
    let rest = page.get(*at..)?;
    let open = if rest.starts_with(FENCE) {
        0
    } else {
        rest.find("\n```")? + 1
    };
    let (language, body) = rest[open + FENCE.len()..].split_once('\n')?;
    let (text, after) = body.split_once(FENCE)?;
    let end = (page.len() - after.len() + 1).min(page.len());
    let kind = match language {
        "sh" if runs_on(text) => Some(Kind::RunsOn),
        "sh" => Some(Kind::Commands),
        "yaml" if text.starts_with("apiVersion:") => Some(Kind::Objects),
        _ => None,
    };
    let shown = page.get(end..).and_then(|after| after.strip_prefix(OUTPUT));
    let output = (matches!(kind, Some(Kind::Commands | Kind::RunsOn)))
        .then_some(shown)
        .flatten()
        .and_then(|shown| Some(shown.split_once(FENCE)?.0));
    let length = output.map_or(0, |output| OUTPUT.len() + output.len() + FENCE.len() + 1);
    *at = end + length;
    let below = page.get(*at..).unwrap_or_default().trim_start();
    let kind = kind.filter(|_| is_wanted(below));
    Some(kind.map(|kind| Block {
        kind,
        text,
        output,
        shown: end..end + length,
    }))
}

/// Whether the last command runs until it is ended.
fn runs_on(commands: &str) -> bool {
    let last = commands.trim_end().lines().next_back().unwrap_or_default();
    let of_ours = RUN_ON.iter().any(|command| last.starts_with(command)) && !last.contains(ENDS);
    of_ours || last.starts_with("kubectl ") && last.contains(" port-forward ") && !last.ends_with('&')
}

/// How what commands have printed differs from what the page shows, if it does.
#[must_use]
pub fn difference(block: &Block<'_>, printed: &str) -> Option<String> {
    let shown = block.output.unwrap_or_default();
    let wanted = normal(shown);
    let seen = normal(printed);
    let is_same = match wanted.iter().any(|line| line == GAP) {
        true => has_in_order(&wanted, &seen),
        false => sorted(&wanted) == sorted(&seen),
    };
    (!is_same).then(|| {
        let mut text = format!("{}shows\n{shown}and printed\n{printed}", block.text);
        for line in wanted.iter().filter(|line| *line != GAP && !seen.contains(line)) {
            let _ = writeln!(text, "- {line}");
        }
        for line in seen.iter().filter(|line| !wanted.contains(line)) {
            let _ = writeln!(text, "+ {line}");
        }
        text
    })
}

/// The order of lines may follow from names, which differ.
fn sorted(lines: &[String]) -> Vec<&String> {
    let mut lines: Vec<_> = lines.iter().collect();
    lines.sort();
    lines
}

/// Whether lines are there in their order. What stands between two gaps is there without others between.
fn has_in_order(wanted: &[String], seen: &[String]) -> bool {
    let parts: Vec<_> = wanted.split(|line| line == GAP).collect();
    let mut rest = seen;
    for (number, part) in parts.iter().enumerate() {
        let is_last = number + 1 == parts.len();
        let found = match number {
            0 => rest.starts_with(part).then_some(0),
            _ if is_last => rest.ends_with(part).then(|| rest.len() - part.len()),
            _ if part.is_empty() => Some(0),
            _ => rest.windows(part.len()).position(|lines| lines == *part),
        };
        match found {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Fails when commands have printed something else than their page shows. With `OUTPUTS=overwrite` it writes what they have
/// printed into the page instead, which is in this file.
///
/// # Errors
///
/// With all differences, or when the file cannot be written.
pub fn compare(page: &str, printed: &[(Block<'_>, String)], file: &Path) -> anyhow::Result<()> {
    let is_overwritten = env::var("OUTPUTS").is_ok_and(|wanted| wanted == "overwrite");
    if is_overwritten {
        fs::write(file, rewritten(page, printed))
            .with_context(|| format!("failed to write {}", file.display()))?;
    }
    let differences: Vec<_> = printed
        .iter()
        .filter(|(block, _)| !is_overwritten || has_gap(block))
        .filter_map(|(block, printed)| difference(block, printed))
        .collect();
    ensure!(
        differences.is_empty(),
        "{}\nOUTPUTS=overwrite writes what the commands print into the page",
        differences.join("\n")
    );
    Ok(())
}

/// The page with what its blocks have printed in place of what it shows. `printed` has the blocks in their order.
fn rewritten(page: &str, printed: &[(Block<'_>, String)]) -> String {
    let mut text = page.to_owned();
    for (block, printed) in printed.iter().rev() {
        // What is left out was left out by a person.
        if difference(block, printed).is_none() || has_gap(block) {
            continue;
        }
        let output = match printed.is_empty() {
            true => String::new(),
            false => format!("{OUTPUT}{}\n{FENCE}\n", printed.trim_end()),
        };
        text.replace_range(block.shown.clone(), &output);
    }
    text
}

fn has_gap(block: &Block<'_>) -> bool {
    let mut lines = block.output.unwrap_or_default().lines();
    lines.any(|line| line == GAP)
}

/// What differs each time, and what stands for it.
static DIFFERENT: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", "TIME"),
        (r"\b\d\d:\d\d:\d\d(\.\d+)?\b", "TIME"),
        (
            r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
            "UID",
        ),
        // Pages are played at the same time, and take ports in any order.
        (r"\b127\.0\.0\.1:\d+\b", "ENDPOINT"),
        // The port of a cluster behind a port-forward.
        (r" -> \d+", " -> PORT"),
        // How long a command took.
        (r"\b\d+\.\d s\b", "TOOK"),
        // The key of a page, which lets one browser in.
        (r"\?key=[\w…-]+", "?key=KEY"),
        // What `nephele install` makes of its own program.
        (r"localhost/nephele:[\da-f…]+ \([\d…]+ MB\)", "IMAGE"),
        // The folder of a run that is given none.
        (r"/tmp/nephele-up-\d+-\d+", "FOLDER"),
        // As the API server makes the end of a name.
        (r"\b[bcdfghjklmnpqrstvwxz2456789]{5}\b", "DRAWN"),
    ]
    .map(|(pattern, name)| (Regex::new(pattern).expect("a pattern"), name))
    .into()
});

/// A word that is an age of kubectl, or how long a step took.
static AGE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(\d+(\.\d+)?(h|ms|m|s))+(:?)$").expect("a pattern"));

/// The lines of an output without what differs each time.
fn normal(output: &str) -> Vec<String> {
    let line = |line: &str| {
        let words = line
            .split_whitespace()
            .map(|word| AGE.replace(word, "AGE$4"))
            .collect::<Vec<_>>()
            .join(" ");
        DIFFERENT.iter().fold(words, |line, (pattern, name)| {
            pattern.replace_all(&line, *name).into_owned()
        })
    };
    // A page has no empty lines at the end of what it shows.
    output.trim_end().lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A page\n\n```sh\nls\n```\n\n```text\na-4hk2d  40s\n```\n\nText\n\n```yaml\nspec: {}\n```\n\n\
                        ```yaml\napiVersion: v1\nmetadata: {name: a}\n```\n\n\
                        ```yaml\napiVersion: v1\nmetadata: {name: b}\n```\n\n```sh\nkind create\n```\n\n*No test runs this: it needs kind.*\n\n\
                        ```sh\ntrue pod/a\n```\n";

    fn shell<'a>(text: &'a str, output: Option<&'a str>) -> Block<'a> {
        Block {
            kind: Kind::Commands,
            text,
            output,
            shown: 0..0,
        }
    }

    #[test]
    fn blocks_are_those_without_a_mark_and_know_their_output() {
        let found: Vec<_> = blocks(PAGE)
            .into_iter()
            .map(
                |Block {
                     kind, text, output, ..
                 }| (kind, text, output),
            )
            .collect();
        assert_eq!(
            found,
            [
                (Kind::Commands, "ls\n", Some("a-4hk2d  40s\n")),
                (Kind::Objects, "apiVersion: v1\nmetadata: {name: a}\n", None),
                (Kind::Commands, "true pod/a\n", None),
            ]
        );
    }

    #[test]
    fn a_page_has_numbers_and_one_that_no_test_runs_has_marks_alone() {
        let of = |tested, recorded, marked| Counts {
            tested,
            recorded,
            marked,
        };
        assert_eq!(counts(PAGE), of(2, 1, 1));
        let marked = format!("*No test runs the commands of this page.*\n\n{PAGE}");
        assert_eq!(
            (counts(&marked), is_marked(&marked), is_marked(PAGE)),
            (of(0, 0, 3), true, false)
        );
    }

    #[test]
    fn a_page_is_rewritten_where_commands_print_something_else() {
        let mut blocks = blocks(PAGE);
        let last = blocks.pop().expect("a block");
        let first = blocks.swap_remove(0);
        let same = [(first, "a-zzzzz 3s\n".to_owned()), (last, String::new())];
        assert_eq!(rewritten(PAGE, &same), PAGE);
        let [(first, _), (last, _)] = same;
        let other = [(first, String::new()), (last, "yes\n".to_owned())];
        let expected = PAGE
            .replace("\n```text\na-4hk2d  40s\n```\n", "")
            .replace("true pod/a\n```\n", "true pod/a\n```\n\n```text\nyes\n```\n");
        assert_eq!(rewritten(PAGE, &other), expected);
    }

    #[test]
    fn what_is_drawn_makes_no_difference() {
        let one = "NAME        AGE\ndemo-4hk2d   40s\ndemo-zzzzz   3s\n\"a-bbbbb\" at 21:57:03.118 on 127.0.0.1:20000\n";
        let other = "NAME   AGE\ndemo-22222   2m10s\ndemo-m9m9m   1.5s\n\"a-ccccc\" at 00:00:00.1 on 127.0.0.1:20101\n";
        let difference = |shown, printed| difference(&shell("ls\n", Some(shown)), printed);
        assert_eq!(difference(one, other), None);
        assert!(difference(one, "NAME AGE\ndemo-4hk2d 40s\n").is_some());
        assert!(difference("Running\n", "Deleting\n").is_some());
        assert_eq!(difference("Running\n", "Running\n\n"), None);
        assert!(difference("ahead 3600s, paused\n", "ahead 0s, paused\n").is_some());
        assert_eq!(
            difference("b passed after 0.1s: x\na\n", "a\nb passed after 3.0s: x\n"),
            None
        );
    }

    #[test]
    fn lines_that_are_left_out_may_be_any() {
        let shown = "begins\n…\nends\n";
        let difference = |printed| difference(&shell("ls\n", Some(shown)), printed);
        assert_eq!(difference("begins\nmiddle\nanother\nends\n"), None);
        assert_eq!(difference("begins\nends\n"), None);
        for other in [
            "begins\nmiddle\n",
            "ends\nbegins\n",
            "before\nbegins\nends\n",
            "begins\nends\nafter\n",
            "",
        ] {
            assert!(difference(other).is_some(), "{other}");
        }
    }
}
