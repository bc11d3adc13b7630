//! Arguments as the command line and the manifests of Cluster API write them.

use std::{ffi::OsString, path::Path};

/// The name under which the image starts this binary (`command: [/manager]`, as in every provider of Cluster API).
/// Under that name the binary is `nephele manager`, and all arguments are flags of the manager.
const MANAGER: &str = "manager";

/// The name of the file that makes kubectl show the binary as `kubectl nephele`, for instance the link that krew makes.
const PLUGIN: &str = "kubectl-nephele";

/// How people call the program, if it is not by the name of its file.
pub(crate) fn called(program: Option<&OsString>) -> Option<&'static str> {
    let name = Path::new(program?).file_name()?;
    (name == PLUGIN).then_some("kubectl nephele")
}

/// The normalised arguments: `manager` is inserted if the binary has that name, and `_` in the name of a flag becomes
/// `-`, as in Go (k8s.io/component-base, `WordSepNormalizeFunc`).
pub(crate) fn normalised(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args = args.into_iter();
    let program = args.next().unwrap_or_else(|| "nephele".into());
    let is_manager = Path::new(&program)
        .file_name()
        .is_some_and(|name| name == MANAGER);
    let mut normalised = vec![program];
    if is_manager {
        normalised.push(MANAGER.into());
    }
    normalised.extend(args.map(hyphenated));
    normalised
}

fn hyphenated(arg: OsString) -> OsString {
    let Some(text) = arg.to_str().filter(|text| text.starts_with("--")) else {
        return arg;
    };
    match text.split_once('=') {
        Some((name, value)) => format!("{}={value}", name.replace('_', "-")).into(),
        None => text.replace('_', "-").into(),
    }
}

/// The value of a flag among the arguments of a container, each of which has its value in it; empty for a flag without
/// one. Of a flag that is there more than once the last one counts, as for the manager.
pub(crate) fn value<'a>(args: &'a [String], flag: &str) -> Option<&'a str> {
    args.iter()
        .rev()
        .find_map(|arg| match arg.strip_prefix("--")?.strip_prefix(flag)? {
            "" => Some(""),
            rest => rest.strip_prefix('='),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalise(args: &[&str]) -> Vec<String> {
        let args = args.iter().map(OsString::from);
        normalised(args)
            .into_iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_plugin_of_kubectl_is_called_as_kubectl_calls_it() {
        let called_by = |program: &str| called(Some(&program.into()));
        assert_eq!(
            called_by("/home/me/.krew/bin/kubectl-nephele"),
            Some("kubectl nephele")
        );
        assert_eq!(called_by("/usr/bin/nephele"), None);
        assert_eq!(called(None), None);
    }

    #[test]
    fn the_last_flag_of_a_name_counts() {
        let args = ["--a=1", "--ab=2", "--a", "--b=x=y", "a=3"].map(str::to_owned);
        assert_eq!(
            [value(&args, "a"), value(&args, "b"), value(&args, "c")],
            [Some(""), Some("x=y"), None]
        );
    }

    #[test]
    fn called_manager_it_is_the_manager() {
        assert_eq!(
            normalise(&["/manager", "--v=2"]),
            ["/manager", "manager", "--v=2"]
        );
        assert_eq!(
            normalise(&["/usr/bin/nephele", "crds"]),
            ["/usr/bin/nephele", "crds"]
        );
    }

    #[test]
    fn underscores_count_as_hyphens_in_names_but_not_in_values() {
        assert_eq!(
            normalise(&[
                "nephele",
                "manager",
                "--leader_elect",
                "--watch_filter=a_b",
                "a_b"
            ]),
            [
                "nephele",
                "manager",
                "--leader-elect",
                "--watch-filter=a_b",
                "a_b"
            ]
        );
    }
}
