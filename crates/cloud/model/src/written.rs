//! Values that users write as text: durations, fractions, rates of clocks and amounts of money. Each keeps its text, so
//! that an object that is written again has what its user wrote.

use std::{fmt, ops::RangeInclusive, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration of zero or more in Go's syntax, such as `90s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoDuration {
    text: Box<str>,
    value: Duration,
}

/// A decimal fraction from 0 to 1, such as `0.2`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fraction {
    text: Box<str>,
    value: f64,
}

/// How much time passes in a cloud for each second: a decimal number from 0.01 to 1000, with up to six decimal places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockRate {
    text: Box<str>,
    millionths: u64,
}

/// An amount of money, or a price: a decimal number of zero or more, with up to six decimal places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amount {
    text: Box<str>,
    millionths: u64,
}

/// It is never NaN.
impl Eq for Fraction {}

/// A text that is no fraction from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FractionError;

impl fmt::Display for FractionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a decimal fraction from 0 to 1, such as 0.2")
    }
}

impl std::error::Error for FractionError {}

/// A text that is no amount of money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmountError;

impl fmt::Display for AmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a decimal number with up to six decimal places, such as 0.096")
    }
}

impl std::error::Error for AmountError {}

/// A text that is not the rate of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRateError;

impl fmt::Display for ClockRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a decimal number from 0.01 to 1000")
    }
}

impl std::error::Error for ClockRateError {}

impl GoDuration {
    /// Reads a duration.
    ///
    /// # Errors
    /// If the text does not follow Go's syntax, or the duration is negative or longer than 292 years.
    pub fn parse(text: &str) -> Result<Self, nephele_go_duration::DurationError> {
        Ok(Self {
            value: nephele_go_duration::parse(text)?,
            text: text.into(),
        })
    }

    /// A duration that no user has written, in whole milliseconds.
    #[must_use]
    pub fn of(duration: Duration) -> Self {
        let value = Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        Self {
            text: nephele_go_duration::format(value).into(),
            value,
        }
    }

    /// The duration.
    #[must_use]
    pub fn get(&self) -> Duration {
        self.value
    }

    /// What its user wrote.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Fraction {
    /// Reads a fraction: digits and at most one point, no sign and no exponent.
    ///
    /// # Errors
    /// If the text is no such fraction.
    pub fn parse(text: &str) -> Result<Self, FractionError> {
        let (whole, rest) = digits(text);
        let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
        let has_digits = !whole.is_empty() || !fraction.is_empty();
        if !has_digits || !rest.is_empty() || !matches!(whole, "" | "0" | "1") {
            return Err(FractionError);
        }
        if whole == "1" && fraction.bytes().any(|digit| digit != b'0') {
            return Err(FractionError);
        }
        let value = format!("0{whole}.{fraction}0")
            .parse()
            .map_err(|_| FractionError)?;
        Ok(Self {
            text: text.into(),
            value,
        })
    }

    /// The fraction.
    #[must_use]
    pub fn get(&self) -> f64 {
        self.value
    }

    /// The fraction in millionths.
    #[must_use]
    pub fn per_million(&self) -> u32 {
        (self.value * 1e6).round() as u32
    }
}

impl ClockRate {
    const MILLIONTHS: RangeInclusive<u64> = 10_000..=1_000_000_000;

    /// Reads a rate, as the schema has it.
    ///
    /// # Errors
    /// If the text is no such number.
    pub fn parse(text: &str) -> Result<Self, ClockRateError> {
        let (whole, _) = text.split_once('.').unwrap_or((text, ""));
        let has_spare_zero = whole.len() > 1 && whole.starts_with('0');
        let millionths = millionths(text)
            .filter(|_| !has_spare_zero)
            .ok_or(ClockRateError)?;
        let is_rate = Self::MILLIONTHS.contains(&millionths);
        if is_rate {
            Ok(Self {
                text: text.into(),
                millionths,
            })
        } else {
            Err(ClockRateError)
        }
    }

    /// A rate that no user has written, or the next one that is allowed.
    #[must_use]
    pub fn of(millionths: u64) -> Self {
        let millionths = millionths.clamp(*Self::MILLIONTHS.start(), *Self::MILLIONTHS.end());
        Self {
            text: decimal(millionths),
            millionths,
        }
    }

    /// The rate in millionths.
    #[must_use]
    pub fn millionths(&self) -> u64 {
        self.millionths
    }

    /// What its user wrote.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Amount {
    /// Reads an amount.
    ///
    /// # Errors
    /// If the text is no such number, or the number is beyond 64 bits of millionths.
    pub fn parse(text: &str) -> Result<Self, AmountError> {
        let millionths = millionths(text).ok_or(AmountError)?;
        Ok(Self {
            text: text.into(),
            millionths,
        })
    }

    /// An amount that no user has written.
    #[must_use]
    pub fn of(millionths: u64) -> Self {
        Self {
            text: decimal(millionths),
            millionths,
        }
    }

    /// The amount in millionths.
    #[must_use]
    pub fn millionths(&self) -> u64 {
        self.millionths
    }

    /// What its user wrote.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Nothing.
impl Default for Amount {
    fn default() -> Self {
        Self::of(0)
    }
}

/// A decimal number with up to six decimal places, in millionths.
fn millionths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 6 {
        return None;
    }
    let fraction = format!("{fraction:0<6}").parse::<u64>().ok()?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000)?
        .checked_add(fraction)
}

/// The shortest text for so many millionths.
fn decimal(millionths: u64) -> Box<str> {
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').into()
}

