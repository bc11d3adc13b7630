//! The name of a namespace in a request.

use nephele_api::names::{is_dns_label, shown};
use serde::Deserialize;

/// Why a text is not the name of a namespace.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NamespaceError {
    #[error("failed to read {0:?} as the name of a namespace: it is not a DNS label")]
    NotALabel(String),
}

/// The name of a namespace, as Kubernetes takes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Namespace(String);

impl Namespace {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Namespace {
    type Error = NamespaceError;

    fn try_from(text: String) -> Result<Self, NamespaceError> {
        if is_dns_label(&text) {
            Ok(Self(text))
        } else {
            Err(NamespaceError::NotALabel(shown(&text)))
        }
    }
}
