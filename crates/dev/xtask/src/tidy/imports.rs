//! One style of imports: each crate once in a file, with braces.

use std::collections::BTreeSet;

use anyhow::bail;

use super::tracked::{files, read};

/// Fails if a file imports from a crate in two places. `cargo +nightly fmt -- --config
/// imports_granularity=Crate,group_imports=StdExternalCrate` puts them together.
pub(super) fn check() -> anyhow::Result<()> {
    let mut found = Vec::new();
    for path in files()?.into_iter().filter(|path| path.ends_with(".rs")) {
        found.extend(
            twice(&read(&path)?)
                .into_iter()
                .map(|root| format!("{path}: {root}")),
        );
    }
    if found.is_empty() {
        Ok(())
    } else {
        bail!("imported in two places: {}", found.join(", "))
    }
}

/// The crates that a source imports twice at its top. An import with an attribute stands for itself.
fn twice(source: &str) -> BTreeSet<&str> {
    let mut seen = BTreeSet::new();
    let mut twice = BTreeSet::new();
    let mut has_attribute = false;
    for line in source.lines() {
        let imported = line.strip_prefix("use ").filter(|_| !has_attribute);
        if let Some(root) = imported.and_then(|path| path.split([':', ';', ' ']).next())
            && !seen.insert(root)
        {
            twice.insert(root);
        }
        has_attribute = line.starts_with("#[");
    }
    twice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_is_imported_once_but_for_attributes() {
        let source = "use std::fs;\nuse std::path::Path;\nuse a;\n#[cfg(test)]\nuse b::C;\nuse b::D;\npub use a::X;\n\
                      mod m {\n    use a::Y;\n}\n";
        assert_eq!(twice(source), BTreeSet::from(["std"]));
    }
}
