//! Probabilities.

use serde::{Deserialize, Serialize};

use crate::as_bits;

/// The probability that something happens, such as a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Odds(#[serde(with = "as_bits")] f64);

impl Odds {
    /// It never fails.
    pub const NEVER: Self = Self(0.0);

    /// Fails with `probability`, clamped to 0..=1; NaN counts as never.
    #[must_use]
    pub fn new(probability: f64) -> Self {
        Self(if probability.is_nan() {
            0.0
        } else {
            probability.clamp(0.0, 1.0)
        })
    }

    /// The probability, between 0 and 1.
    #[must_use]
    pub fn probability(self) -> f64 {
        self.0
    }
}
