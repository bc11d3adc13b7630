//! What the ratchets count, and where it is.

use serde::Deserialize;

/// What is counted in the whole workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Rule {
    LongFunctions,
    FetchWrites,
    ForeignPaths,
    TupleLets,
    ShortFieldComments,
    Undocumented,
}

impl Rule {
    /// Its name in the file of the numbers.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LongFunctions => "long-functions",
            Self::FetchWrites => "fetch-writes",
            Self::ForeignPaths => "foreign-paths",
            Self::TupleLets => "tuple-lets",
            Self::ShortFieldComments => "short-field-comments",
            Self::Undocumented => "undocumented",
        }
    }
}

/// A place in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// From the root of the repository.
    pub(super) path: String,
    pub(super) line: usize,
    /// What is there. It stays the same when lines before it change.
    pub(super) what: String,
}
