//! What to answer to the hooks of a Cluster's life, and what was answered: a ConfigMap beside the Cluster.
//!
//! | key | who writes it | what it says |
//! |---|---|---|
//! | `<call>-preloadedResponse` | people, tests | the response, as YAML or JSON; field names in any letter case |
//! | `<call>-actualResponseStatus` | the extension | what was answered last |
//!
//! A call is the hook's name with the versions that it is about: `BeforeClusterUpgrade-v1.35.0-v1.36.0`. The ConfigMap is
//! `<cluster>-<ExtensionConfig>-test-extension-hookresponses`; it is made at the first call, and stays when the Cluster
//! goes, whose last record is in it. Names, keys and values are those of Cluster API's own test extension
//! (`test/extension/handlers/lifecycle/handlers.go`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use nephele_runtime_sdk::{
    hooks::{Response, Settings},
    wire::{self, Object},
};
use serde_json::json;
use thiserror::Error;

use crate::settings::{DEFAULT_ALL_HANDLERS_TO_BLOCKING, EXTENSION_CONFIG_NAME, is_true};

const PRELOADED: &str = "preloadedResponse";
const ACTUAL: &str = "actualResponseStatus";
/// What a hook that blocks by default asks its caller to wait.
const RETRY_AFTER_SECONDS: i32 = 5;

