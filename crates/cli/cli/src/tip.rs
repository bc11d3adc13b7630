//! What people mean who write a command as other programs have it.

use std::ffi::OsString;

use clap::{
    builder::StyledStr,
    error::{ContextKind, ContextValue, ErrorKind},
};

const LIST: [&str; 4] = ["list", "ls", "get", "show"];
const END: [&str; 5] = ["delete", "remove", "rm", "end", "stop"];

/// Adds to an error of the command line what was meant, where that is known.
pub(crate) fn add(error: &mut clap::Error, arguments: &[OsString]) {
    let arguments: Vec<_> = arguments
        .iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy())
        .collect();
    let arguments: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
    let Some(tip) = of(error.kind(), &arguments) else {
        return;
    };
    let mut tips = match error.get(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => tips.clone(),
        _ => Vec::new(),
    };
    tips.push(StyledStr::from(tip));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

/// What these arguments mean, without the program.
fn of(kind: ErrorKind, arguments: &[&str]) -> Option<String> {
    match kind {
        ErrorKind::InvalidSubcommand => command(arguments).map(str::to_owned),
        ErrorKind::UnknownArgument => version_of_cluster_api(arguments),
        _ => None,
    }
}

/// The command that does what these words mean elsewhere.
fn command(arguments: &[&str]) -> Option<&'static str> {
    match arguments {
        ["fault", word, ..] if LIST.contains(word) => {
            Some("`nephele get faults` lists them, and `nephele describe fault NAME` shows one")
        }
        ["fault", word, ..] if END.contains(word) => Some("`nephele fault heal NAME` ends a Fault"),
        [word, ..] if LIST.contains(word) => {
            Some("`nephele get KIND` lists objects, and `nephele describe KIND NAME` shows one")
        }
        _ => None,
    }
}

/// The flag may have no value, so a version needs the equals sign.
fn version_of_cluster_api(arguments: &[&str]) -> Option<String> {
    arguments.windows(2).find_map(|pair| match pair {
        ["--cluster-api", version] => {
            let number = version.strip_prefix('v').unwrap_or(version);
            let is_version = number.starts_with(|first: char| first.is_ascii_digit());
            is_version.then(|| format!("write --cluster-api=v{number}"))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_programs_call_it_is_understood() {
        use ErrorKind::{InvalidSubcommand, InvalidValue, UnknownArgument};
        let tip =
            |kind, arguments: &str| of(kind, &arguments.split(' ').collect::<Vec<_>>()).unwrap_or_default();
        let faults = "`nephele get faults` lists them, and `nephele describe fault NAME` shows one";
        let objects = "`nephele get KIND` lists objects, and `nephele describe KIND NAME` shows one";
        let version = "write --cluster-api=v1.14.2";
        for (kind, arguments, expected) in [
            (InvalidSubcommand, "fault ls", faults),
            (
                InvalidSubcommand,
                "fault rm silent",
                "`nephele fault heal NAME` ends a Fault",
            ),
            (InvalidSubcommand, "fault frob", ""),
            (InvalidSubcommand, "list faults", objects),
            (UnknownArgument, "get faults --bogus", ""),
            (UnknownArgument, "up -f a.yaml --cluster-api 1.14.2", version),
            (UnknownArgument, "up --cluster-api v1.14.2", version),
            (UnknownArgument, "up --cluster-api here", ""),
            (InvalidValue, "list faults", ""),
        ] {
            assert_eq!(tip(kind, arguments), expected, "{arguments}");
        }
    }
}
