//! The webhooks of this process, for an API server on the same machine: it calls them by URL, on the loopback interface.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, PostParams},
};
use nephele_cluster_api::{WebhookAuthority, free_ports};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    embedded::{Folder, WebhookSettings},
    install::{
        objects::{Wanted, objects},
        ready,
    },
    loopback::loopback,
};
use nephele_access::Kinds;

/// How long the API server may take until it calls the webhooks: it reads new configurations within a second.
const REACHED_WITHIN: Duration = Duration::from_secs(15);
/// Where a definition says how its objects are converted.
const CONVERSION: &str = "/spec/conversion/webhook/clientConfig";

/// The address and the authority of the webhooks.
pub(crate) struct LocalWebhooks {
    address: SocketAddr,
    settings: WebhookSettings,
    authority: WebhookAuthority,
    /// The configurations of an installation, with the URLs of this process. `nephele uninstall` knows them by their
    /// label, so it removes them where this process is killed.
    configurations: Vec<Value>,
}

impl LocalWebhooks {
    /// Chooses a free port, and writes a certificate for it into the folder.
    pub(crate) fn prepare(folder: &Folder, now: Timestamp) -> anyhow::Result<Self> {
        // The manager listens on the port when the API server is up. Another process that takes it until then is an error at the
        // start, with a message.
        let [port] = free_ports()?;
        let address = SocketAddr::from((loopback(), port));
        let authority = WebhookAuthority::new(now)?;
        let leaf = authority.issue("nephele-webhooks", address.ip())?;
        folder.write(WebhookSettings::CERTIFICATE, &leaf.certificate_pem())?;
        folder.write(WebhookSettings::KEY, &leaf.key_pem())?;
        let installation = Wanted {
            image: String::new(),
            on_nodes: false,
            ipam: true,
        };
        let mut configurations = objects(&installation, &|_| None)?;
        configurations.retain(|object| {
            object["kind"]
                .as_str()
                .is_some_and(|kind| kind.ends_with("WebhookConfiguration"))
        });
        let mut webhooks = Self {
            address,
            settings: WebhookSettings {
                port: address.port(),
                folder: folder.root().to_owned(),
            },
            authority,
            configurations: Vec::new(),
        };
        for configuration in &mut configurations {
            for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
                webhooks.lead_here(&mut webhook["clientConfig"]);
            }
        }
        webhooks.configurations = configurations;
        Ok(webhooks)
    }

    pub(crate) fn settings(&self) -> WebhookSettings {
        self.settings.clone()
    }

    /// Our definitions, with conversions by this process.
    pub(crate) fn definitions(&self) -> anyhow::Result<Vec<CustomResourceDefinition>> {
        let ours = nephele_api::crds().into_iter().map(|definition| {
            let mut definition = serde_json::to_value(definition)?;
            if let Some(client) = definition.pointer_mut(CONVERSION) {
                self.lead_here(client);
            }
            Ok(serde_json::from_value(definition)?)
        });
        ours.collect()
    }

    /// Lets a client of webhooks call this process, in place of a Service.
    fn lead_here(&self, client: &mut Value) {
        self.authority.lead(client, self.address);
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }

    /// Fails when the API server calls the webhooks of an installed manager.
    pub(super) async fn refuse_installed(&self, kinds: &Kinds) -> anyhow::Result<()> {
        for configuration in &self.configurations {
            let (api, name) = api(kinds, configuration).await?;
            let there = api
                .get_opt(name)
                .await
                .with_context(|| format!("failed to read {name}"))?;
            let webhooks = there.as_ref().and_then(|there| there.data["webhooks"].as_array());
            if webhooks
                .into_iter()
                .flatten()
                .any(|webhook| webhook["clientConfig"]["service"].is_object())
            {
                bail!(
                    "Nephele is installed there: {name} leads to its manager; uninstall it, or attach to another API \
                     server"
                );
            }
        }
        Ok(())
    }

    /// Has the API server call the webhooks, and waits until it does.
    pub(crate) async fn install(&self, kinds: &Kinds) -> anyhow::Result<()> {
        // Those of an earlier run that was killed lead nowhere.
        self.uninstall(kinds).await?;
        for configuration in &self.configurations {
            let (api, name) = api(kinds, configuration).await?;
            let configuration: DynamicObject = serde_json::from_value(configuration.clone())?;
            let created = api.create(&PostParams::default(), &configuration).await;
            created.with_context(|| format!("failed to create {name}"))?;
        }
        let reached = ready::reached(kinds, true, "default", Instant::now() + REACHED_WITHIN).await;
        reached.with_context(|| {
            format!(
                "the management API does not reach the webhooks of this process at {}: --attach needs an API server on \
                 this machine",
                self.url("")
            )
        })
    }

    /// Has the API server call no webhook any more. Otherwise it refuses every write of the kinds when this process is gone.
    pub(crate) async fn uninstall(&self, kinds: &Kinds) -> anyhow::Result<()> {
        for configuration in &self.configurations {
            let (api, name) = api(kinds, configuration).await?;
            match api.delete(name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                deleted => drop(deleted.with_context(|| format!("failed to delete {name}"))?),
            }
        }
        Ok(())
    }
}

/// The API of a configuration, and the configuration's name.
async fn api<'a>(kinds: &Kinds, configuration: &'a Value) -> anyhow::Result<(Api<DynamicObject>, &'a str)> {
    let api = kinds
        .api(configuration)
        .await
        .context("failed to look up the kinds of webhooks")?;
    let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
    Ok((api.context("the API server has no webhooks")?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_webhook_and_every_conversion_is_called_by_url() {
        let folder = Folder::open(None, "nephele-webhooks-test").expect("a folder");
        let now = "2026-03-04T05:06:07Z".parse().expect("a time");
        let webhooks = LocalWebhooks::prepare(&folder, now).expect("prepared");
        let base = webhooks.url("/");
        for definition in webhooks.definitions().expect("definitions") {
            let webhook = definition
                .spec
                .conversion
                .as_ref()
                .and_then(|conversion| conversion.webhook.as_ref());
            let Some(client) = webhook.and_then(|webhook| webhook.client_config.as_ref()) else {
                continue;
            };
            assert_eq!(client.url.as_deref(), Some(format!("{base}convert").as_str()));
            assert!(client.service.is_none() && client.ca_bundle.is_some());
        }
        let configured = webhooks
            .configurations
            .iter()
            .filter_map(|one| one["webhooks"].as_array())
            .flatten();
        let clients: Vec<_> = configured.map(|webhook| &webhook["clientConfig"]).collect();
        assert!(clients.len() > 8, "{clients:?}");
        for client in clients {
            assert!(
                client["url"]
                    .as_str()
                    .is_some_and(|url| url.starts_with(&base) && url.len() > base.len())
            );
            assert!(client["service"].is_null() && client["caBundle"].is_string());
        }
        assert!(
            folder.path(WebhookSettings::CERTIFICATE).exists() && folder.path(WebhookSettings::KEY).exists()
        );
        folder.discard().expect("removed");
    }
}
