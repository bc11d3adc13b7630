//! Checks that the manager knows the flags that the chart sets.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    command::{capture, show},
    paths,
};

pub(super) struct Program(PathBuf);

impl Program {
    /// The given program, or one built from the checkout.
    pub(super) fn new(given: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(program) = given {
            return Ok(Self(program.to_owned()));
        }
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["build", "--locked", "--package", "nephele-cli"])
            .current_dir(paths::repository());
        show(&mut cargo)?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        Ok(Self(paths::repository().join(target).join("debug/nephele")))
    }

    /// Fails with the program's message about the first flag that it does not know, or whose value it refuses.
    /// Flags are read one after the other, up to the one that prints the version and exits.
    pub(super) fn takes(&self, flags: &[String]) -> anyhow::Result<()> {
        capture(Command::new(&self.0).arg("manager").args(flags).arg("--version")).map(drop)
    }
}
