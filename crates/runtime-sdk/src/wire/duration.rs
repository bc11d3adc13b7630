//! Durations as Go writes them.

use std::{fmt, str::FromStr, time::Duration};

use thiserror::Error;

/// A duration in Go's text, such as `10s` or `1m30s` (Go, `time.ParseDuration`). A call says in it how long the caller
/// waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub Duration);

/// Why a text is no duration.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("failed to read {0:?} as a duration such as 10m, 1h30m, 1.5s or 250ms")]
pub struct DurationError(String);

const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("μs", 1e-6),
    ("ms", 1e-3),
    ("h", 3600.0),
    ("m", 60.0),
    ("s", 1.0),
];

impl FromStr for GoDuration {
    type Err = DurationError;

    /// Reads a duration that is not negative: numbers with a unit each, one after the other; `0` needs no unit.
    fn from_str(text: &str) -> Result<Self, DurationError> {
        let failed = || DurationError(text.to_owned());
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        if rest == "0" {
            return Ok(Self(Duration::ZERO));
        }
        if rest.is_empty() {
            return Err(failed());
        }
        let mut seconds = 0.0;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(failed)?;
            let (number, from_unit) = rest.split_at(end);
            let number: f64 = number.parse().map_err(|_| failed())?;
            let end = from_unit.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(from_unit.len());
            let (unit, after) = from_unit.split_at(end);
            let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(failed)?;
            seconds += number * factor;
            rest = after;
        }
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| failed())
    }
}

impl fmt::Display for GoDuration {
    /// Writes whole seconds as `90s`, others in milliseconds: Go reads both.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.subsec_nanos() == 0 {
            write!(f, "{}s", self.0.as_secs())
        } else {
            write!(f, "{}ms", self.0.as_millis())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, milliseconds) in [
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("1h0m0s", 3_600_000),
            ("1.5s", 1_500),
            ("250ms", 250),
            ("0", 0),
            ("0s", 0),
            ("15s", 15_000),
            ("10m", 600_000),
            ("600s", 600_000),
            ("1h30m", 5_400_000),
            ("1m0.5s", 60_500),
            ("+1m.5s", 60_500),
        ] {
            assert_eq!(text.parse(), Ok(GoDuration(Duration::from_millis(milliseconds))), "{text}");
        }
        let refused =
            ["", "10", "s", "-1s", "1 s", "1x", "1.2.3s", "1e9999s", "NaNs", "99999999999999999999h", "+"];
        for text in refused {
            assert_eq!(text.parse::<GoDuration>(), Err(DurationError(text.to_owned())));
        }
        assert_eq!(GoDuration(Duration::from_secs(30)).to_string(), "30s");
        assert_eq!(GoDuration(Duration::from_millis(1500)).to_string(), "1500ms");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[0-9.+hmsnuµ -]{0,12}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}
