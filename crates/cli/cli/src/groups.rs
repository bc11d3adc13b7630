//! The commands in groups, for `nephele --help`: a person who looks for the first one finds it first.

use clap::Command;

/// The groups, in the order in which people need them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Try", &["demo", "up", "workshop"]),
    (
        "Install",
        &[
            "install",
            "uninstall",
            "doctor",
            "template",
            "components",
            "image",
            "crds",
        ],
    ),
    ("See", &["page", "top", "get", "describe", "journal", "connect"]),
    ("Break", &["fault", "scenario", "clock", "checkpoint"]),
    (
        "More",
        &["load", "runtime", "manager", "completion", "version", "help"],
    ),
];

/// The command with its help in groups.
pub(crate) fn grouped(command: Command) -> Command {
    let groups: Vec<_> = GROUPS
        .iter()
        .map(|(title, names)| group(&command, title, names))
        .collect();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}Options:\n{{options}}{{after-help}}",
        groups.concat()
    );
    command.help_template(template)
}

fn group(command: &Command, title: &str, names: &[&str]) -> String {
    let line = |name: &&str| {
        let about = match (*name, command.find_subcommand(name).and_then(Command::get_about)) {
            ("help", _) => "Print the help of a command".to_owned(),
            (_, about) => about.map(ToString::to_string).unwrap_or_default(),
        };
        format!("  {name:<12}{about}\n")
    };
    format!("{title}:\n{}\n", names.iter().map(line).collect::<String>())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn each_command_is_in_one_group_and_fits_its_line() {
        let mut command = crate::Cli::command();
        command.build();
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        let mut known: Vec<_> = shown.map(|one| one.get_name().to_owned()).collect();
        let mut named: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        known.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, known);
        for (title, names) in GROUPS {
            for line in group(&command, title, names).lines() {
                assert!(line.chars().count() <= 100 && !line.ends_with(' '), "{line}");
            }
        }
    }
}
