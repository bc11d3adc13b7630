//! The texts whose words are checked: what people read and write in this repository.

use anyhow::bail;

use super::tracked::{files, read};

/// The ends of the names of texts.
const READ: [&str; 12] = [
    ".md",
    ".rs",
    ".yaml",
    ".tpl",
    ".txt",
    ".toml",
    ".go",
    ".py",
    ".sh",
    "Dockerfile",
    ".ci/run",
    "nepheletest/check",
];

/// Paths or folders that are left out, and why.
const LEFT_OUT: [(&str, &str); 13] = [
    ("config/crd/", "made from crates/provider/api, which is checked"),
    (
        "charts/nephele/files/",
        "made from config and crates/provider/api, which are checked",
    ),
    (
        "config/CONDITIONS.md",
        "made from crates/provider/api, which is checked",
    ),
    (
        "e2e/CONTRACT.md",
        "made from e2e/contract/rows.yaml, which is checked",
    ),
    (
        "crates/extensions/runtime-sdk/docs/cases.md",
        "made from cases.yaml, which is checked",
    ),
    ("docs/src/reference/", "made from sources, which are checked"),
    (
        "crates/cli/cli/tests/commands/snapshots/",
        "printed by crates/cli/cli, which is checked",
    ),
    (
        "crates/cli/fake-capi/proptest-regressions/",
        "written by proptest",
    ),
    (
        "crates/extensions/runtime-sdk/tests/recordings/",
        "requests of Cluster API",
    ),
    (
        "crates/kube/apiserver/src/store/definition.rs",
        "messages of Kubernetes, word for word",
    ),
    (
        "crates/kube/apiserver/src/store/validate.rs",
        "messages of Kubernetes, word for word",
    ),
    (
        "crates/kube/portforward/src/dictionary.rs",
        "the dictionary of SPDY",
    ),
    (
        "crates/dev/xtask/src/tidy/turns.rs",
        "the turns that are looked for",
    ),
];

/// A text of the repository.
pub(super) struct Text {
    pub(super) path: String,
    pub(super) content: String,
}

/// All texts that are checked.
pub(super) fn all() -> anyhow::Result<Vec<Text>> {
    let paths = files()?;
    let unused = LEFT_OUT
        .iter()
        .find(|(left_out, _)| !paths.iter().any(|path| path.starts_with(left_out)));
    if let Some((left_out, why)) = unused {
        bail!("{left_out} is left out ({why}), but does not exist");
    }
    paths
        .into_iter()
        .filter(|path| is_read(path))
        .map(|path| {
            Ok(Text {
                content: read(&path)?,
                path,
            })
        })
        .collect()
}

fn is_read(path: &str) -> bool {
    READ.iter().any(|end| path.ends_with(end))
        && !LEFT_OUT.iter().any(|(left_out, _)| path.starts_with(left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_texts_and_those_of_others_are_left_out() {
        for (path, expected) in [
            ("README.md", true),
            ("crates/cli/cli/src/main.rs", true),
            ("charts/nephele/templates/_helpers.tpl", true),
            ("docs/src/demo.svg", false),
            ("Cargo.lock", false),
            ("docs/src/reference/flags.md", false),
            ("config/crd/kustomization.yaml", false),
        ] {
            assert_eq!(is_read(path), expected, "{path}");
        }
    }
}
