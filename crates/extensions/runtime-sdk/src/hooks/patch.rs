//! Patches in messages.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::wire::{Bytes, text};

text! {
    /// The type of patch.
    pub enum PatchType {
        /// JSON Patch (RFC 6902).
        JsonPatch = "JSONPatch",
        /// JSON Merge Patch (RFC 7396).
        JsonMergePatch = "JSONMergePatch",
    }
}

/// A patch. If absent, it is omitted from the message. Cluster API refuses a patch with a type and without bytes, so
/// omit a patch that changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["patchType", "patch"]))]
pub struct Patch {
    /// The type of patch. As in Go, an empty text means no type.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "unless_empty")]
    pub patch_type: Option<PatchType>,
    /// The patch.
    #[serde(skip_serializing_if = "Bytes::is_empty")]
    pub patch: Bytes,
}

impl Patch {
    /// Whether there is no patch.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.patch_type
            .as_ref()
            .is_none_or(|kind| kind.as_str().is_empty())
            && self.patch.is_empty()
    }
}

fn unless_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PatchType>, D::Error> {
    let kind = Option::<PatchType>::deserialize(from)?;
    Ok(kind.filter(|kind| !kind.as_str().is_empty()))
}
