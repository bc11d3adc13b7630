//! `cargo xtask picture`: a picture of a terminal for the README, made from a real run of `nephele demo`.
//!
//! ```text
//!  nephele demo, in a pseudo terminal ──▶ terminal: what stays on it ─┐
//!   └ when all is up: nephele get, kubectl get ──▶ the same ──────────┴▶ lines with prompts ──▶ SVG
//! ```

mod terminal;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anstyle_svg::{Term, WIN10_CONSOLE};
use anyhow::{Context, ensure};

use self::terminal::Terminal;
use crate::{
    command, page, paths,
    provider::{self, Profile},
};

/// Where the picture is, within the repository.
const PICTURE: &str = "docs/src/demo.svg";
/// The columns of the terminal: as many as a page on GitHub shows without making the text small.
const COLUMNS: usize = 106;
/// The most bytes of the picture: every reader of the README loads it.
const BYTES_MAX: usize = 30_000;

/// The demo writes its kubeconfigs to the folder in which all commands run.
const DEMO: [&str; 4] = ["nephele", "demo", "--kubeconfig-dir", "."];
/// What the demo prints last.
const END: &str = "Ctrl-C ends it all.";
/// The line of the demo after which it only lists commands to try. The picture shows two of them instead.
const TRY: &str = "Try, in another terminal:";
const TRIED: [&[&str]; 2] = [
    &[
        "nephele",
        "get",
        "clusters",
        "--kubeconfig",
        "management.kubeconfig",
    ],
    &["kubectl", "get", "nodes", "--kubeconfig", "large.kubeconfig"],
];
const LIMIT: Duration = Duration::from_secs(120);

/// The prompt, green, and the command, bold.
const PROMPT: &str = "\x1b[32m$\x1b[0m \x1b[1m";
const AFTER_COMMAND: &str = "\x1b[0m";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Use this program, instead of building it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where to write the picture, within the repository.
    #[arg(long, value_name = "FILE", default_value = PICTURE)]
    out: PathBuf,
    /// Take the picture of the live page, in Chromium.
    #[arg(long, conflicts_with = "out")]
    page: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.page {
        return page::picture(args.program.as_deref());
    }
    ensure!(
        command::is_installed("kubectl"),
        "failed to find kubectl, which the picture shows"
    );
    let program = args
        .program
        .clone()
        .map_or_else(|| provider::build(Profile::Release), Ok)?;
    let program = std::path::absolute(program).context("failed to make the path of the program absolute")?;
    let folder = std::env::temp_dir().join(format!("nephele-picture-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let lines = record(&program, &folder);
    fs::remove_dir_all(&folder).with_context(|| format!("failed to remove {}", folder.display()))?;
    let svg = draw(&lines?);
    ensure!(
        svg.len() <= BYTES_MAX,
        "the picture has {} bytes, more than {BYTES_MAX}",
        svg.len()
    );
    let out = paths::repository().join(&args.out);
    fs::write(&out, &svg).with_context(|| format!("failed to write {}", out.display()))?;
    println!("{}: {} bytes", out.display(), svg.len());
    Ok(())
}

/// The lines of the terminal after the commands.
fn record(program: &Path, folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut demo = Terminal::start(&mut in_folder(program, folder, &DEMO), COLUMNS)?;
    demo.wait_for(END, LIMIT).context("the demo did not come up")?;
    let mut lines = vec![prompt(&DEMO)];
    lines.extend(
        terminal::settled(&demo.text())?
            .into_iter()
            .take_while(|line| line != TRY),
    );
    for words in TRIED {
        let mut tried = Terminal::start(&mut in_folder(program, folder, words), COLUMNS)?;
        let text = tried
            .finish(LIMIT)
            .with_context(|| format!("failed to run {}", words.join(" ")))?;
        if lines.last().is_some_and(|line| !line.is_empty()) {
            lines.push(String::new());
        }
        lines.push(prompt(words));
        lines.extend(terminal::settled(&text)?);
    }
    demo.interrupt();
    demo.finish(LIMIT).context("the demo did not end")?;
    Ok(lines
        .iter()
        .flat_map(|line| terminal::wrapped(line, COLUMNS))
        .collect())
}

/// The command that a line of the picture shows.
fn in_folder(program: &Path, folder: &Path, words: &[&str]) -> Command {
    let (first, arguments) = words.split_first().expect("a command has a program");
    let mut command = if *first == "nephele" {
        Command::new(program)
    } else {
        Command::new(first)
    };
    command.args(arguments).current_dir(folder);
    command
}

fn prompt(words: &[&str]) -> String {
    format!("{PROMPT}{}{AFTER_COMMAND}", words.join(" "))
}

/// The picture. Its background is its own, so it looks the same on light and on dark pages.
fn draw(lines: &[String]) -> String {
    let svg = Term::new()
        .palette(WIN10_CONSOLE)
        .min_width_px(0)
        .render_svg(&lines.join("\n"));
    scalable(&svg)
}

/// Lets a page show the picture smaller than it is: with a `viewBox`, the text shrinks, too.
fn scalable(svg: &str) -> String {
    let size = |name: &str| {
        let (_, after) = svg.split_once(&format!("{name}=\""))?;
        after.split_once("px\"").map(|(number, _)| number)
    };
    match (size("width"), size("height")) {
        (Some(width), Some(height)) => {
            svg.replacen("<svg ", &format!("<svg viewBox=\"0 0 {width} {height}\" "), 1)
        }
        _ => svg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_text_colours_and_a_size() {
        let svg = draw(&[prompt(&["nephele", "demo"]), "● <vm> & node".to_owned()]);
        for part in [
            "viewBox=\"0 0 1",
            "<rect",
            "monospace",
            "fg-green",
            ">nephele demo<",
            "● &lt;vm&gt; &amp; node",
        ] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
        assert!(!svg.contains("<script") && !svg.contains("\x1b"), "{svg}");
    }

    #[test]
    fn the_picture_of_the_readme_is_small_and_has_no_scripts() {
        let svg = fs::read_to_string(paths::repository().join(PICTURE)).expect("the picture is there");
        assert!(svg.starts_with("<svg ") && svg.len() <= BYTES_MAX && !svg.contains("<script"));
    }
}
