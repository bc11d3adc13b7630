//! How an API server serves kinds.

use std::collections::BTreeMap;

use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{ApiCapabilities, pinned_kind};
use parking_lot::Mutex;

/// The kinds of an API server that were looked up, each once. There are as many as the objects have that a command
/// writes.
pub(crate) struct Kinds {
    client: Client,
    known: Mutex<BTreeMap<(String, String), Served>>,
}

/// A kind in one version, and what can be done with it.
pub(crate) type Served = (ApiResource, ApiCapabilities);

impl Kinds {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    /// How the API server serves a kind; `None` if it does not, which may change.
    pub(crate) async fn find(&self, kind: &GroupVersionKind) -> Result<Option<Served>, kube::Error> {
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
}
