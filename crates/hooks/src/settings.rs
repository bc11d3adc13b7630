//! What an ExtensionConfig's settings say.

use nephele_runtime_sdk::hooks::Settings;

/// The name of the ExtensionConfig: the ConfigMaps of its Clusters are named after it.
pub const EXTENSION_CONFIG_NAME: &str = "extensionConfigName";
/// `true` has every hook that can block do so until a ConfigMap says otherwise.
pub const DEFAULT_ALL_HANDLERS_TO_BLOCKING: &str = "defaultAllHandlersToBlocking";
/// The versions of Kubernetes that upgrades lead over, with commas between them.
pub const KUBERNETES_VERSIONS: &str = "kubernetesVersions";

/// `true` has no machine updated in place.
pub const DISABLE_IN_PLACE_UPDATES: &str = "disableInPlaceUpdates";
/// How long the update of a machine in place takes, as in `spec.behaviour` of an InMemoryMachine: `30s`. 10 s without.
pub const IN_PLACE_UPDATE_DURATION: &str = "inPlaceUpdateDuration";
/// How much of that comes on top at most: `0.5` is up to half as long again.
pub const IN_PLACE_UPDATE_JITTER: &str = "inPlaceUpdateJitter";

/// Whether a setting is `true`.
#[must_use]
pub fn is_true(settings: &Settings, name: &str) -> bool {
    settings.get(name).is_some_and(|value| value == "true")
}
