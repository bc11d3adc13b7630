//! The values of `values.yaml` with their comments, and the table of some of them in the chart's README.

use anyhow::{Context, bail};
use serde_yaml_ng::Value;

const BEGIN: &str = "<!-- values: made from values.yaml by `cargo xtask codegen` -->\n";
const END: &str = "<!-- end of values -->\n";
/// Opens the descriptions of the values that are in the README.
const OFTEN: &str = "Often changed. ";

/// A value with a description.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Described {
    /// Its keys, joined by dots.
    pub(super) path: String,
    pub(super) description: String,
    /// As JSON, short enough for a cell.
    default: String,
    /// Whether it is in the README.
    is_often_changed: bool,
}

/// The README with a new table between the marks.
pub(super) fn inserted(readme: &str, values: &[Described]) -> anyhow::Result<String> {
    let (before, rest) = readme
        .split_once(BEGIN)
        .with_context(|| format!("no {BEGIN:?} in README.md"))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("no {END:?} in README.md"))?;
    let mut table = String::from("\n| Value | Default | Description |\n|---|---|---|\n");
    for Described {
        path,
        description,
        default,
        ..
    } in values.iter().filter(|value| value.is_often_changed)
    {
        let [description, default] = [description, default].map(|cell| cell.replace('|', "\\|"));
        table.push_str(&format!("| `{path}` | `{default}` | {description} |\n"));
    }
    Ok(format!("{before}{BEGIN}{table}\n{END}{after}"))
}

/// Values with the comment above them, in the order of the file. Every value either has a description or is part of a
/// value with a description.
pub(super) fn described(text: &str) -> anyhow::Result<Vec<Described>> {
    let values: Value = serde_yaml_ng::from_str(text).context("failed to read values.yaml")?;
    let mut found: Vec<Described> = Vec::new();
    let mut above: Vec<(usize, String)> = Vec::new();
    let mut comment = Vec::new();
    for line in text.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if let Some(words) = content.strip_prefix('#') {
            comment.push(words.trim());
        } else if let Some((key, _)) = content.split_once(':').filter(|_| !content.starts_with('-')) {
            above.retain(|(outer, _)| *outer < indent);
            above.push((indent, key.to_owned()));
            let keys: Vec<_> = above.iter().map(|(_, key)| key.as_str()).collect();
            let path = keys.join(".");
            let value = keys.iter().try_fold(&values, |value, key| value.get(key));
            let is_part = found
                .iter()
                .any(|whole| path.starts_with(&format!("{}.", whole.path)));
            match value {
                _ if is_part => {}
                None => bail!("{path} is not where its indent says"),
                Some(value) if !comment.is_empty() => {
                    let default =
                        serde_json::to_string(value).with_context(|| format!("failed to write {path}"))?;
                    let whole = comment.join(" ");
                    let often = whole.strip_prefix(OFTEN);
                    let description = often.unwrap_or(&whole).to_owned();
                    found.push(Described {
                        path,
                        description,
                        default,
                        is_often_changed: often.is_some(),
                    });
                }
                Some(Value::Mapping(parts)) if !parts.is_empty() => {}
                Some(_) => bail!("{path} has no description"),
            }
            comment.clear();
        } else {
            comment.clear();
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, paths};

    #[test]
    fn a_value_is_described_by_the_comment_above_it() {
        let text = "# The file.\n\n# One\n# and a half.\na: 1\nb:\n  # Often changed. Two.\n  c: [x]\n# Whole.\nd:\n  e: f\n  g:\n  - h: i\n";
        let entry = |path: &str, description: &str, default: &str| Described {
            path: path.into(),
            description: description.into(),
            default: default.into(),
            is_often_changed: path == "b.c",
        };
        assert_eq!(
            described(text).expect("described"),
            [
                entry("a", "One and a half.", "1"),
                entry("b.c", "Two.", "[\"x\"]"),
                entry("d", "Whole.", "{\"e\":\"f\",\"g\":[{\"h\":\"i\"}]}"),
            ]
        );
    }

    #[test]
    fn a_value_without_a_description_is_told() {
        let error = described("a:\n  b: 1\n").expect_err("no description");
        assert_eq!(error.to_string(), "a.b has no description");
    }

    #[test]
    fn the_table_replaces_the_one_before_and_has_what_is_often_changed() {
        let readme = format!("one\n{BEGIN}old\n{END}two\n");
        let values = described("# Often changed. A | b.\na: 1\n# C.\nc: 1\n").expect("described");
        let fresh = inserted(&readme, &values).expect("inserted");
        assert_eq!(inserted(&fresh, &values).expect("inserted"), fresh);
        assert!(fresh.contains("| `a` | `1` | A \\| b. |\n"), "{fresh}");
        assert!(!fresh.contains("old") && !fresh.contains("`c`"), "{fresh}");
    }

    #[test]
    fn the_readme_has_fifteen_values() {
        let text =
            files::read(&paths::repository().join(paths::CHART).join("values.yaml")).expect("readable");
        let values = described(&text).expect("described");
        assert_eq!(values.iter().filter(|value| value.is_often_changed).count(), 15);
    }
}
