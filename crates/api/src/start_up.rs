//! How long the parts of a machine take to start, as people write it.

use std::time::Duration;

/// A duration as Go writes it, zero or more: `300ms`, `1.5h`, `1m30s`, `0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StartupDuration(Duration);

/// Why a text is no start-up duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// It does not follow Go's syntax.
    #[error("must be a duration such as 300ms, 20s or 1m30s")]
    Syntax,
    /// It lies before zero.
    #[error("must not be negative")]
    Negative,
    /// Go counts nanoseconds in 63 bits, which is 292 years.
    #[error("must not be longer than 292 years")]
    TooLong,
}

/// What Go takes for a duration of zero or more (`time.ParseDuration`). As a schema's pattern it refuses the rest at
/// the API server.
pub(crate) const DURATION_PATTERN: &str = r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// Units with their length in nanoseconds; the longer name of two that begin alike comes first.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    // U+00B5 MICRO SIGN and U+03BC GREEK SMALL LETTER MU.
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

/// Digits after the point that can matter: an hour has 3.6e12 nanoseconds.
const FRACTION_DIGITS_MAX: u32 = 15;

impl StartupDuration {
    /// Reads Go's duration syntax (Go, package `time`, `ParseDuration`): a sign, then numbers with fractions, each
    /// with a unit. What is smaller than a nanosecond is cut off.
    ///
    /// # Errors
    ///
    /// When the text is no duration, or one that is negative or too long.
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let nanos = if unsigned == "0" { 0 } else { nanoseconds(unsigned)? };
        if nanos > i64::MAX.unsigned_abs() {
            return Err(DurationError::TooLong);
        }
        if negative && nanos > 0 {
            return Err(DurationError::Negative);
        }
        Ok(Self(Duration::from_nanos(nanos)))
    }

    /// The duration.
    #[must_use]
    pub fn get(self) -> Duration {
        self.0
    }
}

/// The sum of a sequence of numbers with units, at least one.
fn nanoseconds(text: &str) -> Result<u64, DurationError> {
    if text.is_empty() {
        return Err(DurationError::Syntax);
    }
    let mut rest = text;
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (whole, after_whole) = digits(rest);
        let (fraction, after_number) = match after_whole.strip_prefix('.') {
            Some(after_point) => digits(after_point),
            None => ("", after_whole),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(DurationError::Syntax);
        }
        let unit = UNITS.iter().find(|(name, _)| after_number.starts_with(name));
        let (name, scale) = unit.ok_or(DurationError::Syntax)?;
        rest = &after_number[name.len()..];
        // "m" also begins "ms", which comes first in the table; any other letter that follows is no unit.
        if rest.starts_with(|next: char| !next.is_ascii_digit() && next != '.') {
            return Err(DurationError::Syntax);
        }
        total = total
            .checked_add(part(whole, fraction, *scale)?)
            .filter(|total| *total <= u128::from(u64::MAX))
            .ok_or(DurationError::TooLong)?;
    }
    u64::try_from(total).map_err(|_| DurationError::TooLong)
}

/// `whole.fraction` times `scale`.
fn part(whole: &str, fraction: &str, scale: u64) -> Result<u128, DurationError> {
    let whole = whole.trim_start_matches('0');
    // Twenty digits are the most that 64 bits have.
    if whole.len() > 20 {
        return Err(DurationError::TooLong);
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::TooLong)? };
    let kept = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX as usize)];
    let numerator: u128 =
        if kept.is_empty() { 0 } else { kept.parse().map_err(|_| DurationError::Syntax)? };
    let denominator = 10_u128.pow(u32::try_from(kept.len()).unwrap_or(FRACTION_DIGITS_MAX));
    let scale = u128::from(scale);
    Ok(whole * scale + numerator * scale / denominator)
}

/// The digits a text begins with, and what follows.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// How much of the start-up duration may come on top, as a fraction from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct StartupJitter(f64);

/// A text is no fraction from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a decimal fraction from 0 to 1, such as 0.2")]
pub struct JitterError;

/// A decimal fraction from 0 to 1.
pub(crate) const JITTER_PATTERN: &str = r"^(0?\.[0-9]+|0\.?|1(\.0*)?)$";