/// The leading digits of a text, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// A value that is written as its text.
macro_rules! written {
    ($value:ident, $expected:literal) => {
        impl Serialize for $value {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.text)
            }
        }

        impl<'de> Deserialize<'de> for $value {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let wrong = |_| de::Error::custom(format_args!(concat!("{:?} is not ", $expected), text));
                Self::parse(&text).map_err(wrong)
            }
        }
    };
}

written!(GoDuration, "a duration such as 90s");
written!(Fraction, "a fraction from 0 to 1");
written!(ClockRate, "a number from 0.01 to 1000");
written!(Amount, "an amount such as 0.096");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn no_pattern_takes_longer_than_its_length_allows() {
        nephele_growth::assert_linear("fraction", 64 * 1024, &["", "0."], |text| {
            let _ = Fraction::parse(text);
        });
        nephele_growth::assert_linear("rate of a clock", 64 * 1024, &["", "0."], |text| {
            let _ = ClockRate::parse(text);
        });
        nephele_growth::assert_linear("amount", 64 * 1024, &["", "0."], |text| {
            let _ = Amount::parse(text);
        });
    }

    #[test]
    fn an_amount_has_up_to_six_decimal_places() {
        let value = |text| Amount::parse(text).map(|amount| amount.millionths());
        for (text, millionths) in [
            ("0", 0),
            ("0.096", 96_000),
            ("12", 12_000_000),
            ("999999.999999", 999_999_999_999),
            ("18446744073709.551615", u64::MAX),
        ] {
            assert_eq!(value(text), Ok(millionths), "{text}");
        }
        for wrong in [
            "",
            "-1",
            ".5",
            "1.",
            "1e3",
            "0.0000001",
            "18446744073709.551616",
            "99999999999999999999",
        ] {
            assert_eq!(value(wrong), Err(AmountError), "{wrong:?}");
        }
    }

    #[test]
    fn a_fraction_is_from_zero_to_one() {
        let value = |text| Fraction::parse(text).map(|fraction| fraction.get());
        for (text, expected) in [
            ("0", 0.0),
            ("0.2", 0.2),
            (".5", 0.5),
            ("1", 1.0),
            ("1.00", 1.0),
            ("0.", 0.0),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        for text in [
            "", ".", "-0.1", "+0.1", "1.1", "2", "1e-1", "NaN", "inf", "0.2 ", "00.1", "20%",
        ] {
            assert_eq!(value(text), Err(FractionError), "{text:?}");
        }
    }

    #[test]
    fn a_rate_is_a_decimal_number_from_0_01_to_1000() {
        let value = |text| ClockRate::parse(text).map(|rate| rate.millionths());
        for (text, millionths) in [
            ("0.01", 10_000),
            ("0.25", 250_000),
            ("1", 1_000_000),
            ("3.70", 3_700_000),
            ("12.000001", 12_000_001),
            ("1000", 1_000_000_000),
            ("1000.0", 1_000_000_000),
        ] {
            assert_eq!(value(text), Ok(millionths), "{text}");
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
            assert_eq!(value(wrong), Err(ClockRateError), "{wrong:?}");
        }
    }

    #[test]
    fn what_a_user_wrote_is_written_again() {
        let duration: GoDuration = serde_json::from_value(json!("1m30.0s")).expect("a duration");
        assert_eq!(duration.get(), Duration::from_secs(90));
        assert_eq!(serde_json::to_value(&duration).expect("text"), json!("1m30.0s"));
        let of_code = GoDuration::of(Duration::from_micros(1_500_999));
        assert_eq!(GoDuration::parse("1500ms"), Ok(of_code));
        let fraction: Fraction = serde_json::from_value(json!(".50")).expect("a fraction");
        assert_eq!(fraction.per_million(), 500_000);
        assert_eq!(serde_json::to_value(&fraction).expect("text"), json!(".50"));
        let rate: ClockRate = serde_json::from_value(json!("3.70")).expect("a rate");
        assert_eq!(serde_json::to_value(&rate).expect("text"), json!("3.70"));
    }

    #[test]
    fn a_mistake_names_the_text_and_what_would_be_right() {
        let duration = serde_json::from_value::<GoDuration>(json!("-1s")).expect_err("negative");
        assert_eq!(duration.to_string(), r#""-1s" is not a duration such as 90s"#);
        let fraction = serde_json::from_value::<Fraction>(json!("2")).expect_err("too large");
        assert_eq!(fraction.to_string(), r#""2" is not a fraction from 0 to 1"#);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-+0-9.e ]{0,24}|.{0,12}") {
            let _ = Fraction::parse(&text);
        }

        #[test]
        fn any_text_is_a_rate_or_none(text in "[-+0-9.e ]{0,12}|.{0,12}") {
            let _ = ClockRate::parse(&text);
        }

        #[test]
        fn any_text_is_an_amount_or_none(text in "[-+0-9.e ]{0,24}|.{0,12}") {
            let _ = Amount::parse(&text);
        }

        #[test]
        fn an_amount_reads_back_from_its_text(millionths: u64) {
            let amount = Amount::of(millionths);
            prop_assert_eq!(Amount::parse(amount.as_str()), Ok(amount));
        }

        #[test]
        fn a_rate_reads_back_from_its_text(millionths in ClockRate::MILLIONTHS) {
            let rate = ClockRate::of(millionths);
            prop_assert_eq!(rate.millionths(), millionths);
            prop_assert_eq!(ClockRate::parse(rate.as_str()), Ok(rate));
        }

        #[test]
        fn a_fraction_of_digits_is_their_number(digits in "[0-9]{1,12}") {
            let text = format!("0.{digits}");
            let value = Fraction::parse(&text).map(|fraction| fraction.get());
            prop_assert_eq!(value, Ok(text.parse().expect("a number")));
        }
    }
}
