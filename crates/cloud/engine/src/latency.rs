//! How long operations take, and how often they fail.

use std::time::Duration;

use nephele_model::{Distribution, Fraction, GoDuration};
use serde::{Deserialize, Serialize};

use crate::{quantile, seed::Draws};

/// The distribution of a duration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Latency {
    /// Always the same.
    Fixed(Duration),
    /// `base` plus up to `fraction` of it, uniformly. `startupDuration` and `startupJitter` have this form.
    Jittered {
        base: Duration,
        /// The part of `base` that may be added; values that are negative or not finite count as zero.
        #[serde(with = "nephele_model::as_bits")]
        fraction: f64,
    },
    /// Uniform between two bounds, which may be in either order.
    Uniform { min: Duration, max: Duration },
    /// Normal. Like all that follow, its draws are cut off at zero and at [`Latency::MAX`].
    Normal {
        mean: Duration,
        standard_deviation: Duration,
    },
    /// Lognormal.
    Lognormal {
        median: Duration,
        /// 99 of 100 draws are at most this. A value below the median counts as the median.
        p99: Duration,
    },
    /// Triangular. Bounds that are in the wrong order are put in order.
    Triangular {
        min: Duration,
        mode: Duration,
        max: Duration,
    },
    /// Exponential.
    Exponential { mean: Duration },
    /// One of these values, each with the same probability. Without values there is no delay.
    Empirical(Vec<Duration>),
}

impl Latency {
    /// This duration, and at most this part of it more.
    #[must_use]
    pub fn jittered(duration: &GoDuration, jitter: Option<&Fraction>) -> Self {
        Self::Jittered {
            base: duration.get(),
            fraction: jitter.map(Fraction::get).unwrap_or_default(),
        }
    }

    /// No delay.
    pub const ZERO: Self = Self::Fixed(Duration::ZERO);

    /// The longest draw of a distribution without an upper bound: a day.
    pub const MAX: Duration = Duration::from_secs(24 * 60 * 60);

    /// Draws a duration: one number from 0 to 1, and from it the duration of that quantile. So a release that adds a
    /// distribution changes no draw, and a draw is the same on every machine.
    pub(crate) fn draw(&self, draws: &mut Draws) -> Duration {
        let (base, spread) = match self {
            Self::Fixed(duration) => return *duration,
            Self::Jittered { base, fraction } => {
                let fraction = if fraction.is_finite() {
                    fraction.max(0.0)
                } else {
                    0.0
                };
                (*base, base.as_secs_f64() * fraction)
            }
            Self::Uniform { min, max } => (*min.min(max), min.abs_diff(*max).as_secs_f64()),
            Self::Normal {
                mean,
                standard_deviation,
            } => {
                let deviations = quantile::normal(draws.unit());
                return bounded(mean.as_secs_f64() + standard_deviation.as_secs_f64() * deviations);
            }
            Self::Lognormal { median, p99 } => {
                let median = median.as_secs_f64();
                let p99 = p99.as_secs_f64();
                let factor = quantile::lognormal(draws.unit(), if p99 > median { p99 / median } else { 1.0 });
                return bounded(median * factor);
            }
            Self::Triangular { min, mode, max } => {
                let mut corners = [min, mode, max].map(Duration::as_secs_f64);
                corners.sort_by(f64::total_cmp);
                return bounded(quantile::triangular(draws.unit(), corners));
            }
            Self::Exponential { mean } => {
                return bounded(mean.as_secs_f64() * quantile::exponential(draws.unit()));
            }
            Self::Empirical(values) => {
                let place = (draws.unit() * values.len() as f64) as usize;
                return values.get(place).copied().unwrap_or_default().min(Self::MAX);
            }
        };
        let extra = Duration::try_from_secs_f64(spread * draws.unit()).unwrap_or(Duration::MAX);
        base.saturating_add(extra)
    }

    /// The kind of distribution and its parameters.
    pub(crate) fn parts(&self) -> (&'static str, Vec<Duration>, Option<u64>) {
        match self {
            Self::Fixed(duration) => ("fixed", vec![*duration], None),
            Self::Jittered { base, fraction } => ("jittered", vec![*base], Some(fraction.to_bits())),
            Self::Uniform { min, max } => ("uniform", vec![*min, *max], None),
            Self::Normal {
                mean,
                standard_deviation,
            } => ("normal", vec![*mean, *standard_deviation], None),
            Self::Lognormal { median, p99 } => ("lognormal", vec![*median, *p99], None),
            Self::Triangular { min, mode, max } => ("triangular", vec![*min, *mode, *max], None),
            Self::Exponential { mean } => ("exponential", vec![*mean], None),
            Self::Empirical(values) => ("empirical", values.clone(), None),
        }
    }
}

impl From<&Distribution> for Latency {
    /// Parameters beyond the longest draw count as it.
    fn from(distribution: &Distribution) -> Self {
        let bounded = |duration: &GoDuration| duration.get().min(Self::MAX);
        match distribution {
            Distribution::Fixed { duration } => Self::Fixed(bounded(duration)),
            Distribution::Uniform { min, max } => Self::Uniform {
                min: bounded(min),
                max: bounded(max),
            },
            Distribution::Normal {
                mean,
                standard_deviation,
            } => Self::Normal {
                mean: bounded(mean),
                standard_deviation: bounded(standard_deviation),
            },
            Distribution::Lognormal { median, p99 } => Self::Lognormal {
                median: bounded(median),
                p99: bounded(p99),
            },
            Distribution::Triangular { min, mode, max } => Self::Triangular {
                min: bounded(min),
                mode: bounded(mode),
                max: bounded(max),
            },
            Distribution::Exponential { mean } => Self::Exponential { mean: bounded(mean) },
            Distribution::Empirical { values } => Self::Empirical(values.iter().map(bounded).collect()),
        }
    }
}

/// A duration of whole milliseconds within the bounds of a draw. The last bits of a computation do not count.
fn bounded(seconds: f64) -> Duration {
    // A conversion of a float saturates, and NaN becomes zero.
    Duration::from_millis((seconds * 1000.0).round() as u64).min(Latency::MAX)
}

impl PartialEq for Latency {
    /// Compares the bits of floats, so that each value equals itself, even NaN. A repeated request must be recognised
    /// as one.
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Latency {}
