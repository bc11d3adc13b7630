//! The texts of durations and fractions, as the schema takes them. [`nephele_model`] reads them.

/// The pattern for a duration of zero or more in Go (`time.ParseDuration`). As a pattern in the schema it makes the API
/// server refuse other strings.
pub(crate) const DURATION_PATTERN: &str = r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// A decimal fraction from 0 to 1.
pub(crate) const JITTER_PATTERN: &str = r"^(0?\.[0-9]+|0\.?|1(\.0*)?)$";
