//! The ConfigMap of a Cluster with the answers to the lifecycle hooks: those to give, and those that were given.
//!
//! | key | writer | value |
//! |---|---|---|
//! | `<call>-preloadedResponse` | people, tests | the response, as YAML or JSON; field names in any letter case |
//! | `<call>-actualResponseStatus` | the extension | the last answer |
//!
//! A call is the hook's name with its versions: `BeforeClusterUpgrade-v1.35.0-v1.36.0`. The ConfigMap is
//! `<cluster>-<ExtensionConfig>-test-extension-hookresponses`. It is created at the first call, and stays with its
//! records when the Cluster is deleted. Names, keys and values are the same as in Cluster API's own test extension
//! (`test/extension/handlers/lifecycle/handlers.go`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use nephele_runtime_sdk::{
    hooks::{Response, Settings},
    wire::{self, Object},
};
use nephele_yaml::{Bounds, Dialect};
use serde_json::json;
use thiserror::Error;
use tracing::warn;

use crate::{
    access::{Access, NameError, object_name, shown},
    settings::{DEFAULT_ALL_HANDLERS_TO_BLOCKING, EXTENSION_CONFIG_NAME, is_true},
};

const PRELOADED: &str = "preloadedResponse";
const ACTUAL: &str = "actualResponseStatus";
/// How long a hook that blocks by default makes its caller wait.
const RETRY_AFTER_SECONDS: i32 = 5;
/// The most characters of a key of a ConfigMap (apimachinery, `IsConfigMapKey`).
const KEY_MAX: usize = 253;
/// The most entries of a ConfigMap. Beyond that, no new answer is recorded. With keys of 253 characters they are
/// less than 160 KiB of the 1 MiB that a ConfigMap may have, so a caller that makes up versions cannot fill it.
const ENTRIES_MAX: usize = 512;
/// The bounds of a preloaded response. It has five short fields.
const BOUNDS: Bounds = Bounds {
    text: 16 * 1024,
    memory: 1024 * 1024,
    depth: 16,
    dialect: Dialect::Strict,
};

/// Why a call cannot be answered.
#[derive(Debug, Error)]
pub enum ScriptError {
    /// The name of the ConfigMap contains that of the ExtensionConfig, which is not in the settings.
    #[error("the ExtensionConfig has no setting {EXTENSION_CONFIG_NAME}")]
    NoExtensionConfigName,
    /// A name in the request or in the settings is refused.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The versions of the call cannot be part of a ConfigMap key.
    #[error("{call:?} cannot be part of a ConfigMap's key")]
    Key {
        /// The hook and the versions.
        call: String,
    },
    /// The ConfigMap could not be read.
    #[error("failed to read ConfigMap {name}")]
    Read {
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// The ConfigMap could not be created.
    #[error("failed to create ConfigMap {name}")]
    Create {
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// The answer could not be recorded.
    #[error("failed to record the response in ConfigMap {name}")]
    Record {
        name: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// The preloaded response is not YAML.
    #[error("failed to read {key} of ConfigMap {name} as YAML")]
    Yaml {
        name: String,
        key: String,
        #[source]
        source: nephele_yaml::YamlError,
    },
    /// The preloaded response does not have the fields of the hook's response.
    #[error("failed to read {key} of ConfigMap {name} as a response")]
    Response {
        name: String,
        key: String,
        #[source]
        source: serde_json::Error,
    },
}

/// A call of a hook, and the ConfigMap with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    namespace: String,
    config_map: String,
    /// The hook and the versions of the call.
    call: String,
    /// Whether the hook blocks when the ConfigMap has no answer.
    blocks: bool,
}

impl Scene {
    /// The call of a hook for a Cluster, with the versions of the call.
    ///
    /// # Errors
    /// When the settings do not name the ExtensionConfig, a name is invalid, or the versions cannot be part of a
    /// ConfigMap key.
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
            config_map: config_map(cluster.name(), extension)?,
            call: call_of(&parts)?,
            blocks: is_true(settings, DEFAULT_ALL_HANDLERS_TO_BLOCKING),
        })
    }

    fn key(&self, of: &str) -> String {
        format!("{}-{of}", self.call)
    }

    /// The answer, according to the ConfigMap's data.
    ///
    /// # Errors
    /// When the preloaded response is not a response of the hook.
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
fn config_map(cluster: &str, extension: &str) -> Result<String, NameError> {
    let cluster = object_name("Cluster", cluster)?;
    let extension = object_name("ExtensionConfig", extension)?;
    let name = format!("{cluster}-{extension}-test-extension-hookresponses");
    // Two valid names can make a name that is too long.
    object_name("ConfigMap", &name)?;
    Ok(name)
}

