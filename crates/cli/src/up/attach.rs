//! Prepares an API server that is not ours, such as envtest's: our definitions, and those of Cluster API where they are
//! missing.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::Condition as _;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::{Instant, sleep};

use super::ManagementApi;
use crate::access;

/// The owner of the fields that are applied.
const FIELD_MANAGER: &str = "nephele-up";

/// How long an API server may take until it serves a new kind.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);

/// Connects to the API server of a kubeconfig and installs the definitions.
pub(super) async fn connect(file: &Path) -> anyhow::Result<ManagementApi> {
    let file = std::path::absolute(file).with_context(|| format!("failed to resolve {}", file.display()))?;
    let config = access::of_file(&file, &KubeConfigOptions::default()).await.context("--attach")?;
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let client = Client::try_from(config).context("failed to set up the client of the management API")?;
    client.apiserver_version().await.with_context(|| {
        format!(
            "failed to reach the management API at {server}; is it running, and does {} fit?",
            file.display()
        )
    })?;
    install(&client).await?;
    Ok(ManagementApi { client, kubeconfig: file, server })
}

async fn install(client: &Client) -> anyhow::Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let ours = nephele_api::crds();
    for definition in &ours {
        let name = definition.name_any();
        apply(&api, definition).await.with_context(|| format!("failed to install the definition {name}"))?;
    }
    let loose = nephele_standin::crds();
    for definition in &loose {
        let name = definition.name_any();
        create(&api, definition).await.with_context(|| format!("failed to install the definition {name}"))?;
    }
    let patience = Instant::now() + ESTABLISHED_WITHIN;
    for definition in ours.iter().chain(&loose) {
        let name = definition.name_any();
        loop {
            let current = api.get_opt(&name).await.with_context(|| format!("failed to read {name}"))?;
            if is_crd_established().matches_object(current.as_ref()) {
                break;
            }
            if Instant::now() > patience {
                bail!(
                    "the management API does not serve {name} after {ESTABLISHED_WITHIN:?}; look at its conditions"
                );
            }
            sleep(POLL).await;
        }
    }
    Ok(())
}

/// Applies one of our definitions over any older one.
async fn apply(
    api: &Api<CustomResourceDefinition>,
    definition: &CustomResourceDefinition,
) -> Result<(), kube::Error> {
    let name = definition.name_any();
    let applied =
        api.patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(definition)).await;
    match applied {
        // An API server without server-side apply, such as the embedded one of another `nephele up`.
        Err(kube::Error::Api(status)) if status.code == 415 => create(api, definition).await,
        result => result.map(drop),
    }
}

/// Creates a definition where it is missing.
async fn create(
    api: &Api<CustomResourceDefinition>,
    definition: &CustomResourceDefinition,
) -> Result<(), kube::Error> {
    if api.get_opt(&definition.name_any()).await?.is_some() {
        return Ok(());
    }
    match api.create(&PostParams::default(), definition).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => result.map(drop),
    }
}
