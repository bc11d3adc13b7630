//! Errors of the state file.

use std::{io, path::PathBuf, sync::Arc};

use thiserror::Error;

/// Why a state directory cannot be used. Each error names the file and what to do.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The directory cannot be created.
    #[error("failed to create the state directory {path}")]
    Directory {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file cannot be opened.
    #[error("failed to open the state file {path}")]
    File {
        path: PathBuf,
        #[source]
        source: Box<redb::Error>,
    },
    /// Another process has the file open.
    #[error(
        "failed to open the state file {path}: another process has it open; give each manager its own directory"
    )]
    InUse { path: PathBuf },
    /// The file is damaged, or not a state file.
    #[error(
        "failed to read the state file {path}: {reason}; restore a copy of it, or move it away to start \
         with an empty file"
    )]
    Unreadable {
        path: PathBuf,
        /// Why the file cannot be read.
        reason: String,
    },
    /// The file was written by another version.
    #[error(
        "failed to read the state file {path}: it has format {found} and not {expected}; use the version that wrote it, \
         or move it away to start with an empty file"
    )]
    Format {
        path: PathBuf,
        /// The format of the file.
        found: u64,
        /// The format that this version reads.
        expected: u64,
    },
    /// The writer cannot be started.
    #[error("failed to start the writer of the state file")]
    Thread(#[source] io::Error),
}

/// Why a partition cannot be read.
#[derive(Debug, Error)]
#[error("failed to read partition {name:?} of the state file")]
pub struct ReadError {
    pub name: String,
    #[source]
    pub source: Box<redb::Error>,
}

/// Why a write is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unkept {
    /// The file cannot be written for now.
    #[error("the state file cannot be written: {0}")]
    Failing(Arc<str>),
    /// The file is closed.
    #[error("the state file is closed")]
    Closed,
}
