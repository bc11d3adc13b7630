//! The webhooks of this process, for an API server on the same machine: it calls them by URL, on the loopback interface.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use nephele_pki::{Authority, KeyAlgorithm, LeafRequest};
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::components::render::{IMAGE, Role, render, with_variables};
use crate::embedded::{Folder, WebhookSettings};
use crate::install::objects::LABEL;
use crate::install::ready;
use crate::kinds::Kinds;

/// How long the certificate is valid: longer than any API server of a test.
const VALID_FOR: SignedDuration = SignedDuration::from_hours(24 * 365);
/// How long the API server may take until it calls the webhooks: it reads new configurations within a second.
const REACHED_WITHIN: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_millis(100);

/// The address and the authority of the webhooks.
pub(crate) struct LocalWebhooks {
    port: u16,
    folder: PathBuf,
    authority: String,
    configurations: Configurations,
}

/// The configurations that the components have.
struct Configurations {
    validating: Vec<ValidatingWebhookConfiguration>,
    mutating: Vec<MutatingWebhookConfiguration>,
}

impl LocalWebhooks {
    /// Chooses a free port, and writes a certificate for it into the folder.
    pub(super) fn prepare(folder: &Folder, now: Timestamp) -> anyhow::Result<Self> {
        // The manager listens on the port a moment later. Another process that takes it until then is an error at the
        // start, with a message.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("failed to find a free port")?;
        let port = listener.local_addr().context("failed to find a free port")?.port();
        let (not_before, not_after) = (now - SignedDuration::from_mins(5), now + VALID_FOR);
        let authority =
            Authority::generate("nephele-webhooks", KeyAlgorithm::EcdsaP256, not_before, not_after)
                .context("failed to make the authority of the webhooks")?;
        let leaf = authority.issue(&LeafRequest {
            common_name: "nephele-webhooks".to_owned(),
            organizations: Vec::new(),
            dns_names: Vec::new(),
            ip_addresses: vec![Ipv4Addr::LOCALHOST.into()],
            server_auth: true,
            client_auth: false,
            not_before,
            not_after,
            identity: "nephele-webhooks".to_owned(),
        })?;
        let settings = WebhookSettings { port, folder: folder.root().to_owned() };
        folder.write(WebhookSettings::CERTIFICATE, &leaf.certificate_pem())?;
        folder.write(WebhookSettings::KEY, &leaf.key_pem())?;
        let authority = authority.certificate_pem();
        let mut configurations = configurations()?;
        for client in configurations.clients() {
            *client = by_url(std::mem::take(client), port, &authority);
        }
        Ok(Self { port, folder: settings.folder, authority, configurations })
    }

    pub(crate) fn settings(&self) -> WebhookSettings {
        WebhookSettings { port: self.port, folder: self.folder.clone() }
    }

    /// The definition with a conversion by this process, if it has one.
    pub(super) fn converting(&self, mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
        let conversion =
            definition.spec.conversion.as_mut().and_then(|conversion| conversion.webhook.as_mut());
        if let Some(client) = conversion.and_then(|webhook| webhook.client_config.as_mut()) {
            let path = client.service.take().and_then(|service| service.path).unwrap_or_default();
            client.url = Some(url(self.port, &path));
            client.ca_bundle = Some(ByteString(self.authority.clone().into_bytes()));
        }
        definition
    }

    /// Fails when the API server calls the webhooks of an installed manager.
    pub(super) async fn refuse_installed(&self, client: &Client) -> anyhow::Result<()> {
        let Configurations { validating, mutating } = &self.configurations;
        refuse_installed(client, validating).await?;
        refuse_installed(client, mutating).await
    }

    /// Has the API server call the webhooks, and waits until it does.
    pub(crate) async fn install(&self, client: &Client) -> anyhow::Result<()> {
        let Configurations { validating, mutating } = &self.configurations;
        create(client, validating).await?;
        create(client, mutating).await?;
        let kinds = Kinds::new(client.clone());
        let deadline = Instant::now() + REACHED_WITHIN;
        for object in ready::probes(true, "default") {
            while let Err(error) = ready::probe(&kinds, &object).await {
                if Instant::now() > deadline {
                    let url = url(self.port, "");
                    return Err(error.context(format!(
                        "the management API does not reach the webhooks of this process at {url}: --attach needs an API \
                         server on this machine"
                    )));
                }
                sleep(RETRY).await;
            }
        }
        Ok(())
    }

    /// Has the API server call nobody any more. Otherwise it refuses every write of the kinds when this process is gone.
    pub(crate) async fn uninstall(&self, client: &Client) -> anyhow::Result<()> {
        let Configurations { validating, mutating } = &self.configurations;
        delete(client, validating).await?;
        delete(client, mutating).await
    }
}

impl Configurations {
    fn clients(&mut self) -> impl Iterator<Item = &mut WebhookClientConfig> {
        let validating = self.validating.iter_mut().flat_map(|one| one.webhooks.iter_mut().flatten());
        let mutating = self.mutating.iter_mut().flat_map(|one| one.webhooks.iter_mut().flatten());
        validating
            .map(|webhook| &mut webhook.client_config)
            .chain(mutating.map(|webhook| &mut webhook.client_config))
    }
}

