//! The labels of namespaces, which decide for which namespaces an extension is called.

use std::{collections::BTreeMap, error::Error};

use futures::future::{self, BoxFuture, FutureExt as _};
use thiserror::Error;

use super::selector::Labels;

/// A source of the labels of namespaces.
pub trait Namespaces: Send + Sync + 'static {
    /// The labels of a namespace.
    ///
    /// # Errors
    /// When the namespace does not exist, or cannot be read.
    fn labels<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Labels, NamespaceError>>;
}

/// Why the labels of a namespace are unknown.
#[derive(Debug, Error)]
pub enum NamespaceError {
    /// The namespace does not exist.
    #[error("there is no namespace {0:?}")]
    Absent(String),
    /// The namespace cannot be read.
    #[error("failed to read namespace {namespace:?}")]
    Read {
        namespace: String,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Namespaces that are known in advance: an empty map if no selector needs labels, other maps for tests.
impl Namespaces for BTreeMap<String, Labels> {
    fn labels<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<Labels, NamespaceError>> {
        let labels = self.get(namespace).cloned();
        future::ready(labels.ok_or_else(|| NamespaceError::Absent(namespace.to_owned()))).boxed()
    }
}
