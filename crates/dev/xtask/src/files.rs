//! Folders and files, with errors that name them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;

/// The names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))? {
        let entry = entry.with_context(|| format!("failed to list {}", folder.display()))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// The Rust sources in a folder and the folders below it, without tests, sorted.
pub(crate) fn sources(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut sources = below(folder, "rs")?;
    sources.retain(|path| {
        let path = path.strip_prefix(folder).unwrap_or(path);
        !path.ends_with("tests.rs") && path.iter().all(|part| part != "tests")
    });
    Ok(sources)
}

/// The files with an extension in a folder and the folders below it, sorted.
pub(crate) fn below(folder: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for name in names(folder)? {
        let path = folder.join(name);
        if path.is_dir() {
            found.extend(below(&path, extension)?);
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The text of a file.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

/// Writes a file, with the folder it lies in.
pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let folder = path.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}

/// Bytes of a digest as text.
pub(crate) fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
