//! What a killed `nephele up --attach` left: webhooks that lead to its URL. Server-side apply would keep the URL beside
//! the Service, which an API server refuses.

use anyhow::Context as _;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::management::Management;

/// What to do about an object before it is applied.
#[derive(Debug, PartialEq)]
enum Clearing {
    Nothing,
    /// Delete it: the new one has all there is to it.
    Delete,
    /// Change it by this merge patch: deleting a definition would delete the objects of its kind.
    Change(Value),
}

/// Makes way for an object that is about to be applied.
pub(super) async fn clear(management: &Management, wanted: &Value) -> anyhow::Result<()> {
    let Some((api, clearing)) = look(management, wanted).await? else {
        return Ok(());
    };
    let kind = wanted["kind"].as_str().unwrap_or_default();
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    match clearing {
        Clearing::Nothing => Ok(()),
        Clearing::Delete => {
            let deleted = api.delete(name, &DeleteParams::default()).await;
            deleted
                .map(drop)
                .with_context(|| format!("failed to delete {kind} {name}"))
        }
        Clearing::Change(patch) => {
            let patched = api
                .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
                .await;
            patched
                .map(drop)
                .with_context(|| format!("failed to change {kind} {name}"))
        }
    }
}

/// Whether something has to make way first.
pub(super) async fn is_in_the_way(management: &Management, wanted: &Value) -> anyhow::Result<bool> {
    let found = look(management, wanted).await?;
    Ok(found.is_some_and(|(_, clearing)| clearing != Clearing::Nothing))
}

/// What to do about the object that is there; none if there is none.
async fn look(
    management: &Management,
    wanted: &Value,
) -> anyhow::Result<Option<(Api<DynamicObject>, Clearing)>> {
    let kind = wanted["kind"].as_str().unwrap_or_default();
    if kind != "CustomResourceDefinition" && !kind.ends_with("WebhookConfiguration") {
        return Ok(None);
    }
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let Some(api) = management.api(wanted).await? else {
        return Ok(None);
    };
    let found = api
        .get_opt(name)
        .await
        .with_context(|| format!("failed to read {kind} {name}"))?;
    Ok(found.map(|found| (api, clearing(&found.data, wanted))))
}

fn clearing(found: &Value, wanted: &Value) -> Clearing {
    const CONVERSION: &str = "/spec/conversion/webhook/clientConfig";
    let leads_to_url = |client: &Value| client["url"].is_string();
    if found["webhooks"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|webhook| leads_to_url(&webhook["clientConfig"]))
    {
        return Clearing::Delete;
    }
    if !found.pointer(CONVERSION).is_some_and(leads_to_url) {
        return Clearing::Nothing;
    }
    // The manager writes its authority when it starts.
    let client = json!({"url": null, "caBundle": null, "service": wanted.pointer(CONVERSION).map(|client| &client["service"])});
    Clearing::Change(json!({"spec": {"conversion": {"webhook": {"clientConfig": client}}}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_to_a_url_makes_way_and_the_rest_stays() {
        let definition =
            |client: Value| json!({"spec": {"conversion": {"webhook": {"clientConfig": client}}}});
        let service = json!({"name": "s", "namespace": "n"});
        let wanted = definition(json!({"service": service}));
        let of_service = definition(json!({"service": service, "caBundle": "Zg=="}));
        assert_eq!(clearing(&of_service, &wanted), Clearing::Nothing);
        let of_url = definition(json!({"url": "https://127.0.0.1:1/convert", "caBundle": "Zg=="}));
        let changed = definition(json!({"url": null, "caBundle": null, "service": service}));
        assert_eq!(clearing(&of_url, &wanted), Clearing::Change(changed));
        let configuration = |client: Value| json!({"webhooks": [{"clientConfig": client}]});
        let wanted = configuration(json!({"service": service}));
        assert_eq!(
            clearing(&configuration(json!({"service": service})), &wanted),
            Clearing::Nothing
        );
        assert_eq!(
            clearing(&configuration(json!({"url": "https://127.0.0.1:1"})), &wanted),
            Clearing::Delete
        );
    }
}
