//! The objects of the management API that the extension reads and writes, and the checks of their names.
//!
//! Callers of the extension choose the names in a request, and the client library puts names into request paths
//! unchanged. So every name is checked here first: no name leads out of its namespace, and an extension of one
//! namespace does not touch another.

use k8s_openapi::{NamespaceResourceScope, api::core::v1::ConfigMap};
use kube::{Api, Client, Resource};
use nephele_api::infrastructure::v1beta2::InMemoryMachine;
use nephele_runtime_sdk::wire::{is_dns_label, is_dns_subdomain};
use thiserror::Error;

/// The most characters of a refused name that an error repeats: callers show errors in conditions.
const SHOWN_MAX: usize = 64;

/// Why a name in a request is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NameError {
    /// A namespace has to be a DNS label.
    #[error("the namespace {0:?} is not a DNS label")]
    Namespace(String),
    /// The extension serves one namespace, and the request names another one.
    #[error("this extension serves only the namespace {expected}, not {found}")]
    OtherNamespace {
        /// The namespace of the extension.
        expected: String,
        /// The namespace in the request.
        found: String,
    },
    /// The name of an object has to be a DNS subdomain.
    #[error("the name {name:?} of the {what} is not a DNS subdomain")]
    Object {
        /// The kind of the object.
        what: &'static str,
        name: String,
    },
}

/// The management API, in one namespace or in all. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    client: Client,
    namespace: Option<String>,
}

impl Access {
    /// Access to one namespace, or to all with `None`.
    #[must_use]
    pub fn new(client: Client, namespace: Option<String>) -> Self {
        Self { client, namespace }
    }

    /// The ConfigMaps of a namespace.
    pub(crate) fn config_maps(&self, namespace: &str) -> Result<Api<ConfigMap>, NameError> {
        self.api(namespace)
    }

    /// The `InMemoryMachine`s of a namespace.
    pub(crate) fn machines(&self, namespace: &str) -> Result<Api<InMemoryMachine>, NameError> {
        self.api(namespace)
    }

    fn api<K>(&self, namespace: &str) -> Result<Api<K>, NameError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        if !is_dns_label(namespace) {
            return Err(NameError::Namespace(shown(namespace)));
        }
        match &self.namespace {
            Some(expected) if expected != namespace => Err(NameError::OtherNamespace {
                expected: expected.clone(),
                found: namespace.to_owned(),
            }),
            _ => Ok(Api::namespaced(self.client.clone(), namespace)),
        }
    }
}

/// The name of an object, which is safe in a path.
pub(crate) fn object_name<'a>(what: &'static str, name: &'a str) -> Result<&'a str, NameError> {
    if is_dns_subdomain(name) {
        Ok(name)
    } else {
        Err(NameError::Object {
            what,
            name: shown(name),
        })
    }
}

/// The part of a refused text that an error repeats.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use nephele_testkit::ManagementApi;

    use super::*;

    #[tokio::test]
    async fn only_labels_are_namespaces_and_only_the_one_that_is_looked_after() {
        let client = ManagementApi::start().client();
        let everywhere = Access::new(client.clone(), None);
        let one = Access::new(client, Some("team".to_owned()));
        let refused = |access: &Access, namespace: &str| access.config_maps(namespace).err();
        assert_eq!(refused(&everywhere, "other"), None);
        assert_eq!(refused(&one, "team"), None);
        let other = NameError::OtherNamespace {
            expected: "team".into(),
            found: "other".into(),
        };
        assert_eq!(refused(&one, "other"), Some(other));
        for namespace in ["", "..", "a/b", "../kube-system", "a?b", "a%2fb", "ä"] {
            let expected = Some(NameError::Namespace(namespace.to_owned()));
            assert_eq!(
                (refused(&everywhere, namespace), refused(&one, namespace)),
                (expected.clone(), expected)
            );
        }
    }

    #[test]
    fn a_refused_name_is_not_repeated_at_length() {
        let Err(error) = object_name("Cluster", &"Ä".repeat(1_000_000)) else {
            panic!("it is refused")
        };
        let expected = format!(
            "the name \"{}...\" of the Cluster is not a DNS subdomain",
            "Ä".repeat(64)
        );
        assert_eq!(error.to_string(), expected);
    }
}