/// Why a call cannot be answered.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// Nobody could tell which ConfigMap it is.
    #[error("the ExtensionConfig has no setting {EXTENSION_CONFIG_NAME}")]
    NoExtensionConfigName,
    /// The ConfigMap could not be read.
    #[error("failed to read ConfigMap {name}")]
    Read {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// The ConfigMap could not be made.
    #[error("failed to create ConfigMap {name}")]
    Create {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// What was answered could not be recorded.
    #[error("failed to record the response in ConfigMap {name}")]
    Record {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// What is to be answered is no YAML.
    #[error("failed to read {key} of ConfigMap {name} as YAML")]
    Yaml {
        /// The ConfigMap.
        name: String,
        /// The key in it.
        key: String,
        /// The cause.
        #[source]
        source: serde_yaml_ng::Error,
    },
    /// What is to be answered is no response of the hook.
    #[error("failed to read {key} of ConfigMap {name} as a response")]
    Response {
        /// The ConfigMap.
        name: String,
        /// The key in it.
        key: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

/// A call of a hook, and where is said what to answer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    namespace: String,
    config_map: String,
    /// The hook, with the versions that it is about.
    call: String,
    /// Whether it blocks when nothing is said.
    blocks: bool,
}

impl Scene {
    /// The call of a hook for a Cluster, about some versions.
    ///
    /// # Errors
    /// When the settings do not say of which ExtensionConfig they are.
    pub fn new(
        cluster: &Object,
        settings: &Settings,
        hook: &str,
        versions: &[&str],
    ) -> Result<Self, ScriptError> {
        let extension = extension_config(settings).ok_or(ScriptError::NoExtensionConfigName)?;
        let parts: Vec<&str> = [hook].into_iter().chain(versions.iter().copied()).collect();
        Ok(Self {
            namespace: cluster.namespace().to_owned(),
            config_map: config_map(cluster.name(), extension),
            // No key may have a plus in it, which begins the build of a version.
            call: parts.join("-").replace('+', "_"),
            blocks: is_true(settings, DEFAULT_ALL_HANDLERS_TO_BLOCKING),
        })
    }

    fn key(&self, of: &str) -> String {
        format!("{}-{of}", self.call)
    }

    /// What to answer, by what is in the ConfigMap.
    ///
    /// # Errors
    /// When what is there is no response.
    pub fn response<R: Response>(&self, data: &BTreeMap<String, String>) -> Result<R, ScriptError> {
        let key = self.key(PRELOADED);
        let Some(text) = data.get(&key) else {
            let mut response = R::default();
            if self.blocks {
                response.set_retry_after_seconds(RETRY_AFTER_SECONDS);
                if response.retry_after_seconds().is_some() {
                    response.set_message(format!("{key} of ConfigMap {} is awaited", self.config_map));
                }
            }
            return Ok(response);
        };
        read(&self.config_map, &key, text)
    }
}

/// The name of the ConfigMap of a Cluster.
fn config_map(cluster: &str, extension: &str) -> String {
    format!("{cluster}-{extension}-test-extension-hookresponses")
}

/// The ExtensionConfig that settings are of.
fn extension_config(settings: &Settings) -> Option<&String> {
    settings.get(EXTENSION_CONFIG_NAME).filter(|name| !name.is_empty())
}

/// Reads a response.
fn read<R: Response>(name: &str, key: &str, text: &str) -> Result<R, ScriptError> {
    let (name, key) = (name.to_owned(), key.to_owned());
    match serde_yaml_ng::from_str(text) {
        Ok(value) => {
            wire::from_value::<R>(value).map_err(|source| ScriptError::Response { name, key, source })
        }
        Err(source) => Err(ScriptError::Yaml { name, key, source }),
    }
}

/// The response that is preloaded for the first of these calls that has one. Nothing is recorded, and no ConfigMap made:
/// such calls come from each machine of a Cluster, again and again.
///
/// # Errors
/// When the ConfigMap cannot be read, or says what is no response.
pub(crate) async fn preloaded<R: Response>(
    client: &Client,
    namespace: &str,
    cluster: &str,
    settings: &Settings,
    calls: &[String],
) -> Result<Option<R>, ScriptError> {
    let Some(extension) = extension_config(settings) else { return Ok(None) };
    let name = config_map(cluster, extension);
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = config_maps.get_opt(&name).await;
    let found = found.map_err(|source| ScriptError::Read { name: name.clone(), source: Box::new(source) })?;
    let data = found.and_then(|found| found.data).unwrap_or_default();
    let keys = calls.iter().map(|call| format!("{call}-{PRELOADED}"));
    let said = keys.filter_map(|key| data.get(&key).map(|text| (key, text))).next();
    said.map(|(key, text)| read(&name, &key, text)).transpose()
}

/// What is recorded of a response.
#[must_use]
pub fn record(response: &impl Response) -> String {
    let status = response.status().as_str();
    match response.retry_after_seconds() {
        Some(seconds) => format!("Status: {status}, RetryAfterSeconds: {seconds}"),
        None => status.to_owned(),
    }
}

/// Answers a call and records what was answered.
///
/// # Errors
/// When the ConfigMap cannot be read or written, or says what is no response.
pub async fn answer<R: Response>(client: &Client, scene: &Scene) -> Result<R, ScriptError> {
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), &scene.namespace);
    let data = data(&config_maps, &scene.config_map).await?;
    let response: R = scene.response(&data)?;
    let (key, record) = (scene.key(ACTUAL), record(&response));
    if data.get(&key) != Some(&record) {
        let patch = json!({ "data": { key: record } });
        let patched =
            config_maps.patch(&scene.config_map, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map_err(|source| ScriptError::Record {
            name: scene.config_map.clone(),
            source: Box::new(source),
        })?;
    }
    Ok(response)
}

/// What is in the ConfigMap, which is made where there is none.
async fn data(config_maps: &Api<ConfigMap>, name: &str) -> Result<BTreeMap<String, String>, ScriptError> {
    let read = || async {
        let found = config_maps.get_opt(name).await;
        found.map_err(|source| ScriptError::Read { name: name.to_owned(), source: Box::new(source) })
    };
    if let Some(found) = read().await? {
        return Ok(found.data.unwrap_or_default());
    }
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let empty = ConfigMap { metadata, ..ConfigMap::default() };
    match config_maps.create(&PostParams::default(), &empty).await {
        Ok(_) => Ok(BTreeMap::new()),
        // Somebody else made it meanwhile, and may have said something.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            Ok(read().await?.and_then(|found| found.data).unwrap_or_default())
        }
        Err(source) => Err(ScriptError::Create { name: name.to_owned(), source: Box::new(source) }),
    }
}

#[cfg(test)]
mod tests;
