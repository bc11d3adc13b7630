//! A visible effect in the files of a journal: a text that has the visible effect as JSON. For `#[serde(with = "…")]`.

use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

use crate::visible_effect::VisibleEffect;

/// Writes the text of a visible effect.
///
/// # Errors
/// When it cannot be written.
pub fn serialize<S: Serializer>(visible_effect: &VisibleEffect, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&visible_effect.text())
}

/// Reads a visible effect from its text.
///
/// # Errors
/// When it is the text of no visible effect.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<VisibleEffect, D::Error> {
    serde_json::from_str(&String::deserialize(from)?).map_err(D::Error::custom)
}
