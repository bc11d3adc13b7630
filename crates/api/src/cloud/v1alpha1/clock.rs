//! The clock of a `SimulatedCloud`.

use std::fmt;
use std::ops::RangeInclusive;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::start_up::DURATION_PATTERN;

/// A decimal number from 0.01 to 1000, with up to six decimal places.
pub(super) const RATE_PATTERN: &str =
    r"^(0\.0[1-9][0-9]{0,4}|0\.[1-9][0-9]{0,5}|[1-9][0-9]{0,2}(\.[0-9]{1,6})?|1000(\.0{1,6})?)$";

/// How much time passes in a cloud for each second, as users write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockRate {
    millionths: u64,
}

/// The string is not the rate of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a decimal number from 0.01 to 1000")]
pub struct ClockRateError;

impl ClockRate {
    /// As fast as the real time.
    pub const ONE: Self = Self { millionths: 1_000_000 };
    const MILLIONTHS: RangeInclusive<u64> = 10_000..=1_000_000_000;

    /// Reads a decimal number from 0.01 to 1000 with up to six decimal places, as the schema has it.
    ///
    /// # Errors
    ///
    /// When the string is not such a number.
    pub fn parse(text: &str) -> Result<Self, ClockRateError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        let has_spare_zero = whole.len() > 1 && whole.starts_with('0');
        if !is_number(whole)
            || !is_number(fraction)
            || has_spare_zero
            || whole.len() > 4
            || fraction.len() > 6
        {
            return Err(ClockRateError);
        }
        let part = |digits: &str| digits.parse::<u64>().map_err(|_| ClockRateError);
        let millionths = part(whole)? * 1_000_000 + part(&format!("{fraction:0<6}"))?;
        Self::from_millionths(millionths).ok_or(ClockRateError)
    }

    /// The rate of so many millionths, if it is in range.
    #[must_use]
    pub fn from_millionths(millionths: u64) -> Option<Self> {
        Self::MILLIONTHS.contains(&millionths).then_some(Self { millionths })
    }

    /// The rate in millionths.
    #[must_use]
    pub const fn millionths(self) -> u64 {
        self.millionths
    }
}

/// The shortest text for the rate.
impl fmt::Display for ClockRate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:06}", self.millionths / 1_000_000, self.millionths % 1_000_000);
        formatter.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// How fast time passes for the machines of a cloud: for the stages of their start, their updates in place and their
/// deletions. Changes take effect at once. Other durations, such as those of Faults, do not follow this clock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CloudClock {
    /// How much time passes in the cloud for each second, from 0.01 to 1000; by default 1.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 16), regex(pattern = RATE_PATTERN))]
    pub rate: String,
    /// Whether the clock stands still. Then no stage, update or deletion ends, not even one that takes no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// A counter for a paused clock. When it grows by one, one stage, update or deletion ends: the one that would be
    /// next. A step for which nothing is under way does nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub steps: Option<i64>,
    /// A total. When it grows, so much time passes in the cloud at once, also while the clock is paused.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub ahead: String,
}

/// The clock of a cloud as the manager has last set it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CloudClockStatus {
    /// How much time passes in the cloud for each second.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 16), regex(pattern = RATE_PATTERN))]
    pub rate: String,
    /// Whether the clock stands still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// The steps that were carried out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub steps: Option<i64>,
    /// The time ahead that was carried out.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 32), regex(pattern = DURATION_PATTERN))]
    pub ahead: String,
    /// When the clock last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub since: Option<MicroTime>,
    /// The time in the cloud when the clock last changed. It equals the real time until the first change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::instant")]
    pub time: Option<MicroTime>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_pattern_takes_longer_than_its_length_allows() {
        nephele_growth::assert_linear("rate of a clock", 64 * 1024, &["", "0."], |text| {
            let _ = ClockRate::parse(text);
        });
    }

    #[test]
    fn a_rate_is_a_decimal_number_from_0_01_to_1000() {
        for (text, millionths) in [
            ("0.01", 10_000),
            ("0.25", 250_000),
            ("1", 1_000_000),
            ("3.70", 3_700_000),
            ("12.000001", 12_000_001),
            ("1000", 1_000_000_000),
            ("1000.0", 1_000_000_000),
        ] {
            assert_eq!(ClockRate::parse(text), Ok(ClockRate { millionths }), "{text}");
        }
        for wrong in [
            "",
            ".",
            "0",
            "0.009",
            "0.009999",
            "1000.1",
            "10000",
            "1e3",
            "-1",
            "+1",
            "NaN",
            "inf",
            ".5",
            "5.",
            "01",
            "00.5",
            "1.0000001",
            "1.5.5",
            "1 ",
        ] {
            assert_eq!(ClockRate::parse(wrong), Err(ClockRateError), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9.e ]{0,12}|.{0,12}") {
            let _ = ClockRate::parse(&text);
        }

        #[test]
        fn a_rate_reads_back_from_its_text(millionths in ClockRate::MILLIONTHS) {
            let rate = ClockRate { millionths };
            prop_assert_eq!(ClockRate::parse(&rate.to_string()), Ok(rate));
        }
    }
}
