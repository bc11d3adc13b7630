//! The types that the page's module gives in comments.

use std::process::Command;

use anyhow::ensure;

use crate::{
    command::{is_installed, show_failure},
    paths,
};

const PROJECT: &str = "crates/cli/page/assets/jsconfig.json";

pub(super) fn check() -> anyhow::Result<()> {
    ensure!(
        is_installed("tsc"),
        "failed to find tsc: on Debian, install the package node-typescript"
    );
    show_failure(
        Command::new("tsc")
            .args(["--project", PROJECT])
            .current_dir(paths::repository()),
    )
}
