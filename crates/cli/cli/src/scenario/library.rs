//! Which scenario is meant: a file, or an entry of the library.

use std::{ffi::OsStr, path::Path};

use anyhow::{Context as _, bail};
use nephele_access::kind_of;
use nephele_api::cloud::{GROUP, v1alpha1::Scenario};
use nephele_scenario_library::{self as library, Entry};
use serde_json::Value;

use crate::{
    exit::{Exit, Problem},
    manifests::only_object,
    suggestion,
};

/// The ends of the names of files.
const ENDS: [&str; 3] = ["yaml", "yml", "json"];

/// A scenario, from wherever it is.
pub(super) struct Wanted {
    pub(super) scenario: Scenario,
    /// The same as an object of any kind.
    pub(super) object: Value,
    /// The entry of the library, unless it is a file.
    pub(super) entry: Option<Entry>,
}

/// Reads a file if it is the path of one, and else an entry of the library.
pub(super) fn wanted(named: &Path) -> anyhow::Result<Wanted> {
    if let Some(name) = name_of_entry(named) {
        let entry = entry(name)?;
        let scenario = serde_json::from_value(entry.scenario.clone());
        return Ok(Wanted {
            scenario: scenario.with_context(|| format!("failed to read the scenario {name}"))?,
            object: entry.scenario.clone(),
            entry: Some(entry),
        });
    }
    let (place, object) = only_object(named)?;
    let kind = kind_of(&object);
    if (kind.group.as_str(), kind.kind.as_str()) != (GROUP, "Scenario") {
        bail!(
            "{place} is a {} of {}, not a Scenario of {GROUP}",
            kind.kind,
            kind.api_version()
        );
    }
    let scenario: Scenario = serde_json::from_value(object.clone())
        .with_context(|| format!("failed to read {place} as a Scenario"))?;
    if scenario.metadata.name.is_none() && scenario.metadata.generate_name.is_none() {
        bail!("the Scenario in {} has no metadata.name; add it", named.display());
    }
    Ok(Wanted {
        scenario,
        object,
        entry: None,
    })
}

/// The entry of a name, or an error that names those that are alike.
pub(super) fn entry(name: &str) -> anyhow::Result<Entry> {
    match library::find(name)? {
        Some(entry) => Ok(entry),
        None => Err(Problem::new(Exit::NotFound, unknown(name)).into()),
    }
}

/// The name, unless it is the path of a file: one with a slash or with the end of a manifest.
fn name_of_entry(named: &Path) -> Option<&str> {
    let text = named.to_str()?;
    let end = named.extension().and_then(OsStr::to_str);
    let is_file = text.contains('/') || end.is_some_and(|end| ENDS.contains(&end));
    (!is_file).then_some(text)
}

fn unknown(name: &str) -> String {
    let tip = suggestion::question(&suggestion::near(name, library::names()));
    let tip = if tip.is_empty() { tip } else { format!("{tip} ") };
    format!(
        "the library has no scenario {name:?}; {tip}`nephele scenario list` prints all names, and a file is a path with / \
         or .yaml"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_file_and_everything_else_a_name() {
        for (named, expected) in [
            ("quota", Some("quota")),
            ("quota.yaml", None),
            ("quota.yml", None),
            ("./quota", None),
            ("../quota", None),
            ("quota.v2", Some("quota.v2")),
            ("", Some("")),
        ] {
            assert_eq!(name_of_entry(Path::new(named)), expected, "{named}");
        }
    }

    #[test]
    fn a_name_that_is_not_there_brings_those_that_are_near() {
        for (name, expected) in [
            ("qouta", "; did you mean quota? `nephele"),
            ("zone-los", "did you mean zone-loss"),
            ("xyz", "no scenario \"xyz\"; `nephele scenario list`"),
        ] {
            let error = entry(name).expect_err(name);
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(
                error.downcast_ref::<Problem>().expect("a problem").exit,
                Exit::NotFound
            );
        }
    }

    #[test]
    fn a_file_has_one_scenario_with_a_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("s.yaml");
        let head = "apiVersion: cloud.nephele.dev/v1alpha1\nkind: Scenario\n";
        for (text, message) in [
            (
                format!("{head}spec: {{steps: []}}\nmetadata: {{}}\n"),
                "has no metadata.name",
            ),
            (format!("{head}---\n{head}"), "has 2 objects; give one"),
            ("a: [".to_owned(), "as YAML; correct it there"),
            (
                "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n".to_owned(),
                "is a Secret of v1, not a Scenario of cloud.nephele.dev",
            ),
        ] {
            std::fs::write(&file, text).expect("written");
            let error = format!("{:#}", wanted(&file).err().expect(message));
            assert!(error.contains(message) && error.contains("s.yaml"), "{error}");
        }
        std::fs::write(
            &file,
            format!("{head}metadata: {{name: a}}\nspec: {{steps: [{{say: hello}}]}}\n"),
        )
        .expect("written");
        let read = wanted(&file).expect("a Scenario");
        assert_eq!(read.scenario.spec.steps[0].action.say, "hello");
        assert!(read.entry.is_none());
    }

    #[test]
    fn every_entry_is_a_scenario() {
        for name in library::names() {
            let wanted = wanted(Path::new(name)).expect(name);
            assert!(
                !wanted.scenario.spec.steps.is_empty() && wanted.entry.is_some(),
                "{name}"
            );
        }
    }
}
