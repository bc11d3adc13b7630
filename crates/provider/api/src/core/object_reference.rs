//! A reference from one object to another one.

use serde::{Deserialize, Serialize};

/// A reference to an object of the same namespace, without a version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", from = "EitherVersion")]
pub struct ObjectReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl ObjectReference {
    /// Whether it refers to an object of this group and kind.
    #[must_use]
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.api_group == group && self.kind == kind
    }
}

/// A reference of either version: the older one has group and version in one field.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EitherVersion {
    api_group: Option<String>,
    api_version: String,
    kind: String,
    name: String,
}

impl From<EitherVersion> for ObjectReference {
    fn from(reference: EitherVersion) -> Self {
        let EitherVersion {
            api_group,
            api_version,
            kind,
            name,
        } = reference;
        // The core group has no slash and an empty name.
        let older = || {
            api_version
                .split_once('/')
                .map_or("", |(group, _)| group)
                .to_owned()
        };
        Self {
            api_group: api_group.unwrap_or_else(older),
            kind,
            name,
        }
    }
}
