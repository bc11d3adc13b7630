//! Checks that files and functions exist that pages name by their package, as `nephele-engine/src/engine.rs#apply`. A folder of
//! a crate may move; its package keeps its name.

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::{files, paths};

/// The folders of the packages in `crates`, by name.
pub(super) struct Packages(BTreeMap<String, PathBuf>);

impl Packages {
    pub(super) fn read() -> anyhow::Result<Self> {
        let mut folders = BTreeMap::new();
        for manifest in files::below(&paths::repository().join("crates"), "toml")? {
            let name = name(&files::read(&manifest)?);
            if let (true, Some(name), Some(folder)) =
                (manifest.ends_with("Cargo.toml"), name, manifest.parent())
            {
                folders.insert(name, folder.to_owned());
            }
        }
        Ok(Self(folders))
    }

    /// What code spans of a page name that does not exist. A path that begins with `src/` or `tests/` is one of the package that
    /// was named last. A folder at the top may have the name of a package.
    pub(super) fn missing(&self, spans: &[(usize, String)]) -> Vec<String> {
        let mut last: Option<&PathBuf> = None;
        let mut missing = Vec::new();
        let root = paths::repository();
        let is_one = |span: &&String| !span.contains(' ') && !root.join(span).exists();
        for span in spans.iter().map(|(_, span)| span).filter(is_one) {
            if let Some(folder) = self.0.get(span) {
                last = Some(folder);
                continue;
            }
            let of_package = span
                .split_once('/')
                .and_then(|(name, rest)| Some((self.0.get(name)?.as_path(), rest)));
            let of_last = || Some((last?.as_path(), span.as_str()));
            let is_relative = span.starts_with("src/") || span.starts_with("tests/");
            let of_repository = || is_below_the_top(span).then_some((root, span.as_str()));
            let named = of_package
                .or_else(|| of_last().filter(|_| is_relative))
                .or_else(of_repository);
            let Some((folder, rest)) = named else { continue };
            let (file, function) = rest
                .split_once('#')
                .map_or((rest, None), |(file, function)| (file, Some(function)));
            if !folder.join(file).exists() {
                missing.push(format!("`{span}` does not exist"));
            } else if let Some(function) = function
                && !fs::read_to_string(folder.join(file)).is_ok_and(|text| has(&text, function))
            {
                missing.push(format!("`{span}`: there is no such function"));
            }
        }
        missing
    }
}

/// The folders and files that commands make.
const IGNORED: &str = include_str!("../../../../../.gitignore");

/// Whether commands make this folder at the top: what is in it depends on which ones have run.
fn is_made(top: &str) -> bool {
    IGNORED.lines().any(|line| line.strip_prefix('/') == Some(top))
}

/// Whether this is a path below a folder of the repository, and no pattern for several.
fn is_below_the_top(span: &str) -> bool {
    let top = span.split_once('/').map(|(top, _)| top);
    let is_folder = |top: &str| !top.is_empty() && !is_made(top) && paths::repository().join(top).is_dir();
    top.is_some_and(is_folder) && !span.contains(['*', '<', '{', '…'])
}

/// The name of the package that a manifest describes.
fn name(manifest: &str) -> Option<String> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("name = \""))?;
    Some(line.split('"').next()?.to_owned())
}

/// Whether a source has a function of this name.
fn has(source: &str, function: &str) -> bool {
    source.contains(&format!("fn {function}(")) || source.contains(&format!("fn {function}<"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_build_makes_is_no_part_of_the_repository() {
        assert_eq!(["target", "crates", ""].map(is_made), [true, false, false]);
    }

    #[test]
    fn files_and_functions_are_found_by_their_package() {
        let packages = Packages::read().expect("packages");
        let missing = |spans: &[&str]| {
            let spans: Vec<_> = spans.iter().map(|span| (0, (*span).to_owned())).collect();
            packages.missing(&spans)
        };
        assert_eq!(missing(&["src/main.rs", "nephele up", "tests/gone.rs"]), [""; 0]);
        assert_eq!(
            missing(&[
                "xtask",
                "src/main.rs#main",
                "src/book",
                "xtask/src/book/named.rs#has",
                "crates/dev/xtask/src/main.rs#main",
                "docs/design/*.md",
                "either/or"
            ]),
            [""; 0]
        );
        assert_eq!(
            missing(&[
                "xtask",
                "src/gone.rs",
                "xtask/src/main.rs#gone",
                "tests/gone.rs",
                "e2e/gone.rs",
                "crates/dev/xtask/src/main.rs#gone"
            ]),
            [
                "`src/gone.rs` does not exist",
                "`xtask/src/main.rs#gone`: there is no such function",
                "`tests/gone.rs` does not exist",
                "`e2e/gone.rs` does not exist",
                "`crates/dev/xtask/src/main.rs#gone`: there is no such function"
            ]
        );
    }
}
