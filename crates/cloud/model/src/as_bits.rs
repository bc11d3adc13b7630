//! A float as its bits, so that every value, even NaN, survives a round trip. For `#[serde(with = "…")]`.

use serde::{Deserialize as _, Deserializer, Serializer};

/// Writes the bits of a float.
///
/// # Errors
/// When they cannot be written.
pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(value.to_bits())
}

/// Reads a float from its bits.
///
/// # Errors
/// When it is no number.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    u64::deserialize(from).map(f64::from_bits)
}
