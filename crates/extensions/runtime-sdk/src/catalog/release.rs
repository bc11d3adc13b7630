//! The hooks of each release of Cluster API.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// The hooks that came with 1.12. If discovery names one of them, earlier releases refuse the whole extension.
const SINCE_1_12: [&str; 7] = [
    "BeforeControlPlaneUpgrade",
    "BeforeWorkersUpgrade",
    "AfterWorkersUpgrade",
    "GenerateUpgradePlan",
    "CanUpdateMachine",
    "CanUpdateMachineSet",
    "UpdateMachine",
];

/// A minor release of Cluster API, at least 1.10. Later releases than [`Release::LATEST`] have the same hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    minor: u32,
}

/// The text is not a release with hooks.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a release of Cluster API from 1.10 on, such as 1.14")]
pub struct ReleaseError(pub String);

impl Release {
    /// The first supported release.
    pub const FIRST: Self = Self { minor: 10 };
    /// The release that this crate follows.
    pub const LATEST: Self = Self { minor: 14 };

    /// The release `1.<minor>`; releases before 1.10 become 1.10.
    #[must_use]
    pub const fn new(minor: u32) -> Self {
        Self {
            minor: if minor < 10 { 10 } else { minor },
        }
    }

    /// Whether the release has this hook of Cluster API.
    #[must_use]
    pub fn knows(self, hook: &str) -> bool {
        self.minor >= 12 || !SINCE_1_12.contains(&hook)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)
    }
}

impl FromStr for Release {
    type Err = ReleaseError;

    /// Parses `1.12` and `v1.12.3`.
    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        let minor = match (parts.next(), parts.next().map(str::parse)) {
            (Some("1"), Some(Ok(minor))) if minor >= Self::FIRST.minor => minor,
            _ => return Err(ReleaseError(text.to_owned())),
        };
        Ok(Self { minor })
    }
}
