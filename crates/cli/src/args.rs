//! Arguments as the command line and the manifests of Cluster API write them.

use std::{ffi::OsString, path::Path};

/// The name under which the image starts this binary (`command: [/manager]`, as in every provider of Cluster API).
/// Under that name the binary is `nephele manager`, and all arguments are flags of the manager.
const MANAGER: &str = "manager";

/// The normalised arguments: `manager` is inserted if the binary has that name, and `_` in the name of a flag becomes
/// `-`, as in Go (k8s.io/component-base, `WordSepNormalizeFunc`).
pub(crate) fn normalised(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args = args.into_iter();
    let program = args.next().unwrap_or_else(|| "nephele".into());
    let is_manager = Path::new(&program).file_name().is_some_and(|name| name == MANAGER);
    let mut normalised = vec![program];
    if is_manager {
        normalised.push(MANAGER.into());
    }
    normalised.extend(args.map(hyphenated));
    normalised
}

fn hyphenated(arg: OsString) -> OsString {
    let Some(text) = arg.to_str().filter(|text| text.starts_with("--")) else { return arg };
    match text.split_once('=') {
        Some((name, value)) => format!("{}={value}", name.replace('_', "-")).into(),
        None => text.replace('_', "-").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalise(args: &[&str]) -> Vec<String> {
        let args = args.iter().map(OsString::from);
        normalised(args).into_iter().map(|arg| arg.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn called_manager_it_is_the_manager() {
        assert_eq!(normalise(&["/manager", "--v=2"]), ["/manager", "manager", "--v=2"]);
        assert_eq!(normalise(&["/usr/bin/nephele", "crds"]), ["/usr/bin/nephele", "crds"]);
    }

    #[test]
    fn underscores_count_as_hyphens_in_names_but_not_in_values() {
        assert_eq!(
            normalise(&["nephele", "manager", "--leader_elect", "--watch_filter=a_b", "a_b"]),
            ["nephele", "manager", "--leader-elect", "--watch-filter=a_b", "a_b"]
        );
    }
}
