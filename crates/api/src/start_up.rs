//! The start-up durations of a machine's parts and their jitter, as users write them.

/// The pattern for a duration of zero or more in Go (`time.ParseDuration`). As a pattern in the schema it makes the API
/// server refuse other strings.
pub(crate) const DURATION_PATTERN: &str = r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// The leading digits of a string, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// The largest random addition to the start-up duration, as a fraction from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct StartupJitter(f64);

/// The string is not a fraction from 0 to 1.
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
    /// When the string is not such a fraction.
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

    #[test]
    fn no_pattern_takes_longer_than_its_length_allows() {
        nephele_growth::assert_linear("jitter", 64 * 1024, &["", "0."], |text| {
            let _ = StartupJitter::parse(text);
        });
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
        fn any_text_is_read_or_refused(text in "[-+0-9.e ]{0,24}|.{0,12}") {
            let _ = StartupJitter::parse(&text);
        }

        #[test]
        fn a_jitter_of_digits_is_their_number(digits in "[0-9]{1,12}") {
            let text = format!("0.{digits}");
            prop_assert_eq!(StartupJitter::parse(&text).map(StartupJitter::get), Ok(text.parse().expect("a number")));
        }
    }
}
