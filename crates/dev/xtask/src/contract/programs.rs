//! The programs that cargo makes of the workspace's tests: in the output of a run, their names stand for the files of
//! the tests.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use anyhow::Context;

use crate::{metadata, paths};

/// The program of tests in Go.
pub(super) const GO: &str = "go";

/// A program, and the modules that lead from its root to a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) program: String,
    pub(super) modules: Vec<String>,
}

/// The programs of all tests that `cargo test` can run.
#[derive(Debug)]
pub(crate) struct TestPrograms(Vec<Target>);

/// A program.
#[derive(Debug)]
struct Target {
    program: String,
    /// The file with the root module, within the repository.
    root: PathBuf,
}

impl TestPrograms {
    /// Those of this workspace, which cargo is asked for once.
    pub(crate) fn of_workspace() -> anyhow::Result<&'static Self> {
        static PROGRAMS: LazyLock<Result<TestPrograms, String>> =
            LazyLock::new(|| ask().map_err(|error| format!("{error:#}")));
        PROGRAMS.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    /// Where a file's tests may be: a file may be a module of several programs.
    pub(super) fn of(&self, file: &str) -> Vec<Place> {
        if is_go(file) {
            return vec![Place {
                program: GO.to_owned(),
                modules: Vec::new(),
            }];
        }
        self.0.iter().filter_map(|target| target.place(file)).collect()
    }
}

impl Target {
    fn new(name: &str, root: &Path) -> Self {
        Self {
            program: name.replace('-', "_"),
            root: root.to_owned(),
        }
    }

    fn place(&self, file: &str) -> Option<Place> {
        let mut modules = Vec::new();
        if self.root.as_os_str() != file {
            let below = file
                .strip_prefix(self.root.parent()?.to_str()?)?
                .strip_prefix('/')?;
            modules.extend(below.strip_suffix(".rs")?.split('/').map(str::to_owned));
            modules.pop_if(|last| last == "mod");
        }
        Some(Place {
            program: self.program.clone(),
            modules,
        })
    }
}

/// Whether a file has tests in Go.
pub(super) fn is_go(file: &str) -> bool {
    file.ends_with("_test.go")
}

fn ask() -> anyhow::Result<TestPrograms> {
    let repository = paths::repository()
        .canonicalize()
        .context("failed to find the repository")?;
    let packages = metadata::packages()?.into_iter();
    let targets = packages
        .flat_map(|package| package.targets)
        .filter(|target| target.test);
    let targets = targets.map(|target| {
        let root = target.src_path.canonicalize();
        let root = root.with_context(|| format!("failed to find {}", target.src_path.display()))?;
        let root = root.strip_prefix(&repository).context("a package lies outside")?;
        Ok(Target::new(&target.name, root))
    });
    targets.collect::<anyhow::Result<_>>().map(TestPrograms)
}

#[cfg(test)]
impl TestPrograms {
    /// Of programs and the files with their root modules.
    pub(super) fn new(targets: &[(&str, &str)]) -> Self {
        let target = |(name, file): &(&str, &str)| Target::new(name, Path::new(file));
        Self(targets.iter().map(target).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_module_of_the_programs_whose_root_lies_above_it() {
        let programs = TestPrograms::new(&[
            ("nephele-simulation", "dev/simulation/src/main.rs"),
            ("nephele_simulation", "dev/simulation/src/lib.rs"),
            ("worlds", "dev/simulation/tests/worlds.rs"),
            ("page", "e2e/page/main.rs"),
            ("e2e", "e2e/tests/main.rs"),
        ]);
        let places = |file| {
            let places = programs.of(file).into_iter();
            places
                .map(|place| format!("{} {}", place.program, place.modules.join("::")))
                .collect::<Vec<_>>()
        };
        assert_eq!(places("dev/simulation/tests/worlds.rs"), ["worlds "]);
        assert_eq!(
            places("dev/simulation/src/plan/mod.rs"),
            ["nephele_simulation plan", "nephele_simulation plan"]
        );
        assert_eq!(places("e2e/page/live.rs"), ["page live"]);
        assert_eq!(places("e2e/tests/ipam/pause.rs"), ["e2e ipam::pause"]);
        assert_eq!(places("e2e/other/a.rs"), [""; 0]);
        assert_eq!(places("nepheletest/go/a_test.go"), ["go "]);
    }
}
