//! YAML of users as JSON values, in a time and with memory that bounds set.
//!
//! Users write YAML in objects that the manager reads beside the requests of everybody else. So a text is no longer than a
//! bound before it is parsed, the parser is linear in it, and what its few anchors stand for is counted while it is read.

// Numbers of users enter here: a sum that wraps is a wrong answer, and one that panics ends a request.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod documents;
mod value;

use documents::documents_of;
use serde_json::Value;
use serde_saphyr::{Error, budget::BudgetBreach};
use value::Counted;

/// The longest message about a text, in characters: it ends in conditions.
const MESSAGE_MAX: usize = 512;
/// What the parser keeps of an event for later aliases, in bytes.
const EVENT_BYTES: usize = 128;
/// What is wrong with a text that needs more memory than its bounds allow.
const TOO_LARGE: &str = "it is too large with its anchors resolved";

/// The bounds of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The longest text, in bytes.
    pub text: usize,
    /// The most memory that its values take, in bytes, with its anchors resolved. It is counted for each value, list, object
    /// and text, so that it is never less than what they take.
    pub memory: usize,
    /// How deep lists and objects may nest.
    pub depth: usize,
    pub dialect: Dialect,
}

/// How YAML is understood where its readers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// As YAML 1.2 says: only `true` and `false` are truth values, and two members of an object with one name are an error.
    Strict,
    /// As `sigs.k8s.io/yaml` does, and with it `kubectl` and the API server: `yes` and `on` are true, too, and the last of two
    /// members with one name is taken.
    Go,
}

/// Why a text is not read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum YamlError {
    /// It is longer than its bound.
    #[error("must be at most {max} bytes, not {found}")]
    Long { max: usize, found: usize },
    /// It is not YAML, or has more in it than its bounds allow.
    #[error("document {number} must be YAML: {message}")]
    Document {
        /// The number of the document, from 1.
        number: usize,
        /// What is wrong with it, with the line and column in the document.
        message: String,
    },
    /// There are several documents where one is wanted.
    #[error("must be one document, not {0}")]
    Several(usize),
}

/// The documents of a text, with their numbers from 1. Empty ones are null.
///
/// # Errors
/// When the text is longer than its bound, or a document is not YAML or needs more than the bounds allow.
pub fn read_all(text: &str, bounds: &Bounds) -> Result<Vec<(usize, Value)>, YamlError> {
    check_length(text, bounds)?;
    let mut left = bounds.memory;
    documents_of(text)
        .zip(1..)
        .map(|(document, number)| Ok((number, one(document, number, bounds, &mut left)?)))
        .collect()
}

/// The only document of a text. An empty text is null.
///
/// # Errors
/// As [`read_all`], and when there is more than one document.
pub fn read_one(text: &str, bounds: &Bounds) -> Result<Value, YamlError> {
    check_length(text, bounds)?;
    let mut documents = documents_of(text);
    let first = documents.next().unwrap_or_default();
    match documents.count() {
        0 => one(first, 1, bounds, &mut { bounds.memory }),
        more => Err(YamlError::Several(more.saturating_add(1))),
    }
}

/// A value as YAML that readers of YAML 1.1, such as those of Go, and of YAML 1.2 read alike.
#[must_use]
pub fn write(value: &Value) -> String {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options).expect("a JSON value can always be written as YAML")
}

fn check_length(text: &str, bounds: &Bounds) -> Result<(), YamlError> {
    if text.len() > bounds.text {
        return Err(YamlError::Long {
            max: bounds.text,
            found: text.len(),
        });
    }
    Ok(())
}

fn one(document: &str, number: usize, bounds: &Bounds, left: &mut usize) -> Result<Value, YamlError> {
    let Bounds {
        text,
        memory,
        depth,
        dialect,
    } = *bounds;
    let is_strict = dialect == Dialect::Strict;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: depth,
            flow_nesting_limit: depth,
            max_events: text.saturating_mul(4),
            max_nodes: text.saturating_mul(2),
            // They are counted with the values.
            max_total_scalar_bytes: memory.saturating_mul(2),
            max_recorded_anchor_events: memory / EVENT_BYTES,
            max_recorded_anchor_bytes: memory,
        },
        duplicate_keys: match dialect {
            Dialect::Strict => serde_saphyr::options::DuplicateKeyPolicy::Error,
            Dialect::Go => serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        },
        strict_booleans: is_strict,
        with_snippet: false,
    };
    let read = |document: serde_saphyr::Deserializer<'_, '_>| {
        use serde::de::DeserializeSeed as _;
        Counted { left, is_strict }.deserialize(document)
    };
    serde_saphyr::with_deserializer_from_str_with_options(document, options, read).map_err(|error| {
        YamlError::Document {
            number,
            message: told(&error, bounds),
        }
    })
}

/// What is wrong, on one line.
fn told(error: &Error, bounds: &Bounds) -> String {
    match error {
        Error::Budget {
            breach: BudgetBreach::Depth { .. },
            ..
        } => {
            format!("it nests deeper than {} levels", bounds.depth)
        }
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => TOO_LARGE.to_owned(),
        other => {
            let words: Vec<_> = other.to_string().split_whitespace().map(str::to_owned).collect();
            words.join(" ").chars().take(MESSAGE_MAX).collect()
        }
    }
}

#[cfg(test)]
mod tests;
