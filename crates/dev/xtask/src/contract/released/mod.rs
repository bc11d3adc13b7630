//! Tests of contract rows about released files: components, definitions, templates.

mod components;
mod definitions;
mod operator;
mod state_metrics;
mod templates;
mod tilt;

use std::{fs, path::Path};

use nephele_components::{IMAGE, Role, render};
use serde::Deserialize;
use serde_json::Value;

use crate::{paths, release};

/// Each provider: its role, clusterctl's name, and the namespace of its components.
const PROVIDERS: [(Role, &str, &str); 2] = [
    (Role::Infrastructure, release::LABEL, "nephele-system"),
    (Role::Ipam, release::IPAM_LABEL, "capi-ipam-in-cluster-system"),
];

/// A provider's components as clusterctl reads them, before variables are replaced.
fn components(role: Role) -> Vec<Value> {
    documents(&render(role, IMAGE))
}

fn documents(text: &str) -> Vec<Value> {
    let documents = serde_yaml_ng::Deserializer::from_str(text);
    documents
        .map(|document| Value::deserialize(document).expect("YAML"))
        .collect()
}

/// A file of the repository.
fn file(path: &str) -> String {
    fs::read_to_string(paths::repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// Every string in a value.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(entries) => entries
            .iter()
            .flat_map(|(key, value)| std::iter::once(key.as_str()).chain(texts(value)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Paths of all files below a folder, sorted.
fn files_below(folder: &Path) -> Vec<String> {
    fn add(folder: &Path, prefix: &str, files: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                add(&entry.path(), &format!("{name}/"), files);
            } else {
                files.push(name);
            }
        }
    }
    let mut files = Vec::new();
    add(folder, "", &mut files);
    files.sort();
    files
}

#[test]
fn a_release_has_the_files_that_clusterctl_asks_for() {
    let folder = std::env::temp_dir().join(format!("nephele-release-{}", std::process::id()));
    let version = release::VERSION;
    release::lay_out(&folder, version, IMAGE).expect("laid out");
    let files = files_below(&folder);
    fs::remove_dir_all(&folder).expect("removed");
    let expected: Vec<_> = [
        ("infrastructure-in-memory", "cluster-template-autoscaler.yaml"),
        ("infrastructure-in-memory", "cluster-template-ipam.yaml"),
        ("infrastructure-in-memory", "cluster-template-machine-pool.yaml"),
        ("infrastructure-in-memory", "cluster-template-scale.yaml"),
        ("infrastructure-in-memory", "cluster-template-topology.yaml"),
        ("infrastructure-in-memory", "cluster-template.yaml"),
        ("infrastructure-in-memory", "clusterclass-in-memory.yaml"),
        ("infrastructure-in-memory", "infrastructure-components.yaml"),
        ("infrastructure-in-memory", "metadata.yaml"),
        ("ipam-in-cluster", "ipam-components.yaml"),
        ("ipam-in-cluster", "metadata.yaml"),
        ("runtime-extension-nephele", "metadata.yaml"),
        ("runtime-extension-nephele", "runtime-extension-components.yaml"),
        (release::METRICS, "crd-clusterrole.yaml"),
        (release::METRICS, "crd-metrics-config.yaml"),
    ]
    .map(|(label, file)| format!("{label}/{version}/{file}"))
    .to_vec();
    let missing: Vec<_> = expected.iter().filter(|file| !files.contains(file)).collect();
    assert!(missing.is_empty(), "{missing:?} are not among {files:?}");
    // Every file of a provider has a name that clusterctl looks for.
    for path in files.iter().filter(|path| !path.starts_with(release::METRICS)) {
        let name = path.rsplit('/').next().unwrap_or_default();
        let known = [
            "metadata.yaml",
            "infrastructure-components.yaml",
            "ipam-components.yaml",
            "runtime-extension-components.yaml",
        ]
        .contains(&name);
        assert!(
            known || name.starts_with("cluster-template") || name.starts_with("clusterclass-"),
            "{path}"
        );
    }
}

/// cluster-api, cmd/clusterctl/client/repository/repository_local.go: the name of the folder is the version. It is also
/// the tag of the image.
#[test]
fn folders_metadata_and_images_of_a_release_are_of_the_version_of_the_workspace() {
    let folder = std::env::temp_dir().join(format!("nephele-version-{}", std::process::id()));
    // As `cargo xtask release` does by default.
    release::run(&release::Args::of(&folder)).expect("laid out");
    let files = files_below(&folder);
    let read = |path: &String| fs::read_to_string(folder.join(path)).expect("readable");
    let texts: Vec<_> = files.iter().map(|path| (path.clone(), read(path))).collect();
    fs::remove_dir_all(&folder).expect("removed");

    let version = env!("CARGO_PKG_VERSION");
    let numbers: Vec<u64> = version
        .split('.')
        .map(|number| number.parse().expect("a version of numbers"))
        .collect();
    let [major, minor, _] = numbers[..] else {
        panic!("{version} has not three numbers")
    };
    let mut images = 0;
    let mut metadata = 0;
    for (path, content) in &texts {
        let [_, of_folder, file] = path.split('/').collect::<Vec<_>>()[..] else {
            panic!("{path}")
        };
        assert_eq!(of_folder, format!("v{version}"), "{path}");
        if file == "metadata.yaml" {
            metadata += 1;
            let series = documents(content).remove(0)["releaseSeries"].clone();
            let of_release = |one: &&Value| one["major"] == major && one["minor"] == minor;
            assert_eq!(
                series
                    .as_array()
                    .expect("a list")
                    .iter()
                    .filter(of_release)
                    .count(),
                1,
                "{path}"
            );
        }
        for image in content
            .lines()
            .filter_map(|line| line.trim().strip_prefix("image: "))
        {
            images += 1;
            assert_eq!(
                image.rsplit_once(':').map(|(_, tag)| tag),
                Some(of_folder),
                "{path}"
            );
        }
    }
    assert_eq!((images, metadata), (3, 3), "one of each provider");
}

/// cluster-api, cmd/clusterctl/client/config/providers_client.go, validateProvider. The type of provider comes
/// before the name in its label.
#[test]
fn names_of_providers_are_dns_labels() {
    for (label, kind) in [
        (release::LABEL, "infrastructure-"),
        (release::IPAM_LABEL, "ipam-"),
        (release::RUNTIME_EXTENSION_LABEL, "runtime-extension-"),
    ] {
        let name = label.strip_prefix(kind).expect("labelled by its kind");
        let inner = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
        assert!(
            name.len() <= 63 && name.starts_with(inner) && name.ends_with(inner),
            "{name}"
        );
        assert!(
            name.chars().all(|character| inner(character) || character == '-'),
            "{name}"
        );
    }
}
