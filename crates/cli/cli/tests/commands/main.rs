//! What the commands print: help, and the errors that people meet first. Each text is a file in `snapshots`; run the
//! test with `SNAPSHOTS=overwrite` after a wanted change, and read the difference.

mod access;
mod errors;
mod help;
mod packages;

use std::{
    path::Path,
    process::{Command, Output},
};

use snapbox::{Data, assert_data_eq};

/// Runs the program in an environment without settings for it.
fn nephele(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nephele"))
        .args(arguments)
        .env_clear()
        .env("HOME", "/nonexistent")
        .output()
        .expect("the program starts")
}

/// Compares an output with a snapshot.
fn expect(snapshot: &str, output: &str) {
    // Relative to the package: with a shared target folder this program may have been built in another checkout.
    let path = Path::new("tests/commands/snapshots").join(snapshot);
    assert_data_eq!(output, Data::read_from(&path, None).raw());
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}