impl StartupJitter {
    /// Reads a decimal fraction: digits and at most one point, no sign and no exponent.
    ///
    /// # Errors
    ///
    /// When the text is no such fraction.
    pub fn parse(text: &str) -> Result<Self, JitterError> {
        let (whole, rest) = digits(text);
        let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
        let some = !whole.is_empty() || !fraction.is_empty();
        if !some || !rest.is_empty() || !matches!(whole, "" | "0" | "1") {
            return Err(JitterError);
        }
        if whole == "1" && fraction.bytes().any(|digit| digit != b'0') {
            return Err(JitterError);
        }
        format!("0{whole}.{fraction}0").parse().map(Self).map_err(|_| JitterError)
    }

    /// The fraction.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<Duration, DurationError> {
        StartupDuration::parse(text).map(StartupDuration::get)
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, nanos) in [
            ("0", 0),
            ("+0", 0),
            ("-0s", 0),
            ("5s", 5_000_000_000),
            ("+5s", 5_000_000_000),
            ("5.s", 5_000_000_000),
            (".5s", 500_000_000),
            ("1.004s", 1_004_000_000),
            ("100.00100s", 100_001_000_000),
            ("10ns", 10),
            ("11us", 11_000),
            ("12µs", 12_000),
            ("12μs", 12_000),
            ("13ms", 13_000_000),
            ("3h30m", 12_600_000_000_000),
            ("10.5s4m", 250_500_000_000),
            ("1h2m3s4ms5us6ns", 3_723_004_005_006),
            ("39h9m14.425s", 140_954_425_000_000),
            ("0.3333333333333333333h", 1_199_999_999_999),
            ("0.100000000000000000000h", 360_000_000_000),
            ("9223372036854775807ns", 9_223_372_036_854_775_807),
            ("000000000000000000000000001s", 1_000_000_000),
        ] {
            assert_eq!(parsed(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in [
            "", "3", "-", "+", "s", ".", "-.", ".s", "+.s", "1d", "5 s", "5S", "1e3s", "1m2", "1.2.3s",
            "--1s", "5sx",
        ] {
            assert_eq!(parsed(text), Err(DurationError::Syntax), "{text:?}");
        }
        for text in
            ["9223372036854775808ns", "3000000h", "9223372036854775.808us", "99999999999999999999999s"]
        {
            assert_eq!(parsed(text), Err(DurationError::TooLong), "{text:?}");
        }
        for text in ["-1ns", "-5m30s"] {
            assert_eq!(parsed(text), Err(DurationError::Negative), "{text:?}");
        }
    }

    #[test]
    fn jitter_is_a_fraction_from_zero_to_one() {
        for (text, value) in [("0", 0.0), ("0.2", 0.2), (".5", 0.5), ("1", 1.0), ("1.00", 1.0), ("0.", 0.0)] {
            assert_eq!(StartupJitter::parse(text).map(StartupJitter::get), Ok(value), "{text}");
        }
        for text in ["", ".", "-0.1", "+0.1", "1.1", "2", "1e-1", "NaN", "inf", "0.2 ", "00.1", "20%"] {
            assert_eq!(StartupJitter::parse(text), Err(JitterError), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9.nuµμmsh ]{0,24}|.{0,12}") {
            let _ = StartupDuration::parse(&text);
            let _ = StartupJitter::parse(&text);
        }

        #[test]
        fn a_sum_of_parts_is_the_sum_of_its_parts(
            hours in 0_u64..1_000_000, minutes in 0_u64..10_000, seconds in 0_u64..10_000, nanos in 0_u64..2_000_000_000,
        ) {
            let text = format!("{hours}h{minutes}m{seconds}s{nanos}ns");
            let sum = Duration::from_secs(hours * 3600 + minutes * 60 + seconds) + Duration::from_nanos(nanos);
            prop_assert_eq!(parsed(&text), Ok(sum));
        }

        #[test]
        fn a_fraction_is_exact_to_the_nanosecond(seconds in 0_u64..1_000_000, nanos in 0_u64..1_000_000_000) {
            let text = format!("{seconds}.{nanos:09}s");
            prop_assert_eq!(parsed(&text), Ok(Duration::new(seconds, u32::try_from(nanos).expect("below 1e9"))));
        }

        #[test]
        fn a_jitter_of_digits_is_their_number(digits in "[0-9]{1,12}") {
            let text = format!("0.{digits}");
            prop_assert_eq!(StartupJitter::parse(&text).map(StartupJitter::get), Ok(text.parse().expect("a number")));
        }
    }
}
