//! Definitions that stayed when their manager was uninstalled, by Helm or clusterctl. They name a Service that is gone,
//! so the API server fails to read their objects in any version but the stored one.

use anyhow::Context as _;
use k8s_openapi::{
    api::core::v1::{Secret, Service},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};

/// The Secrets in which a manager keeps the certificate of its webhooks, one for each first role.
const CERTIFICATES: [&str; 2] = [
    "nephele-webhook-certificate",
    "capi-ipam-in-cluster-webhook-certificate",
];
/// The label of what a manager made itself.
const MADE_BY_MANAGER: (&str, &str) = ("app.kubernetes.io/managed-by", "nephele");

/// What was done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Mended {
    /// The definitions whose objects are not converted any more.
    pub(super) definitions: Vec<String>,
    /// The Secrets that were deleted, with their namespaces.
    pub(super) secrets: Vec<String>,
}

/// Lets the definitions that stayed work without a manager, and deletes what only a manager can use.
///
/// # Errors
/// When a request fails.
pub(super) async fn mend(client: &Client) -> anyhow::Result<Mended> {
    let mut mended = Mended::default();
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    for ours in nephele_api::crds() {
        let name = ours.name_any();
        let found = definitions.get_opt(&name).await;
        let found = found.with_context(|| format!("failed to read the definition {name}"))?;
        let Some((namespace, service)) = found.as_ref().and_then(service) else {
            continue;
        };
        let services = Api::<Service>::namespaced(client.clone(), &namespace);
        let there = services.get_opt(&service).await;
        if there
            .with_context(|| format!("failed to read Service {namespace}/{service}"))?
            .is_some()
        {
            continue;
        }
        // A manager that was installed meanwhile has changed the definition.
        let patch = without_conversion(found.and_then(|found| found.resource_version()).as_deref());
        let patched = definitions
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        patched.with_context(|| format!("failed to change the definition {name}"))?;
        mended.definitions.push(name);
        for secret in CERTIFICATES {
            if forget(client, &namespace, secret).await? {
                mended.secrets.push(format!("{namespace}/{secret}"));
            }
        }
    }
    Ok(mended)
}

/// The Service that converts the objects of a definition: namespace and name.
fn service(definition: &CustomResourceDefinition) -> Option<(String, String)> {
    let webhook = definition.spec.conversion.as_ref()?.webhook.as_ref()?;
    let service = webhook.client_config.as_ref()?.service.as_ref()?;
    Some((service.namespace.clone(), service.name.clone()))
}

fn without_conversion(resource_version: Option<&str>) -> Value {
    json!({
        "metadata": {"resourceVersion": resource_version},
        "spec": {"conversion": {"strategy": "None", "webhook": null}},
    })
}

/// Deletes a Secret of a manager that is gone. Returns whether there was one.
async fn forget(client: &Client, namespace: &str, name: &str) -> anyhow::Result<bool> {
    let secrets = Api::<Secret>::namespaced(client.clone(), namespace);
    let failed = |what: &str| format!("failed to {what} Secret {namespace}/{name}");
    let Some(secret) = secrets.get_opt(name).await.with_context(|| failed("read"))? else {
        return Ok(false);
    };
    if secret
        .labels()
        .get(MADE_BY_MANAGER.0)
        .is_none_or(|value| value != MADE_BY_MANAGER.1)
    {
        return Ok(false);
    }
    let preconditions = Preconditions {
        uid: secret.uid(),
        resource_version: secret.resource_version(),
    };
    let params = DeleteParams {
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    secrets
        .delete(name, &params)
        .await
        .with_context(|| failed("delete"))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::PostParams;
    use nephele_testkit::ManagementApi;

    use super::*;

    async fn create<K>(api: &Api<K>, object: Value)
    where
        K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
    {
        let object = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &object)
            .await
            .expect("created");
    }

    #[tokio::test]
    async fn definitions_whose_service_is_gone_are_read_without_it_and_others_stay_as_they_are() {
        let client = ManagementApi::start().client();
        let namespace = json!({"metadata": {"name": "nephele-system"}});
        create(&Api::<Namespace>::all(client.clone()), namespace).await;
        let secrets = Api::<Secret>::namespaced(client.clone(), "nephele-system");
        let certificate = |managed_by: &str| json!({"metadata": {"name": CERTIFICATES[0], "labels": {"app.kubernetes.io/managed-by": managed_by}}});
        create(&secrets, certificate("nephele")).await;
        let services = Api::<Service>::namespaced(client.clone(), "nephele-system");
        let name = "nephele-webhook-service";
        create(
            &services,
            json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 443}]}}),
        )
        .await;
        let pools = |names: Vec<String>| {
            names
                .iter()
                .all(|name| name.ends_with("pools.ipam.cluster.x-k8s.io"))
        };

        // The Service of pools is that of another provider, and is gone.
        let first = mend(&client).await.expect("mended");
        assert!(
            !first.definitions.is_empty() && pools(first.definitions),
            "{:?}",
            first.secrets
        );
        assert_eq!(mend(&client).await.expect("mended"), Mended::default());

        services
            .delete(name, &DeleteParams::default())
            .await
            .expect("deleted");
        let second = mend(&client).await.expect("mended");
        let converted = nephele_api::crds()
            .into_iter()
            .filter(|one| one.spec.conversion.is_some());
        let converted = converted
            .map(|one| one.name_any())
            .filter(|name| !name.contains(".ipam."));
        assert_eq!(second.definitions, converted.collect::<Vec<_>>());
        assert_eq!(second.secrets, ["nephele-system/nephele-webhook-certificate"]);
        let definitions = Api::<CustomResourceDefinition>::all(client.clone());
        for name in second.definitions {
            let conversion = definitions
                .get(&name)
                .await
                .expect("it stays")
                .spec
                .conversion
                .expect("one");
            assert_eq!((conversion.strategy.as_str(), conversion.webhook), ("None", None));
        }
        create(&secrets, certificate("another")).await;
        assert!(
            !forget(&client, "nephele-system", CERTIFICATES[0])
                .await
                .expect("an answer")
        );
    }
}
