//! Requests to the management cluster.

use std::time::Duration;

use anyhow::anyhow;
use kube::{
    Api, Client,
    api::{DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::Value;
use tokio::time::timeout;

use crate::exit::{Exit, Problem};
use nephele_access::{Kinds, kind_of};

/// How long a request may take. A request without an answer must not keep a run from its end.
const REQUEST_MAX: Duration = Duration::from_secs(60);

/// The management cluster.
pub(super) struct Management {
    pub(super) client: Client,
    kinds: Kinds,
}

impl Management {
    pub(super) fn new(client: Client) -> Self {
        Self {
            kinds: Kinds::new(client.clone()),
            client,
        }
    }

    /// The API of the kind of an object, in the object's namespace.
    ///
    /// # Errors
    /// When the management cluster does not have the kind, with what mends that.
    pub(super) async fn api(&self, object: &Value) -> anyhow::Result<Api<DynamicObject>> {
        let kind = kind_of(object);
        let api = self.kinds.api(object).await.map_err(|error| {
            Problem::request(&format!("look up the kind {}", kind.kind), "read /apis", error)
        })?;
        Ok(api.ok_or_else(|| not_served(&kind))?)
    }

    /// Sends an object to the API server once.
    pub(super) async fn create(&self, object: &Value) -> anyhow::Result<Result<(), kube::Error>> {
        let api = self.api(object).await?;
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        match timeout(REQUEST_MAX, api.create(&PostParams::default(), &object)).await {
            Ok(created) => Ok(created.map(drop)),
            Err(_) => Ok(Err(kube::Error::Service(
                anyhow!("no answer within {REQUEST_MAX:?}").into(),
            ))),
        }
    }
}

fn not_served(kind: &GroupVersionKind) -> Problem {
    let mend = if kind.kind.starts_with("InMemory") || kind.group == "ipam.cluster.x-k8s.io" {
        "install Nephele with `nephele install`"
    } else {
        "install Cluster API with `clusterctl init`"
    };
    let message = format!(
        "the management cluster has no {} of {}; {mend}",
        kind.kind,
        kind.api_version()
    );
    Problem::new(Exit::NotFound, message)
}
