//! Writes the objects of providers to the API server.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use nephele_access::{Kinds, kind_of};
use serde_json::Value;
use tokio::time::{Instant, sleep};

/// The owner of the fields, as `kubectl get --show-managed-fields` shows it.
const MANAGER: &str = "nephele-up";
/// How many objects are written at a time.
const AT_ONCE: usize = 8;
/// How long the API server may take until it serves all definitions.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// Applies the objects: namespaces first, and then the others side by side. Returns when all definitions are served.
pub(crate) async fn apply(kinds: &Kinds, objects: &[Value]) -> anyhow::Result<()> {
    let (namespaces, others): (Vec<_>, Vec<_>) =
        objects.iter().partition(|object| object["kind"] == "Namespace");
    for some in [namespaces, others] {
        stream::iter(some)
            .map(|object| apply_one(kinds, object))
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
    }
    let deadline = Instant::now() + SERVED_WITHIN;
    for definition in objects
        .iter()
        .filter(|object| object["kind"] == "CustomResourceDefinition")
    {
        served(kinds, definition, deadline).await?;
    }
    Ok(())
}

/// Whether the API server calls webhooks because of an object.
pub(crate) fn is_webhook_configuration(object: &Value) -> bool {
    let kind = object["kind"].as_str();
    kind.is_some_and(|kind| kind.ends_with("WebhookConfiguration"))
}

/// Deletes objects, as far as they are there.
pub(crate) async fn delete(kinds: &Kinds, objects: &[Value]) -> anyhow::Result<()> {
    for object in objects {
        let (api, name) = api(kinds, object).await?;
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.with_context(|| format!("failed to delete {name}"))?),
        }
    }
    Ok(())
}

async fn apply_one(kinds: &Kinds, object: &Value) -> anyhow::Result<()> {
    let (api, name) = api(kinds, object).await?;
    let parameters = PatchParams::apply(MANAGER).force();
    let applied = api.patch(name, &parameters, &Patch::Apply(object)).await;
    applied.map(drop).with_context(|| {
        format!(
            "failed to apply {} {name}",
            object["kind"].as_str().unwrap_or_default()
        )
    })
}

/// The API of the kind of an object, in its namespace, and the name of the object.
async fn api<'a>(kinds: &Kinds, object: &'a Value) -> anyhow::Result<(Api<DynamicObject>, &'a str)> {
    let kind = kind_of(object);
    let what = || format!("{} of {}", kind.kind, kind.api_version());
    let api = kinds
        .api(object)
        .await
        .with_context(|| format!("failed to look up {}", what()))?;
    let api = api.with_context(|| format!("the API server does not serve {}", what()))?;
    Ok((api, object["metadata"]["name"].as_str().unwrap_or_default()))
}

/// Waits until the API server serves the versions of a definition.
async fn served(kinds: &Kinds, definition: &Value, deadline: Instant) -> anyhow::Result<()> {
    let spec = &definition["spec"];
    let group = spec["group"].as_str().unwrap_or_default();
    let kind = spec["names"]["kind"].as_str().unwrap_or_default();
    let versions = spec["versions"].as_array().into_iter().flatten();
    let versions = versions.filter(|version| version["served"] == true);
    for version in versions.filter_map(|version| version["name"].as_str()) {
        let kind = GroupVersionKind::gvk(group, version, kind);
        while !matches!(kinds.find(&kind).await, Ok(Some(_))) {
            if Instant::now() > deadline {
                bail!(
                    "the API server does not serve {} of {} after {SERVED_WITHIN:?}",
                    kind.kind,
                    kind.api_version()
                );
            }
            sleep(POLL).await;
        }
    }
    Ok(())
}
