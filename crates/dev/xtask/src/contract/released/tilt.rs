//! The file for Cluster API's own development loop, as its Tiltfile reads it (cluster-api, `Tiltfile`,
//! `load_provider_tilt_files` and `enable_provider`; `docs/book/src/developer/core/tilt.md`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{PROVIDERS, documents, file, items, text};
use crate::paths;

/// The keys that Tilt reads. Any other would be a mistake that Tilt does not report.
const KEYS: [&str; 14] = [
    "additional_docker_build_commands",
    "additional_docker_helper_commands",
    "additional_resources",
    "additional_uncategorized_resources",
    "apply_provider_yaml",
    "context",
    "go_main",
    "image",
    "kustomize_folder",
    "kustomize_options",
    "label",
    "live_reload_deps",
    "resource_deps",
    "version",
];

#[test]
fn tilt_finds_a_folder_of_kustomizations_and_a_version_of_a_released_series_for_each_provider() {
    let documents_of = documents(&file("tilt-provider.yaml"));
    let providers = documents_of[0].as_array().expect("a list");
    let series = documents(&file("config/metadata.yaml"));
    let numbers = |series: &Value| (series["major"].as_u64(), series["minor"].as_u64());
    let series: BTreeSet<_> = items(&series[0], "/releaseSeries").iter().map(numbers).collect();
    for provider in providers {
        let name = text(provider, "/name");
        let config = &provider["config"];
        let keys: Vec<_> = config.as_object().expect("a configuration").keys().collect();
        assert!(
            keys.iter().all(|key| KEYS.contains(&key.as_str())),
            "{name}: {keys:?}"
        );
        // The label becomes the name of a group of resources and, in lower case, of one of the resources.
        let label = text(config, "/label");
        assert!(
            !label.is_empty() && label.chars().all(char::is_alphanumeric),
            "{name}: {label:?}"
        );
        // With an image, Tilt would build a Go program.
        assert_eq!(config.get("image"), None, "{name}");
        let version = text(config, "/version").strip_prefix('v').unwrap_or_default();
        let version: Vec<_> = version
            .split('.')
            .map(|number| number.parse::<u64>().ok())
            .collect();
        let [major, minor, Some(_)] = version[..] else {
            panic!("{name}: {}", config["version"])
        };
        assert!(
            series.contains(&(major, minor)),
            "{name}: no series of {}",
            config["version"]
        );
        let folder = paths::repository()
            .join(text(config, "/context"))
            .join(text(config, "/kustomize_folder"));
        assert!(
            folder.join("kustomization.yaml").is_file(),
            "{name}: {}",
            folder.display()
        );
    }
    assert_eq!(providers.len(), PROVIDERS.len());
}
