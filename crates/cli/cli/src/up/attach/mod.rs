//! Prepares an API server that is not ours, such as envtest's: our definitions, those of Cluster API where they are
//! missing, and the certificate of webhooks that it calls by URL.

pub(super) mod webhooks;

use std::{path::Path, time::Duration};

use anyhow::{Context as _, bail};
use futures::future::{try_join, try_join_all};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt as _,
    api::PostParams,
    config::KubeConfigOptions,
    runtime::{conditions::is_crd_established, wait::Condition as _},
};
use nephele_access::{Environment, Kinds};
use tokio::time::{Instant, sleep};

use self::webhooks::LocalWebhooks;
use super::management_api::ManagementApi;
use crate::{
    access,
    embedded::{Folder, GIT_VERSION},
    install::objects::LABEL,
};

/// How long an API server may take until it serves a new kind.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);

/// Connects to the API server of a kubeconfig, and installs the definitions unless it has started with those of some webhooks.
/// The webhooks still have to be served and installed; there are none for an API server that calls none.
pub(super) async fn connect(
    file: &Path,
    environment: &Environment,
    folder: &Folder,
    started_with: Option<LocalWebhooks>,
    now: Timestamp,
) -> anyhow::Result<(ManagementApi, Option<LocalWebhooks>)> {
    let file = std::path::absolute(file).with_context(|| format!("failed to resolve {}", file.display()))?;
    let found = access::of_file(&file, &KubeConfigOptions::default(), environment)
        .await
        .context("--attach")?;
    let server = found
        .config
        .cluster_url
        .to_string()
        .trim_end_matches('/')
        .to_owned();
    let client = found
        .client()
        .context("failed to set up the client of the management API")?;
    let version = client.apiserver_version().await.with_context(|| {
        format!(
            "failed to reach the management API at {server}; is it running, and does {} fit?",
            file.display()
        )
    })?;
    let webhooks = match started_with {
        Some(webhooks) => {
            install(&client, &[]).await?;
            Some(webhooks)
        }
        // The embedded management API of another run calls no webhooks.
        None if version.git_version == GIT_VERSION => {
            install(&client, &nephele_api::crds()).await?;
            None
        }
        None => {
            let webhooks = LocalWebhooks::prepare(folder, now)?;
            webhooks.refuse_installed(&Kinds::new(client.clone())).await?;
            install(&client, &webhooks.definitions()?).await?;
            Some(webhooks)
        }
    };
    Ok((
        ManagementApi {
            client,
            kubeconfig: file,
            server,
            embedded: None,
        },
        webhooks,
    ))
}

/// Installs our definitions, and those of Cluster API that are missing, and waits until all are served.
async fn install(client: &Client, ours: &[CustomResourceDefinition]) -> anyhow::Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let failed = |definition: &CustomResourceDefinition| {
        format!("failed to install the definition {}", definition.name_any())
    };
    let replaced = ours.iter().map(async |definition| {
        replace(&api, definition)
            .await
            .with_context(|| failed(definition))
    });
    let loose = nephele_fake_capi::crds_without_conversion();
    let kept = loose
        .iter()
        .map(async |definition| keep(&api, definition).await.with_context(|| failed(definition)));
    // An API server takes a tenth of a second for each, and several at a time.
    try_join(try_join_all(replaced), try_join_all(kept)).await?;
    let patience = Instant::now() + ESTABLISHED_WITHIN;
    for definition in ours.iter().chain(&loose) {
        let name = definition.name_any();
        loop {
            let current = api
                .get_opt(&name)
                .await
                .with_context(|| format!("failed to read {name}"))?;
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

/// Creates one of our definitions, or replaces the one that is there. Server-side apply would keep its conversion, which
/// leads to another process, and an API server refuses two of them.
async fn replace(
    api: &Api<CustomResourceDefinition>,
    definition: &CustomResourceDefinition,
) -> Result<(), kube::Error> {
    let name = definition.name_any();
    let Some(mut there) = api.get_opt(&name).await? else {
        // `nephele uninstall` removes it.
        let mut missing = definition.clone();
        missing
            .labels_mut()
            .insert(LABEL.0.to_owned(), LABEL.1.to_owned());
        return create(api, &missing).await;
    };
    there.spec = definition.spec.clone();
    let labels = definition
        .labels()
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    there.labels_mut().extend(labels);
    api.replace(&name, &PostParams::default(), &there).await.map(drop)
}

/// Creates a definition where it is missing, and keeps the one that is there.
async fn keep(
    api: &Api<CustomResourceDefinition>,
    definition: &CustomResourceDefinition,
) -> Result<(), kube::Error> {
    match api.get_opt(&definition.name_any()).await? {
        Some(_) => Ok(()),
        None => create(api, definition).await,
    }
}

/// Creates a definition, unless another process has just done so.
async fn create(
    api: &Api<CustomResourceDefinition>,
    definition: &CustomResourceDefinition,
) -> Result<(), kube::Error> {
    match api.create(&PostParams::default(), definition).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => result.map(drop),
    }
}
