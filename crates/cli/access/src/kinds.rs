//! How an API server serves kinds.

use std::collections::BTreeMap;

use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    discovery::{ApiCapabilities, Scope, pinned_kind},
};
use parking_lot::Mutex;
use serde_json::Value;

/// The kinds of an API server that were looked up, each once. There are as many as the objects have that a command
/// writes.
pub struct Kinds {
    client: Client,
    known: Mutex<BTreeMap<(String, String), Served>>,
}

/// A kind in one version, and what can be done with it.
pub type Served = (ApiResource, ApiCapabilities);

impl Kinds {
    /// None of the kinds of an API server is looked up yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
        }
    }

    /// How the API server serves a kind; `None` if it does not, which may change.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn find(&self, kind: &GroupVersionKind) -> Result<Option<Served>, kube::Error> {
        let key = (kind.api_version(), kind.kind.clone());
        if let Some(known) = self.known.lock().get(&key) {
            return Ok(Some(known.clone()));
        }
        match pinned_kind(&self.client, kind).await {
            Ok(served) => {
                self.known.lock().insert(key, served.clone());
                Ok(Some(served))
            }
            // The version of the group is served, the kind is not.
            Err(kube::Error::Discovery(_)) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The API of the kind of an object, in the object's namespace; `None` if the API server does not serve the kind.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn api(&self, object: &Value) -> Result<Option<Api<DynamicObject>>, kube::Error> {
        let Some((resource, capabilities)) = self.find(&kind_of(object)).await? else {
            return Ok(None);
        };
        let namespace = object["metadata"]["namespace"].as_str();
        Ok(Some(
            match namespace.filter(|_| capabilities.scope == Scope::Namespaced) {
                Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
                None => Api::all_with(self.client.clone(), &resource),
            },
        ))
    }
}

/// The kind of an object.
#[must_use]
pub fn kind_of(object: &Value) -> GroupVersionKind {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion")
        .split_once('/')
        .unwrap_or(("", text("apiVersion")));
    GroupVersionKind::gvk(group, version, text("kind"))
}