/// The hook and the versions of a call, which are the prefix of its keys.
fn call_of(parts: &[&str]) -> Result<String, ScriptError> {
    // A version with a build has a plus sign, which a key cannot have.
    let call = parts.join("-").replace('+', "_");
    let in_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let suffix = PRELOADED.len().max(ACTUAL.len());
    let longest = call.len().saturating_add("-".len()).saturating_add(suffix);
    if call.bytes().all(in_key) && longest <= KEY_MAX {
        Ok(call)
    } else {
        Err(ScriptError::Key { call: shown(&call) })
    }
}

/// The name of the ExtensionConfig, from its settings.
fn extension_config(settings: &Settings) -> Option<&String> {
    settings
        .get(EXTENSION_CONFIG_NAME)
        .filter(|name| !name.is_empty())
}

/// Reads a response.
fn read<R: Response>(name: &str, key: &str, text: &str) -> Result<R, ScriptError> {
    let name = name.to_owned();
    let key = key.to_owned();
    match nephele_yaml::read_one(text, &BOUNDS) {
        Ok(value) => {
            wire::from_value::<R>(value).map_err(|source| ScriptError::Response { name, key, source })
        }
        Err(source) => Err(ScriptError::Yaml { name, key, source }),
    }
}

/// The preloaded response of the first of these calls that has one. Nothing is recorded and no ConfigMap is
/// created, because every machine of a Cluster repeats such calls.
///
/// # Errors
/// When a name is refused, or the ConfigMap cannot be read or its value is not a response.
pub(crate) async fn preloaded<R: Response>(
    access: &Access,
    namespace: &str,
    cluster: &str,
    settings: &Settings,
    calls: &[String],
) -> Result<Option<R>, ScriptError> {
    let Some(extension) = extension_config(settings) else {
        return Ok(None);
    };
    let name = config_map(cluster, extension)?;
    let config_maps = access.config_maps(namespace)?;
    let found = config_maps.get_opt(&name).await;
    let found = found.map_err(|source| ScriptError::Read {
        name: name.clone(),
        source: Box::new(source),
    })?;
    let data = found.and_then(|found| found.data).unwrap_or_default();
    let keys = calls.iter().map(|call| format!("{call}-{PRELOADED}"));
    let said = keys
        .filter_map(|key| data.get(&key).map(|text| (key, text)))
        .next();
    said.map(|(key, text)| read(&name, &key, text)).transpose()
}

/// The record of a response.
#[must_use]
pub fn record(response: &impl Response) -> String {
    let status = response.status().as_str();
    match response.retry_after_seconds() {
        Some(seconds) => format!("Status: {status}, RetryAfterSeconds: {seconds}"),
        None => status.to_owned(),
    }
}

/// Answers a call and records the answer.
///
/// # Errors
/// When the namespace is refused, or the ConfigMap cannot be read or written, or its value is not a response.
pub async fn answer<R: Response>(access: &Access, scene: &Scene) -> Result<R, ScriptError> {
    let config_maps = access.config_maps(&scene.namespace)?;
    let data = data(&config_maps, &scene.config_map).await?;
    let response: R = scene.response(&data)?;
    let key = scene.key(ACTUAL);
    let record = record(&response);
    if data.len() >= ENTRIES_MAX && !data.contains_key(&key) {
        warn!(
            config_map = scene.config_map,
            "Answer is not recorded: the ConfigMap has too many entries"
        );
    } else if data.get(&key) != Some(&record) {
        let patch = json!({ "data": { key: record } });
        let patched = config_maps
            .patch(&scene.config_map, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.map_err(|source| ScriptError::Record {
            name: scene.config_map.clone(),
            source: Box::new(source),
        })?;
    }
    Ok(response)
}

/// The data of the ConfigMap. A missing ConfigMap is created.
async fn data(config_maps: &Api<ConfigMap>, name: &str) -> Result<BTreeMap<String, String>, ScriptError> {
    let read = || async {
        let found = config_maps.get_opt(name).await;
        found.map_err(|source| ScriptError::Read {
            name: name.to_owned(),
            source: Box::new(source),
        })
    };
    if let Some(found) = read().await? {
        return Ok(found.data.unwrap_or_default());
    }
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    let empty = ConfigMap {
        metadata,
        ..ConfigMap::default()
    };
    match config_maps.create(&PostParams::default(), &empty).await {
        Ok(_) => Ok(BTreeMap::new()),
        // A user created the ConfigMap meanwhile, perhaps with a response.
        Err(kube::Error::Api(status)) if status.code == 409 => {
            Ok(read().await?.and_then(|found| found.data).unwrap_or_default())
        }
        Err(source) => Err(ScriptError::Create {
            name: name.to_owned(),
            source: Box::new(source),
        }),
    }
}

#[cfg(test)]
mod tests;
