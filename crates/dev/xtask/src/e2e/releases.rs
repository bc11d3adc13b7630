//! `cargo xtask e2e --cluster-api`: the tests of releases of Cluster API, each on a management cluster of its own without
//! a node. The results are the table in the book.

use std::{ffi::OsString, path::Path};

use anyhow::{Context, bail};
use jiff::Zoned;

use super::{
    older,
    program::{Queue, Tests},
};
use crate::{
    cluster::{ClusterApi, Tools},
    figures::{self, Figures, Release, ReleaseResult},
};

/// Runs the tests of each release, and writes the results. A release whose programs do not build is not run.
pub(super) fn run(releases: &[ClusterApi], program: &Path) -> anyhow::Result<()> {
    let tests = Tests::build()?;
    let this = std::env::current_exe().context("failed to find this program")?;
    let program = std::path::absolute(program).context("failed to find our program")?;
    let mut figures = Figures::read()?;
    let mut failed = Vec::new();
    for release in releases {
        let version = release.version();
        let contract = release.contract();
        println!("Cluster API {version}");
        let result = match Tools::build(*release) {
            Err(error) => ReleaseResult::NotRun {
                reason: format!("it does not build: {}", error.root_cause()),
            },
            Ok(_) => {
                let environment: [(_, OsString); 3] = [
                    ("NEPHELE_XTASK", this.clone().into()),
                    ("NEPHELE_PROGRAM", program.clone().into()),
                    (older::variable(*release), release.name().into()),
                ];
                let names = tests.names(&[&format!("releases::contract_{contract}")], None);
                if names.is_empty() {
                    bail!("there are no tests of contract {contract}");
                }
                let sentences = names.iter().map(|name| sentence(name)).collect();
                if let Err(error) = tests.with(&environment).run(&Queue::new(names), 1) {
                    failed.push(format!("{version}: {error}"));
                    continue;
                }
                ReleaseResult::Passed {
                    tests: sentences,
                    date: Zoned::now().date(),
                }
            }
        };
        figures.put(Release {
            version: version.to_owned(),
            contract: contract.to_owned(),
            result,
        });
        figures.write()?;
    }
    figures::fill_tables()?;
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("failed with {}", failed.join("; "))
    }
}

/// The name of a test as a sentence.
fn sentence(test: &str) -> String {
    test.rsplit("::")
        .next()
        .unwrap_or(test)
        .replace('_', " ")
        .replace("cluster api", "Cluster API")
}
