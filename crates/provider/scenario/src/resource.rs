//! How a kind is served.

use kube::{
    Client,
    core::{ApiResource, GroupVersionKind},
    discovery::{self, Scope},
};

use crate::refusal::{Refusal, refusal};

/// The resource of a kind with objects in namespaces.
pub(crate) async fn namespaced(client: &Client, kind: &GroupVersionKind) -> Result<ApiResource, Refusal> {
    let called = format!("{} of {}", kind.kind, kind.api_version());
    let found = discovery::pinned_kind(client, kind).await;
    let not_served = || Refusal::Lasting(format!("the management cluster has no {called}"));
    let (resource, capabilities) = found.map_err(|error| match &error {
        kube::Error::Discovery(_) => not_served(),
        error => match refusal(&format!("find {called}"), "read /apis", error) {
            Refusal::NotFound => not_served(),
            other => other,
        },
    })?;
    match capabilities.scope {
        Scope::Namespaced => Ok(resource),
        Scope::Cluster => Err(Refusal::Lasting(format!(
            "{called} has no namespace; a scenario acts in its own namespace only"
        ))),
    }
}
