//! A reference by name.

use serde::{Deserialize, Serialize};

/// A reference by name to an object of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NameReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}
