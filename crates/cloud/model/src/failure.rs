//! Why a cloud refuses an operation because of a fault.

use serde::{Deserialize, Serialize};

/// Why the cloud refuses an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FailureReason {
    /// The zone or the cloud has no machine of the type left.
    InsufficientCapacity,
    /// The account may not have more.
    QuotaExceeded,
    /// The account calls too often.
    Throttled,
    /// The image cannot be used.
    InvalidImage,
    /// The credentials of the account are not accepted.
    Unauthorized,
    /// The cloud has a defect.
    InternalError,
    /// The zone or the cloud cannot be used.
    Unavailable,
    /// No answer came, and nothing was done.
    Timeout,
    /// No answer came, but the operation was carried out.
    LostAnswer,
}

impl FailureReason {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::InsufficientCapacity,
        Self::QuotaExceeded,
        Self::Throttled,
        Self::InvalidImage,
        Self::Unauthorized,
        Self::InternalError,
        Self::Unavailable,
        Self::Timeout,
        Self::LostAnswer,
    ];

    /// A word from a fixed set, for condition reasons and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InsufficientCapacity => "InsufficientCapacity",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::Throttled => "Throttled",
            Self::InvalidImage => "InvalidImage",
            Self::Unauthorized => "Unauthorized",
            Self::InternalError => "InternalError",
            Self::Unavailable => "Unavailable",
            // The caller cannot tell the two from each other.
            Self::Timeout | Self::LostAnswer => "Timeout",
        }
    }

    /// The reason in words, as a part of a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::InsufficientCapacity => "there is not enough capacity",
            Self::QuotaExceeded => "a quota is used up",
            Self::Throttled => "the account calls too often",
            Self::InvalidImage => "the image cannot be used",
            Self::Unauthorized => "the credentials are not accepted",
            Self::InternalError => "the cloud has an internal error",
            Self::Unavailable => "the cloud is not available",
            Self::Timeout | Self::LostAnswer => "the cloud did not answer in time",
        }
    }
}
