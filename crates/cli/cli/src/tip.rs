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
    let is_of_words = matches!(
        error.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument
    );
    let arguments: Vec<_> = arguments
        .iter()
        .skip(1)
        .map(|argument| argument.to_string_lossy())
        .collect();
    let arguments: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
    if let Some(tip) = of(&arguments).filter(|_| is_of_words) {
        let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tips);
    }
}

/// What these arguments mean, without the program.
fn of(arguments: &[&str]) -> Option<String> {
    match arguments {
        ["fault", word, ..] if LIST.contains(word) => {
            Some("`nephele get faults` lists them, and `nephele describe fault NAME` shows one".to_owned())
        }
        ["fault", word, ..] if END.contains(word) => {
            Some("`nephele fault heal NAME` ends a Fault".to_owned())
        }
        [word, ..] if LIST.contains(word) => {
            Some("`nephele get KIND` lists objects, and `nephele describe KIND NAME` shows one".to_owned())
        }
        _ => version_of_cluster_api(arguments),
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
        let tip = |arguments: &str| of(&arguments.split(' ').collect::<Vec<_>>()).unwrap_or_default();
        for (arguments, expected) in [
            (
                "fault ls",
                "`nephele get faults` lists them, and `nephele describe fault NAME` shows one",
            ),
            ("fault rm silent", "`nephele fault heal NAME` ends a Fault"),
            (
                "list faults",
                "`nephele get KIND` lists objects, and `nephele describe KIND NAME` shows one",
            ),
            ("up -f a.yaml --cluster-api 1.14.2", "write --cluster-api=v1.14.2"),
            ("up --cluster-api v1.14.2", "write --cluster-api=v1.14.2"),
            ("up --cluster-api here", ""),
            ("fault frob", ""),
        ] {
            assert_eq!(tip(arguments), expected, "{arguments}");
        }
    }
}
