//! `--help` of every command.

use super::{expect, nephele, text};

/// As many lines as a terminal of a laptop shows.
const SCREEN: usize = 50;

/// The commands below a command, as its help lists them.
fn subcommands(help: &str) -> Vec<&str> {
    let before_flags = help.lines().take_while(|line| *line != "Options:");
    let listed = before_flags.filter_map(|line| line.strip_prefix("  "));
    listed
        .filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase()))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

/// Compares the help of a command and of all below it. Returns how many there are.
fn check(command: &[&str]) -> usize {
    let output = nephele(&[command, &["--help"]].concat());
    assert!(output.status.success(), "{command:?}: {output:?}");
    let help = text(output.stdout);
    let name = [&["nephele"], command].concat().join("-");
    expect(&format!("help/{name}.txt"), &help);
    // The flags of the manager are those of a server; the book has them by topic.
    assert!(
        help.lines().count() <= SCREEN || command == ["manager"],
        "the help of {name} fills more than a screen"
    );
    1 + subcommands(&help)
        .into_iter()
        .map(|below| check(&[command, &[below]].concat()))
        .sum::<usize>()
}

#[test]
fn every_command_has_a_help_that_fits_a_screen() {
    let commands = check(&[]);
    assert!(commands > 30, "only {commands} commands were found");
}
