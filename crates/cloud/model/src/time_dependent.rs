//! Visible effects that depend on how long their fault has been there.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::SimTime;

/// A serving certificate that expires early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlyExpiry {
    /// The time until it expires; zero for one that has expired.
    pub expires_in: Duration,
    /// When the fault began. None before it is in the cloud.
    pub began: Option<SimTime>,
}

/// A kubelet that is silent and reports in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flap {
    /// How long it is silent. It begins with that.
    pub down: Duration,
    pub up: Duration,
    /// When the fault began. None before it is in the cloud.
    pub began: Option<SimTime>,
}

/// The other name of a kubelet: that of its machine and a suffix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherName {
    pub suffix: String,
    /// When the fault began. None before it is in the cloud.
    pub began: Option<SimTime>,
}

impl EarlyExpiry {
    /// A certificate that expires after this time.
    #[must_use]
    pub fn new(expires_in: Duration) -> Self {
        Self {
            expires_in,
            began: None,
        }
    }

    /// That of a fault that began at this time.
    #[must_use]
    pub fn begun(self, began: SimTime) -> Self {
        Self {
            began: Some(began),
            ..self
        }
    }
}

impl Flap {
    /// A kubelet that is silent and reports for these times in turn.
    #[must_use]
    pub fn new(down: Duration, up: Duration) -> Self {
        Self {
            down,
            up,
            began: None,
        }
    }

    /// That of a fault that began at this time.
    #[must_use]
    pub fn begun(self, began: SimTime) -> Self {
        Self {
            began: Some(began),
            ..self
        }
    }
}

impl OtherName {
    /// A name with this suffix.
    #[must_use]
    pub fn new(suffix: impl Into<String>) -> Self {
        Self {
            suffix: suffix.into(),
            began: None,
        }
    }

    /// That of a fault that began at this time.
    #[must_use]
    pub fn begun(self, began: SimTime) -> Self {
        Self {
            began: Some(began),
            ..self
        }
    }
}