/// The configurations of both providers.
fn configurations() -> anyhow::Result<Configurations> {
    let mut found = Configurations { validating: Vec::new(), mutating: Vec::new() };
    for role in [Role::Infrastructure, Role::Ipam] {
        let text = with_variables(&render(role, IMAGE), &|_| None)?;
        for document in serde_yaml_ng::Deserializer::from_str(&text) {
            let object = Value::deserialize(document).context("failed to read the components")?;
            match object["kind"].as_str() {
                Some("ValidatingWebhookConfiguration") => {
                    found.validating.push(serde_json::from_value(object)?);
                }
                Some("MutatingWebhookConfiguration") => found.mutating.push(serde_json::from_value(object)?),
                _ => {}
            }
        }
    }
    Ok(found)
}

/// The same client by URL, with this authority.
fn by_url(client: WebhookClientConfig, port: u16, authority: &str) -> WebhookClientConfig {
    let path = client.service.and_then(|service| service.path).unwrap_or_default();
    let ca_bundle = Some(ByteString(authority.as_bytes().to_vec()));
    WebhookClientConfig { url: Some(url(port, &path)), ca_bundle, service: None }
}

fn url(port: u16, path: &str) -> String {
    format!("https://{}:{port}{path}", Ipv4Addr::LOCALHOST)
}

/// Refuses an API server with configurations that lead to an installed manager.
async fn refuse_installed<K>(client: &Client, configurations: &[K]) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Configuration,
{
    let api = Api::<K>::all(client.clone());
    for configuration in configurations {
        let name = configuration.name_any();
        let there = api.get_opt(&name).await.with_context(|| format!("failed to read {name}"))?;
        if there.is_some_and(|there| there.is_of_a_service()) {
            bail!(
                "Nephele is installed there: {name} leads to its manager; uninstall it, or attach to another API server"
            );
        }
    }
    Ok(())
}

/// Creates configurations. Those of an earlier run that was killed lead nowhere, and go first.
async fn create<K>(client: &Client, configurations: &[K]) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Configuration,
{
    delete(client, configurations).await?;
    let api = Api::<K>::all(client.clone());
    for configuration in configurations {
        // `nephele uninstall` removes it where this process is killed.
        let mut created = configuration.clone();
        created.meta_mut().labels.get_or_insert_default().insert(LABEL.0.to_owned(), LABEL.1.to_owned());
        let created = api.create(&PostParams::default(), &created).await;
        created.with_context(|| format!("failed to create {}", configuration.name_any()))?;
    }
    Ok(())
}

async fn delete<K>(client: &Client, configurations: &[K]) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Configuration,
{
    let api = Api::<K>::all(client.clone());
    for configuration in configurations {
        let name = configuration.name_any();
        match api.delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.with_context(|| format!("failed to delete {name}"))?),
        }
    }
    Ok(())
}

/// A configuration of webhooks.
trait Configuration: Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize {
    /// Whether the API server calls a Service, as it does for an installed manager.
    fn is_of_a_service(&self) -> bool;
}

impl Configuration for ValidatingWebhookConfiguration {
    fn is_of_a_service(&self) -> bool {
        self.webhooks.iter().flatten().any(|webhook| webhook.client_config.service.is_some())
    }
}

impl Configuration for MutatingWebhookConfiguration {
    fn is_of_a_service(&self) -> bool {
        self.webhooks.iter().flatten().any(|webhook| webhook.client_config.service.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_webhook_and_every_conversion_is_called_by_url() {
        let folder = Folder::open(None, "nephele-webhooks-test").expect("a folder");
        let now = "2026-03-04T05:06:07Z".parse().expect("a time");
        let mut webhooks = LocalWebhooks::prepare(&folder, now).expect("prepared");
        let base = url(webhooks.port, "/");
        let definitions: Vec<_> =
            nephele_api::crds().into_iter().map(|one| webhooks.converting(one)).collect();
        for definition in &definitions {
            let webhook =
                definition.spec.conversion.as_ref().and_then(|conversion| conversion.webhook.as_ref());
            let Some(client) = webhook.and_then(|webhook| webhook.client_config.as_ref()) else { continue };
            assert_eq!(client.url.as_deref(), Some(format!("{base}convert").as_str()));
            assert!(client.service.is_none() && client.ca_bundle.is_some());
        }
        let clients: Vec<_> = webhooks.configurations.clients().map(|client| client.clone()).collect();
        assert!(clients.len() > 8, "{clients:?}");
        for client in clients {
            assert!(client.url.is_some_and(|url| url.starts_with(&base) && url.len() > base.len()));
            assert!(client.service.is_none() && client.ca_bundle.is_some());
        }
        assert!(
            folder.path(WebhookSettings::CERTIFICATE).exists() && folder.path(WebhookSettings::KEY).exists()
        );
        folder.discard().expect("removed");
    }
}
