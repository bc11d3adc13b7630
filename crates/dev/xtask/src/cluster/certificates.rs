//! Replaces cert-manager: issues every Certificate from one authority and injects that authority into webhooks and
//! definitions that ask for it (`cert-manager.io/inject-ca-from`).
//!
//! cert-manager does not build from its Go modules alone, and its images cannot be pulled everywhere.

use std::{path::Path, time::Duration};

use anyhow::Context;
use base64::{Engine, prelude::BASE64_STANDARD};
use futures::{StreamExt, stream};
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::Secret,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, PartialObjectMeta, Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use nephele_pki::Authority;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::pki;

const INJECT: &str = "cert-manager.io/inject-ca-from";

/// An event of one of the watches below. It has only names, no data.
#[derive(Debug, Clone)]
enum Trigger {
    Certificate { namespace: String, name: String },
    Mutating(String),
    Validating(String),
    Definition(String),
}

/// Runs until the process is stopped. The authority is stored in the folder.
pub(super) fn serve(folder: &Path) -> anyhow::Result<()> {
    let authority = pki::authority(folder, "webhooks")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("failed to start a runtime")?.block_on(async {
        let client = Client::try_default()
            .await
            .context("failed to reach the cluster")?;
        Stand { client, authority }.run().await
    })
}

struct Stand {
    client: Client,
    authority: Authority,
}

impl Stand {
    async fn run(self) -> anyhow::Result<()> {
        let certificates = watcher(
            Api::<DynamicObject>::all_with(self.client.clone(), &kind()),
            watcher::Config::default(),
        )
        .default_backoff()
        .applied_objects()
        .map(|result| {
            result.map(|object| Trigger::Certificate {
                namespace: object.namespace().unwrap_or_default(),
                name: object.name_any(),
            })
        });
        let mut triggers = stream::select_all([
            certificates.boxed(),
            self.names::<MutatingWebhookConfiguration>(Trigger::Mutating)
                .boxed(),
            self.names::<ValidatingWebhookConfiguration>(Trigger::Validating)
                .boxed(),
            self.names::<CustomResourceDefinition>(Trigger::Definition)
                .boxed(),
        ]);
        while let Some(trigger) = triggers.next().await {
            match trigger {
                Ok(trigger) => self.answer(trigger).await,
                // The watch retries with its backoff.
                Err(error) => eprintln!("failed to watch: {error}"),
            }
        }
        Ok(())
    }

    fn names<K>(
        &self,
        trigger: fn(String) -> Trigger,
    ) -> impl futures::Stream<Item = Result<Trigger, watcher::Error>> + use<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        watcher(
            Api::<PartialObjectMeta<K>>::all(self.client.clone()),
            watcher::Config::default(),
        )
        .default_backoff()
        .applied_objects()
        .filter(|result| {
            let wanted = result.as_ref().map_or(true, |object: &PartialObjectMeta<K>| {
                object.annotations().contains_key(INJECT)
            });
            std::future::ready(wanted)
        })
        .map(move |result| result.map(|object| trigger(object.name_any())))
    }

    /// Retries a trigger until it succeeds, because no other event would trigger it again.
    async fn answer(&self, trigger: Trigger) {
        const ATTEMPTS_MAX: u32 = 30;
        for attempt in 1..=ATTEMPTS_MAX {
            let result = match &trigger {
                Trigger::Certificate { namespace, name } => self.issue(namespace, name).await,
                Trigger::Mutating(name) => self.inject_webhooks::<MutatingWebhookConfiguration>(name).await,
                Trigger::Validating(name) => {
                    self.inject_webhooks::<ValidatingWebhookConfiguration>(name).await
                }
                Trigger::Definition(name) => self.inject_conversion(name).await,
            };
            let Err(error) = result else { return };
            eprintln!("{trigger:?}, attempt {attempt}: {error:#}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    async fn issue(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        let certificates = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &kind());
        let Some(certificate) = certificates.get_opt(name).await? else {
            return Ok(());
        };
        let spec = &certificate.data["spec"];
        let secret_name = spec["secretName"]
            .as_str()
            .context("the certificate names no secret")?;
        let secrets = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let authority = self.authority.certificate_pem();
        if let Some(secret) = secrets.get_opt(secret_name).await? {
            let known = secret.data.as_ref().and_then(|data| data.get("ca.crt"));
            if known.is_some_and(|known| known.0 == authority.as_bytes()) {
                return Ok(());
            }
        }
        let texts = |field: &str| -> Vec<String> {
            spec[field]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        let mut request = pki::request(&format!("{namespace}/{name}"), "webhook");
        request.dns_names = texts("dnsNames");
        let leaf = self.authority.issue(&request)?;
        let entry = |key: &str, text: String| (key.to_owned(), ByteString(text.into_bytes()));
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(secret_name.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(
                [
                    entry("ca.crt", authority),
                    entry("tls.crt", leaf.certificate_pem()),
                    entry("tls.key", leaf.key_pem()),
                ]
                .into(),
            ),
            ..Secret::default()
        };
        secrets
            .patch(secret_name, &apply(), &Patch::Apply(&secret))
            .await?;
        println!("Issued {namespace}/{secret_name}");
        Ok(())
    }

    async fn inject_webhooks<K>(&self, name: &str) -> anyhow::Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
    {
        let configurations = Api::<K>::all(self.client.clone());
        let Some(configuration) = configurations.get_opt(name).await? else {
            return Ok(());
        };
        let configuration = serde_json::to_value(configuration).context("failed to read a configuration")?;
        let webhooks = configuration["webhooks"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        let paths = (0..webhooks.len())
            .filter(|&index| webhooks[index]["clientConfig"]["caBundle"] != self.bundle())
            .map(|index| format!("/webhooks/{index}/clientConfig/caBundle"));
        self.put(&configurations, name, paths.collect()).await
    }

    async fn inject_conversion(&self, name: &str) -> anyhow::Result<()> {
        let definitions = Api::<CustomResourceDefinition>::all(self.client.clone());
        let Some(definition) = definitions.get_opt(name).await? else {
            return Ok(());
        };
        let Some(webhook) = definition
            .spec
            .conversion
            .and_then(|conversion| conversion.webhook)
        else {
            return Ok(());
        };
        let known = webhook.client_config.and_then(|config| config.ca_bundle);
        let paths = if known.is_some_and(|known| known.0 == self.authority.certificate_pem().as_bytes()) {
            Vec::new()
        } else {
            vec!["/spec/conversion/webhook/clientConfig/caBundle".to_owned()]
        };
        self.put(&definitions, name, paths).await
    }

    /// Writes the authority to these paths of an object.
    async fn put<K>(&self, api: &Api<K>, name: &str, paths: Vec<String>) -> anyhow::Result<()>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        if paths.is_empty() {
            return Ok(());
        }
        let operations: Vec<_> = paths
            .iter()
            .map(|path| json!({"op": "add", "path": path, "value": self.bundle()}))
            .collect();
        let operations =
            serde_json::from_value(Value::Array(operations)).context("failed to build a patch")?;
        api.patch(name, &PatchParams::default(), &Patch::<()>::Json(operations))
            .await?;
        println!("Injected into {name}");
        Ok(())
    }

    fn bundle(&self) -> String {
        BASE64_STANDARD.encode(self.authority.certificate_pem())
    }
}

fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("cert-manager.io", "v1", "Certificate"))
}

fn apply() -> PatchParams {
    PatchParams::apply("nephele-certificates").force()
}
