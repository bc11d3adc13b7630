//! Bytes, which are base64 in JSON.

use std::{borrow::Cow, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes; on the wire, a string of standard base64. As in Go, `null` means no bytes; no bytes are written as `""`.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
        // Go's decoder skips line breaks.
        let text = text.replace(['\r', '\n'], "");
        STANDARD
            .decode(text)
            .map(Self)
            .map_err(|error| de::Error::custom(format!("not base64: {error}")))
    }
}

impl JsonSchema for Bytes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "byte" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_patch_is_four_characters_and_null_is_no_bytes() {
        assert_eq!(
            serde_json::to_string(&Bytes(b"[]".to_vec())).unwrap(),
            r#""W10=""#
        );
        for (text, expected) in [
            (r#""W10=""#, "[]"),
            (r#""W1\n0=""#, "[]"),
            ("null", ""),
            (r#""""#, ""),
        ] {
            assert_eq!(
                serde_json::from_str::<Bytes>(text).unwrap(),
                Bytes(expected.into()),
                "{text}"
            );
        }
        assert!(serde_json::from_str::<Bytes>(r#""W1!""#).is_err());
    }
}
