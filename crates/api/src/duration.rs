//! Durations as Go writes them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A duration in Go's syntax (`time.ParseDuration`), such as `10s` or `1m30.5s`; never negative. This is the form of
/// `metav1.Duration`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GoDuration(Duration);

/// The text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("failed to parse {0:?} as a duration: expected a text such as \"10s\" or \"1m30s\", not negative")]
pub struct GoDurationError(String);

/// What the schema admits; [`GoDuration::from_str`] takes the same and `0`.
const PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$";

impl GoDuration {
    /// The duration.
    #[must_use]
    pub fn get(self) -> Duration {
        self.0
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl FromStr for GoDuration {
    type Err = GoDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || GoDurationError(text.to_owned());
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let (mut rest, mut total) = (text, Duration::ZERO);
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
            let (number, tail) = rest.split_at(end);
            let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            let seconds = match unit {
                "ns" => 1e-9,
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return Err(error()),
            };
            let number: f64 = number.parse().map_err(|_| error())?;
            let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| error())?;
            total = total.checked_add(part).ok_or_else(error)?;
            rest = tail;
        }
        if text.is_empty() { Err(error()) } else { Ok(Self(total)) }
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (hours, minutes, seconds, nanos) =
            (seconds / 3600, seconds / 60 % 60, seconds % 60, self.0.subsec_nanos());
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        if nanos == 0 {
            return write!(f, "{seconds}s");
        }
        let fraction = format!("{nanos:09}");
        write!(f, "{seconds}.{}s", fraction.trim_end_matches('0'))
    }
}

impl TryFrom<String> for GoDuration {
    type Error = GoDurationError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<GoDuration> for String {
    fn from(duration: GoDuration) -> Self {
        duration.to_string()
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": PATTERN, "maxLength": 64})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_reads_them_and_write_back_the_same_time() {
        let cases =
            [("10s", 10_000), ("1m30.5s", 90_500), ("1.5h", 5_400_000), ("250ms", 250), ("0", 0), ("0s", 0)];
        for (text, millis) in cases {
            let parsed: GoDuration = text.parse().unwrap();
            assert_eq!(parsed.get(), Duration::from_millis(millis), "{text}");
            assert_eq!(parsed.to_string().parse::<GoDuration>(), Ok(parsed), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "-1s", "10", "s", "1d", "1s-1s", "1e9h", "99999999999999999999h", ".", ".s", "1..2s"]
        {
            assert!(text.parse::<GoDuration>().is_err(), "{text}");
        }
    }
}
