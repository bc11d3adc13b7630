//! How long operations take, and how often they fail.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::seed::Draws;

/// The distribution of a duration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Latency {
    /// Always the same.
    Fixed(Duration),
    /// `base` plus up to `fraction` of it, uniformly. `startupDuration` and `startupJitter` have this form.
    Jittered {
        /// The minimum.
        base: Duration,
        /// The part of `base` that may be added; values that are negative or not finite count as zero.
        #[serde(with = "bits")]
        fraction: f64,
    },
    /// Uniform between two bounds, which may be in either order.
    Uniform {
        /// One bound.
        min: Duration,
        /// The other bound.
        max: Duration,
    },
}

impl Latency {
    /// No delay.
    pub const ZERO: Self = Self::Fixed(Duration::ZERO);

    pub(crate) fn draw(&self, draws: &mut Draws) -> Duration {
        let (base, spread) = match *self {
            Self::Fixed(duration) => return duration,
            Self::Jittered { base, fraction } => {
                let fraction = if fraction.is_finite() { fraction.max(0.0) } else { 0.0 };
                (base, base.as_secs_f64() * fraction)
            }
            Self::Uniform { min, max } => (min.min(max), min.abs_diff(max).as_secs_f64()),
        };
        let extra = Duration::try_from_secs_f64(spread * draws.unit()).unwrap_or(Duration::MAX);
        base.saturating_add(extra)
    }
}

impl PartialEq for Latency {
    /// Compares the bits of floats, so that each value equals itself, even NaN. A repeated request must be recognised
    /// as one.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fixed(a), Self::Fixed(b)) => a == b,
            (
                Self::Jittered { base, fraction },
                Self::Jittered { base: other_base, fraction: other_fraction },
            ) => base == other_base && fraction.to_bits() == other_fraction.to_bits(),
            (Self::Uniform { min, max }, Self::Uniform { min: other_min, max: other_max }) => {
                min == other_min && max == other_max
            }
            (Self::Fixed(_) | Self::Jittered { .. } | Self::Uniform { .. }, _) => false,
        }
    }
}

impl Eq for Latency {}

/// The probability of a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Odds(#[serde(with = "bits")] f64);

impl Odds {
    /// It never fails.
    pub const NEVER: Self = Self(0.0);

    /// Fails with `probability`, clamped to 0..=1; NaN counts as never.
    #[must_use]
    pub fn new(probability: f64) -> Self {
        Self(if probability.is_nan() { 0.0 } else { probability.clamp(0.0, 1.0) })
    }

    /// The probability, between 0 and 1.
    #[must_use]
    pub fn probability(self) -> f64 {
        self.0
    }

    pub(crate) fn draw(self, draws: &mut Draws) -> bool {
        draws.unit() < self.0
    }
}

/// Serializes a float as its bits, so that every value, even NaN, survives a round trip.
mod bits {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(value.to_bits())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}
