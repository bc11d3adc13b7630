//! Values that users write as text: durations and fractions. Each keeps its text, so that an object that is written again
//! has what its user wrote.

use std::time::Duration;

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

/// It is never NaN.
impl Eq for Fraction {}

/// A text that is no fraction from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FractionError;

impl std::fmt::Display for FractionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("must be a decimal fraction from 0 to 1, such as 0.2")
    }
}

impl std::error::Error for FractionError {}

impl GoDuration {
    /// Reads a duration.
    ///
    /// # Errors
    /// If the text does not follow Go's syntax, or the duration is negative or longer than 292 years.
    pub fn parse(text: &str) -> Result<Self, nephele_go_duration::DurationError> {
        Ok(Self { value: nephele_go_duration::parse(text)?, text: text.into() })
    }

    /// A duration that no user has written, in whole milliseconds.
    #[must_use]
    pub fn of(duration: Duration) -> Self {
        let value = Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        Self { text: nephele_go_duration::format(value).into(), value }
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
        let value = format!("0{whole}.{fraction}0").parse().map_err(|_| FractionError)?;
        Ok(Self { text: text.into(), value })
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

/// The leading digits of a text, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = |_| de::Error::custom(format_args!("{text:?} is not a duration such as 90s"));
        Self::parse(&text).map_err(wrong)
    }
}

impl Serialize for Fraction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = |_| de::Error::custom(format_args!("{text:?} is not a fraction from 0 to 1"));
        Self::parse(&text).map_err(wrong)
    }
}

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
    }

    #[test]
    fn a_fraction_is_from_zero_to_one() {
        let value = |text| Fraction::parse(text).map(|fraction| fraction.get());
        for (text, expected) in
            [("0", 0.0), ("0.2", 0.2), (".5", 0.5), ("1", 1.0), ("1.00", 1.0), ("0.", 0.0)]
        {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        for text in ["", ".", "-0.1", "+0.1", "1.1", "2", "1e-1", "NaN", "inf", "0.2 ", "00.1", "20%"] {
            assert_eq!(value(text), Err(FractionError), "{text:?}");
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
        fn a_fraction_of_digits_is_their_number(digits in "[0-9]{1,12}") {
            let text = format!("0.{digits}");
            let value = Fraction::parse(&text).map(|fraction| fraction.get());
            prop_assert_eq!(value, Ok(text.parse().expect("a number")));
        }
    }
}
