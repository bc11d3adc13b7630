//! `cargo xtask page`: the tests of the live page in Debian's Chromium, and its pictures.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};

use crate::{
    command::{is_installed, show},
    files::hex,
    paths,
    provider::{self, Profile},
};

/// The picture of the README, and the hash of the sources that it was made from.
const PICTURE: &str = "docs/src/page.png";
const HASH: &str = "docs/src/page.sha256";
/// What decides how the page looks.
const SOURCES: [&str; 7] = [
    "crates/cli/page/assets/live.js",
    "crates/cli/page/assets/page.css",
    "crates/cli/page/assets/page.js",
    "crates/cli/page/src/elements.rs",
    "crates/cli/page/src/html.rs",
    "crates/cli/page/src/drawer_html.rs",
    "e2e/page/pictures.yaml",
];
/// The most bytes of the picture: every reader of the README loads it.
const BYTES_MAX: u64 = 200_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Use this program, instead of building it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Take pictures into this folder, instead of running the tests.
    #[arg(long, value_name = "DIRECTORY")]
    pictures: Option<PathBuf>,
    /// Measure a thousand machines, instead of running the tests.
    #[arg(long, conflicts_with = "pictures")]
    budget: bool,
    /// Run only tests whose names contain this.
    filter: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let program = program(args.program.as_deref())?;
    let mut tests = tests(&program, if args.budget { 1 } else { AT_ONCE })?;
    match (&args.pictures, args.budget) {
        (Some(folder), _) => {
            let folder =
                std::path::absolute(folder).context("failed to make the path of the folder absolute")?;
            tests
                .args(["pictures", "--nocapture"])
                .env("NEPHELE_PAGE_PICTURES", folder);
        }
        (None, true) => {
            tests.args(["budget", "--nocapture"]);
        }
        (None, false) => {
            tests.args(["--skip", "budget", "--skip", "pictures"]);
            tests.args(&args.filter);
        }
    }
    show(&mut tests)
}

/// Takes the picture of the README from a run of `nephele up` with a seed.
pub(crate) fn picture(program: Option<&Path>) -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("nephele-page-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let mut tests = tests(&self::program(program)?, AT_ONCE)?;
    tests.arg("pictures").env("NEPHELE_PAGE_PICTURES", &folder);
    let taken = show(&mut tests).and_then(|()| keep(&folder.join("page-cloud-light.png")));
    fs::remove_dir_all(&folder).with_context(|| format!("failed to remove {}", folder.display()))?;
    taken
}

fn keep(taken: &Path) -> anyhow::Result<()> {
    let out = paths::repository().join(PICTURE);
    let bytes = fs::copy(taken, &out).with_context(|| format!("failed to write {}", out.display()))?;
    ensure!(
        bytes <= BYTES_MAX,
        "the picture has {bytes} bytes, more than {BYTES_MAX}"
    );
    let hash = paths::repository().join(HASH);
    fs::write(&hash, hash_of_sources()? + "\n")
        .with_context(|| format!("failed to write {}", hash.display()))?;
    println!("{}: {bytes} bytes", out.display());
    Ok(())
}

fn hash_of_sources() -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    for source in SOURCES {
        let path = paths::repository().join(source);
        hash.update(fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?);
    }
    Ok(hex(&hash.finalize()))
}

fn program(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    for needed in ["chromium", "chromedriver"] {
        ensure!(
            is_installed(needed),
            "failed to find {needed}: on Debian, install the packages chromium and chromium-driver"
        );
    }
    let program = given.map_or_else(|| provider::build(Profile::Dev), |given| Ok(given.to_owned()))?;
    std::path::absolute(program).context("failed to make the path of the program absolute")
}

/// How many tests run at a time, each with a browser and a program: they mostly wait.
const AT_ONCE: usize = 3;

/// The tests, so many at a time, with the features that `.ci/run` builds them with.
fn tests(program: &Path, at_once: usize) -> anyhow::Result<Command> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--locked", "--workspace", "--test", "page"]);
    cargo.args([
        "--features",
        "nephele-e2e-tests/cluster,nephele-page-tests/browser",
    ]);
    cargo.args(["--", &format!("--test-threads={at_once}")]);
    cargo
        .current_dir(paths::repository())
        .env("NEPHELE_PROGRAM", program);
    Ok(cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_of_the_page_is_one_of_these_sources() {
        let known = fs::read_to_string(paths::repository().join(HASH)).expect("a hash");
        let found = hash_of_sources().expect("readable");
        assert_eq!(known.trim(), found, "take it again: cargo xtask picture --page");
    }
}
