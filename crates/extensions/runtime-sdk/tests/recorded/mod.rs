//! Calls of unmodified Cluster API 1.14.2, recorded with `cargo xtask record-hooks`.

use std::{fs, path::Path};

use nephele_runtime_sdk::server::Recording;

/// All recordings, sorted by the names of hooks.
pub(crate) fn all() -> Vec<Recording> {
    let folder = Path::new("tests/recordings/1.14");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let read = |file| -> Vec<Recording> { serde_json::from_slice(&fs::read(file).unwrap()).unwrap() };
    files.into_iter().flat_map(read).collect()
}
