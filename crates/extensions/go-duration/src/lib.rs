//! Durations in Go's syntax (Go, package `time`), for flags of managers, fields of objects and requests of Cluster API.
//! The crate depends on no other crate of Nephele, so that `runtime-sdk` can be used without the rest.

// Numbers of users enter here: a sum that wraps is a wrong answer, and one that panics ends a request.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use std::time::Duration;

/// Why a text is not a duration of zero or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// The text does not follow Go's syntax.
    #[error("must be a duration such as 300ms, 20s or 1m30s")]
    Syntax,
    /// The duration is negative.
    #[error("must not be negative")]
    Negative,
    /// The duration is too long: Go counts nanoseconds in 63 bits, which is 292 years.
    #[error("must not be longer than 292 years")]
    TooLong,
}

/// Units with their length in nanoseconds. Of two names with the same beginning, the longer one comes first.
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

/// The digits after the point that can make a difference: an hour has 3.6e12 nanoseconds.
const FRACTION_DIGITS_MAX: u32 = 15;

/// Parses a duration of zero or more (Go, package `time`, `ParseDuration`): a sign, then numbers with fractions, each
/// with a unit; `0` needs no unit. Fractions of a nanosecond are cut off.
///
/// # Errors
///
/// When the text is not a duration, or the duration is negative or too long.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let nanos = if unsigned == "0" {
        0
    } else {
        nanoseconds(unsigned)?
    };
    if nanos > i64::MAX.unsigned_abs() {
        return Err(DurationError::TooLong);
    }
    if negative && nanos > 0 {
        return Err(DurationError::Negative);
    }
    Ok(Duration::from_nanos(nanos))
}

/// Formats whole seconds as `90s`, and other durations in milliseconds, without fractions. Go parses both.
#[must_use]
pub fn format(duration: Duration) -> String {
    if duration.subsec_nanos() == 0 {
        format!("{}s", duration.as_secs())
    } else {
        format!("{}ms", duration.as_millis())
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
        // A unit must be followed by a number or the end. "ms" comes before "m" in the table, so "m" is not mistaken
        // for it.
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
    // A 64-bit number has at most twenty digits.
    if whole.len() > 20 {
        return Err(DurationError::TooLong);
    }
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| DurationError::TooLong)?
    };
    let kept = &fraction[..fraction.len().min(FRACTION_DIGITS_MAX as usize)];
    let numerator: u128 = if kept.is_empty() {
        0
    } else {
        kept.parse().map_err(|_| DurationError::Syntax)?
    };
    let denominator = 10_u128.pow(u32::try_from(kept.len()).unwrap_or(FRACTION_DIGITS_MAX));
    let scale = u128::from(scale);
    // Twenty digits in the largest unit are less than 2^112, so this is never cut.
    let fraction = numerator
        .saturating_mul(scale)
        .checked_div(denominator)
        .unwrap_or_default();
    Ok(whole.saturating_mul(scale).saturating_add(fraction))
}

/// The digits at the beginning of a text, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_pattern_takes_longer_than_its_length_allows() {
        nephele_growth::assert_linear("duration", 64 * 1024, &["", "1"], |text| {
            let _ = parse(text);
        });
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
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in [
            "", "3", "-", "+", "s", ".", "-.", ".s", "+.s", "1d", "5 s", "5S", "1e3s", "1m2", "1.2.3s",
            "--1s", "5sx",
        ] {
            assert_eq!(parse(text), Err(DurationError::Syntax), "{text:?}");
        }
        for text in [
            "9223372036854775808ns",
            "3000000h",
            "9223372036854775.808us",
            "99999999999999999999999s",
        ] {
            assert_eq!(parse(text), Err(DurationError::TooLong), "{text:?}");
        }
        for text in ["-1ns", "-5m30s"] {
            assert_eq!(parse(text), Err(DurationError::Negative), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9.nuµμmsh ]{0,24}|.{0,12}") {
            let _ = parse(&text);
        }

        #[test]
        fn what_is_written_is_read_again(milliseconds in 0_u64..9_000_000_000_000) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }

        #[test]
        fn a_sum_of_parts_is_the_sum_of_its_parts(
            hours in 0_u64..1_000_000, minutes in 0_u64..10_000, seconds in 0_u64..10_000, nanos in 0_u64..2_000_000_000,
        ) {
            let text = format!("{hours}h{minutes}m{seconds}s{nanos}ns");
            let sum = Duration::from_secs(hours * 3600 + minutes * 60 + seconds) + Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&text), Ok(sum));
        }

        #[test]
        fn a_fraction_is_exact_to_the_nanosecond(seconds in 0_u64..1_000_000, nanos in 0_u64..1_000_000_000) {
            let text = format!("{seconds}.{nanos:09}s");
            prop_assert_eq!(parse(&text), Ok(Duration::new(seconds, u32::try_from(nanos).expect("below 1e9"))));
        }
    }
}
