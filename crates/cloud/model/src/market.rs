//! How instances are paid for.

use serde::{Deserialize, Serialize};

/// How an instance is paid for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Market {
    /// At the usual price.
    #[default]
    OnDemand,
    /// At a lower price. The cloud may take it back.
    Spot,
}

impl Market {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::OnDemand, Self::Spot];

    /// The market of this name. On demand for any other text, which no schema takes.
    #[must_use]
    pub fn of(name: &str) -> Self {
        if name == Self::Spot.as_str() {
            Self::Spot
        } else {
            Self::OnDemand
        }
    }

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnDemand => "OnDemand",
            Self::Spot => "Spot",
        }
    }

    /// Whether it is the usual one.
    #[must_use]
    pub fn is_on_demand(&self) -> bool {
        *self == Self::OnDemand
    }
}
