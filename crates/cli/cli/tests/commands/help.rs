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

/// krew links the program under that name, and kubectl runs what has it.
#[test]
fn help_of_a_kubectl_plugin_has_the_name_that_people_type() {
    let folder = tempfile::tempdir().expect("a folder");
    let plugin = folder.path().join("kubectl-nephele");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_nephele"), &plugin).expect("a link");
    let usage = |arguments: &[&str]| {
        let output = std::process::Command::new(&plugin)
            .args(arguments)
            .output()
            .expect("it starts");
        let printed = text(output.stdout);
        printed
            .lines()
            .find(|line| line.starts_with("Usage:"))
            .map(str::to_owned)
    };
    let found = [usage(&["--help"]), usage(&["fault", "add", "--help"])];
    let expected = [
        "Usage: kubectl nephele <COMMAND>",
        "Usage: kubectl nephele fault add [OPTIONS] <EFFECT>",
    ];
    assert_eq!(found, expected.map(|line| Some(line.to_owned())));
}
