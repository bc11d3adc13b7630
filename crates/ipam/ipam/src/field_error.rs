//! Errors in fields of a pool, in the API machinery's words.

use std::fmt;

use crate::parse::quote;

/// A field, the refused value and why: a cause in a webhook's `Invalid` response, or a part of a condition's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: Invalid value: {value}: {message}")]
pub struct FieldError {
    /// Path in the object, such as `spec.addresses`.
    pub field: &'static str,
    /// The refused value: a bad entry of a list, or the whole list.
    pub value: FieldValue,
    /// Why the value is refused. The texts are those of the in-cluster provider, which users and tests know.
    pub message: String,
}

impl FieldError {
    pub(crate) fn new(field: &'static str, value: impl Into<FieldValue>, message: impl Into<String>) -> Self {
        Self {
            field,
            value: value.into(),
            message: message.into(),
        }
    }
}

/// A refused value. Displayed as the API machinery does: strings quoted, lists as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldValue {
    /// A string.
    Text(String),
    /// An integer.
    Number(i64),
    /// A list of strings.
    List(Vec<String>),
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(&quote(text)),
            Self::Number(number) => number.fmt(f),
            Self::List(entries) => {
                let quoted: Vec<_> = entries.iter().map(|entry| quote(entry)).collect();
                write!(f, "[{}]", quoted.join(","))
            }
        }
    }
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for FieldValue {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&[String]> for FieldValue {
    fn from(entries: &[String]) -> Self {
        Self::List(entries.to_vec())
    }
}
