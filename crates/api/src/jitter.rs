//! How much a start-up time varies.

use std::borrow::Cow;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A fraction from 0 to 1, written as a decimal text such as `"0.2"`: floating-point numbers are not portable in
/// Kubernetes objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Jitter(String);

/// The text is no fraction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("failed to parse {0:?} as a fraction: expected a decimal from 0 to 1 such as \"0.2\"")]
pub struct JitterError(String);

impl Jitter {
    /// The fraction, 0 to 1.
    #[must_use]
    pub fn get(&self) -> f64 {
        self.0.parse().expect("the text was parsed when it was taken in")
    }
}

impl FromStr for Jitter {
    type Err = JitterError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let decimal = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        match text.parse::<f64>() {
            Ok(fraction) if decimal && (0.0..=1.0).contains(&fraction) => Ok(Self(text.to_owned())),
            _ => Err(JitterError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Jitter {
    type Error = JitterError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Jitter> for String {
    fn from(jitter: Jitter) -> Self {
        jitter.0
    }
}

impl JsonSchema for Jitter {
    fn schema_name() -> Cow<'static, str> {
        "Jitter".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": r"^(0(\.[0-9]+)?|\.[0-9]+|1(\.0+)?)$", "maxLength": 16})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_from_zero_to_one_are_taken_and_nothing_else() {
        for (text, value) in [("0", 0.0), ("0.2", 0.2), (".5", 0.5), ("1", 1.0), ("1.0", 1.0)] {
            assert!((text.parse::<Jitter>().unwrap().get() - value).abs() < 1e-9, "{text}");
        }
        for text in ["", "-0.1", "1.1", "2", "NaN", "1e-1", "inf", "+0.1", "."] {
            assert!(text.parse::<Jitter>().is_err(), "{text}");
        }
    }
}
