//! `cargo xtask krew`: the manifest of `kubectl nephele` for krew, from the archives of a release.
//!
//! ```text
//!  config/krew/nephele.yaml ─┐
//!  version of the workspace ─┼─▶ nephele.yaml, as krew's index has it
//!  archives: name, SHA-256 ──┘
//! ```

use std::{fs, path::PathBuf};

use anyhow::Context;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    files::{self, hex, write},
    paths,
    release::VERSION,
};

/// The manifest without a version and platforms.
const MANIFEST: &str = "config/krew/nephele.yaml";
/// Where the archives of a release are downloaded.
const DOWNLOADS: &str = "https://github.com/nephele-dev/nephele/releases/download";
/// The systems and processors with an archive, in the words of krew, which are those of the archives' names.
const PLATFORMS: [(&str, &str); 3] = [("linux", "amd64"), ("linux", "arm64"), ("darwin", "arm64")];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder with the archives of all platforms.
    #[arg(long, value_name = "DIR")]
    archives: PathBuf,
    /// The manifest to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let manifest = manifest(VERSION, |archive| {
        let path = args.archives.join(archive);
        let content = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(hex(&Sha256::digest(&content)))
    })?;
    let text = serde_yaml_ng::to_string(&manifest).context("failed to write the manifest")?;
    write(&args.out, text)
}

/// The manifest of a version, with the checksum of each archive.
fn manifest(version: &str, checksum: impl Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<Value> {
    let text = files::read(&paths::repository().join(MANIFEST))?;
    let mut manifest: Value =
        serde_yaml_ng::from_str(&text).with_context(|| format!("failed to read {MANIFEST}"))?;
    let platforms = PLATFORMS.map(|(os, arch)| {
        // The archive has this folder.
        let folder = format!("nephele-{version}-{os}-{arch}");
        let archive = format!("{folder}.tar.gz");
        let files = ["nephele", "LICENSE"];
        let files = files.map(|file| json!({ "from": format!("{folder}/{file}"), "to": "." }));
        Ok(json!({
            "selector": { "matchLabels": { "os": os, "arch": arch } },
            "uri": format!("{DOWNLOADS}/{version}/{archive}"),
            "sha256": checksum(&archive)?,
            "files": files,
            "bin": "nephele",
        }))
    });
    manifest["spec"]["version"] = version.into();
    manifest["spec"]["platforms"] = platforms.into_iter().collect::<anyhow::Result<_>>()?;
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What krew refuses (kubernetes-sigs/krew, pkg/index/validation/validate.go), and how long its index lets the short
    /// description be.
    #[test]
    fn a_manifest_has_what_krew_asks_for() {
        let manifest = manifest("v1.2.3", |archive| Ok(format!("sum of {archive}"))).expect("a manifest");
        let short = manifest["spec"]["shortDescription"].as_str().expect("text");
        assert!(!short.is_empty() && short.len() <= 50, "{short}");
        assert_eq!(
            [
                &manifest["apiVersion"],
                &manifest["kind"],
                &manifest["metadata"]["name"]
            ],
            [
                "krew.googlecontainertools.github.com/v1alpha2",
                "Plugin",
                "nephele"
            ]
        );
        assert_eq!(manifest["spec"]["version"], "v1.2.3");
        let platforms = manifest["spec"]["platforms"].as_array().expect("a list");
        assert_eq!(platforms.len(), PLATFORMS.len());
        let expected = json!({
            "selector": {"matchLabels": {"os": "darwin", "arch": "arm64"}},
            "uri": "https://github.com/nephele-dev/nephele/releases/download/v1.2.3/nephele-v1.2.3-darwin-arm64.tar.gz",
            "sha256": "sum of nephele-v1.2.3-darwin-arm64.tar.gz",
            "files": [
                {"from": "nephele-v1.2.3-darwin-arm64/nephele", "to": "."},
                {"from": "nephele-v1.2.3-darwin-arm64/LICENSE", "to": "."},
            ],
            "bin": "nephele",
        });
        assert_eq!(platforms.last(), Some(&expected));
    }

    /// The workflow packs what this program does not: the archive for macOS, and the one for each Linux by `dist`.
    #[test]
    fn the_workflow_of_a_release_makes_each_archive() {
        let workflow = paths::repository().join(".github/workflows/release.yaml");
        let workflow = files::read(&workflow).expect("readable");
        for (os, arch) in PLATFORMS {
            let made = match os {
                "linux" => format!("architecture: {arch}"),
                _ => format!("name=nephele-$GITHUB_REF_NAME-{os}-{arch}\n"),
            };
            assert!(workflow.contains(&made), "{made}");
        }
    }
}
