//! Images that machines boot from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name_patterns::{MINOR_PATTERN, NAME_PATTERN};

/// An image that machines boot from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name", "kubernetes"]))]
pub struct Image {
    /// Its name, which Nodes report.
    #[schemars(length(min = 1, max = 63), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// The minor versions of Kubernetes that it has, such as 1.36.
    #[schemars(length(min = 1, max = 32))]
    #[schemars(inner(length(min = 3, max = 5), regex(pattern = MINOR_PATTERN)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub kubernetes: Vec<String>,
    /// Its operating system; by default linux.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["linux", "windows"]))]
    pub operating_system: String,
}

impl Image {
    /// Its operating system.
    #[must_use]
    pub fn operating_system(&self) -> &str {
        if self.operating_system.is_empty() {
            "linux"
        } else {
            &self.operating_system
        }
    }

    /// Whether the image has the minor version of a version such as `v1.36.3`.
    #[must_use]
    pub fn has(&self, version: &str) -> bool {
        let mut parts = version.trim_start_matches('v').split('.');
        let minor = format!(
            "{}.{}",
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default()
        );
        self.kubernetes.contains(&minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_the_patch_releases_of_its_minor_versions() {
        let image = Image {
            kubernetes: vec!["1.35".into(), "1.3".into()],
            ..Image::default()
        };
        let known =
            ["v1.35.4", "1.35.0", "v1.3.9", "v1.36.3", "v1.30.1", "", "v1"].map(|version| image.has(version));
        assert_eq!(known, [true, true, true, false, false, false, false]);
    }
}
