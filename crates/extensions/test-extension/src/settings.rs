//! The settings of an ExtensionConfig.

use nephele_runtime_sdk::hooks::Settings;

/// The name of the ExtensionConfig, which is part of the names of ConfigMaps.
pub const EXTENSION_CONFIG_NAME: &str = "extensionConfigName";
/// With `true`, every hook that can block does so, unless a ConfigMap has another answer.
pub const DEFAULT_ALL_HANDLERS_TO_BLOCKING: &str = "defaultAllHandlersToBlocking";
/// The Kubernetes versions that upgrades pass through, separated by commas.
pub const KUBERNETES_VERSIONS: &str = "kubernetesVersions";

/// With `true`, no machine is updated in place.
pub const DISABLE_IN_PLACE_UPDATES: &str = "disableInPlaceUpdates";
/// How long an in-place update takes, as in `spec.behaviour` of an InMemoryMachine: `30s`. 10 s by default.
pub const IN_PLACE_UPDATE_DURATION: &str = "inPlaceUpdateDuration";
/// The most random time that is added to that, as a fraction: `0.5` is up to half as long again.
pub const IN_PLACE_UPDATE_JITTER: &str = "inPlaceUpdateJitter";

/// Whether a setting is `true`.
#[must_use]
pub fn is_true(settings: &Settings, name: &str) -> bool {
    settings.get(name).is_some_and(|value| value == "true")
}
