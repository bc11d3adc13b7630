//! The labels of namespaces, by which it is decided whom an extension is called for.

use std::{collections::BTreeMap, error::Error};

use futures::future::{self, BoxFuture, FutureExt as _};
use thiserror::Error;

use super::selector::Labels;

/// Knows the labels of namespaces.
pub trait Namespaces: Send + Sync + 'static {
    /// The labels of a namespace.
    ///
    /// # Errors
    /// When it is not there, or cannot be read.
    fn labels<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Labels, NamespaceError>>;
}

/// Why the labels of a namespace are not known.
#[derive(Debug, Error)]
pub enum NamespaceError {
    /// It is not there.
    #[error("there is no namespace {0:?}")]
    Absent(String),
    /// It cannot be read.
    #[error("failed to read namespace {namespace:?}")]
    Read {
        /// The namespace.
        namespace: String,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// The namespaces there are, known beforehand: none for a caller that selects none, some for tests.
impl Namespaces for BTreeMap<String, Labels> {
    fn labels<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Labels, NamespaceError>> {
        let labels = self.get(namespace).cloned();
        future::ready(labels.ok_or_else(|| NamespaceError::Absent(namespace.to_owned()))).boxed()
    }
}
