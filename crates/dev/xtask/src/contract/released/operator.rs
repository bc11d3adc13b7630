//! Requirements of the Cluster API Operator for a release, and our examples for the operator (cluster-api-operator
//! 0.29, `internal/controller`: `preflight_checks.go`, `phase_load.go`, `component_customizer.go`).
//!
//! This release of the operator was run with the examples once, by hand, on an API server with Cluster API 1.14. It
//! installed the infrastructure and the IPAM provider from ConfigMaps made as in the examples, set the flags of
//! `spec.manager`, owned namespaced objects, and reported them ready when their Deployments were available. It
//! upgraded a version, refused to downgrade, and refused a second provider of the same name. A selector that
//! matched the ConfigMaps of two versions was an error, so the examples also select by version.

use std::collections::BTreeSet;

use nephele_components::{IMAGE, Role, render, with_variables};
use serde_json::{Value, json};

use super::{documents, file, items, text};
use crate::release;

/// The largest ConfigMap (etcd's limit is 1.5 MiB, of which a ConfigMap may have 1 MiB: kubernetes,
/// `pkg/apis/core/types.go`, `MaxSecretSize`).
const CONFIG_MAP_MAX: usize = 1024 * 1024;
/// Contracts that the operator supports.
const CONTRACTS: [&str; 2] = ["v1beta1", "v1beta2"];

/// An example, and the provider that it has to install.
struct Example {
    file: &'static str,
    kind: &'static str,
    role: Role,
    label: &'static str,
    /// The operator's name for the type of provider.
    of_type: &'static str,
    components: &'static str,
}

const EXAMPLES: [Example; 3] = [
    Example {
        file: "infrastructure_provider.yaml",
        kind: "InfrastructureProvider",
        role: Role::Infrastructure,
        label: release::LABEL,
        of_type: "infrastructure",
        components: "infrastructure-components.yaml",
    },
    Example {
        file: "ipam_provider.yaml",
        kind: "IPAMProvider",
        role: Role::Ipam,
        label: release::IPAM_LABEL,
        of_type: "ipam",
        components: "ipam-components.yaml",
    },
    Example {
        file: "runtime_extension_provider.yaml",
        kind: "RuntimeExtensionProvider",
        role: Role::RuntimeExtension,
        label: release::RUNTIME_EXTENSION_LABEL,
        of_type: "runtimeextension",
        components: "runtime-extension-components.yaml",
    },
];

impl Example {
    fn source(&self) -> String {
        file(&format!("config/samples/operator/{}", self.file))
    }

    /// The Namespace, and the provider in it.
    fn objects(&self) -> (Value, Value) {
        let objects = documents(&self.source());
        let [namespace, provider] = objects.as_slice() else {
            panic!("{}: {} objects", self.file, objects.len())
        };
        assert_eq!(
            (text(namespace, "/kind"), text(provider, "/kind")),
            ("Namespace", self.kind)
        );
        assert_eq!(
            text(provider, "/apiVersion"),
            "operator.cluster.x-k8s.io/v1alpha2"
        );
        assert_eq!(
            namespace["metadata"]["name"], provider["metadata"]["namespace"],
            "{}",
            self.file
        );
        (namespace.clone(), provider.clone())
    }
}

#[test]
fn every_provider_of_a_release_has_an_example_with_its_name_version_and_namespace() {
    let mut names = BTreeSet::new();
    for example in &EXAMPLES {
        let (_, provider) = example.objects();
        let name = text(&provider, "/metadata/name");
        let namespace = text(&provider, "/metadata/namespace");
        assert!(
            example.label.ends_with(&format!("-{name}")),
            "{name} is not in {}",
            example.label
        );
        assert_eq!(
            text(&provider, "/spec/version"),
            release::VERSION,
            "{}",
            example.file
        );
        // Names have to be unique among providers of a kind, over all namespaces.
        assert!(names.insert((example.kind, name.to_owned())), "{name} twice");
        let namespaces: BTreeSet<_> = documents(&render(example.role, IMAGE))
            .iter()
            .filter(|object| object["kind"] == "Deployment")
            .map(|object| text(object, "/metadata/namespace").to_owned())
            .collect();
        assert_eq!(namespaces, [namespace.to_owned()].into(), "{}", example.file);
    }
    let metadata = documents(&file("config/metadata.yaml"));
    for series in items(&metadata[0], "/releaseSeries") {
        assert!(CONTRACTS.contains(&text(series, "/contract")), "{series}");
    }
}

/// The provider has exactly one source, which selects the labels that the example gives the ConfigMap.
#[test]
fn the_config_maps_that_examples_tell_of_are_those_that_they_select_and_the_files_are_released() {
    for example in &EXAMPLES {
        let (_, provider) = example.objects();
        let name = text(&provider, "/metadata/name");
        let namespace = text(&provider, "/metadata/namespace");
        let prefix = "provider.cluster.x-k8s.io";
        let labels = json!({
            format!("{prefix}/type"): example.of_type,
            format!("{prefix}/name"): name,
            // The selector may match only one ConfigMap, and each version has its own.
            format!("{prefix}/version"): text(&provider, "/spec/version"),
        });
        assert_eq!(
            provider["spec"]["fetchConfig"],
            json!({"selector": {"matchLabels": labels}})
        );
        let source = example.source();
        let comments: Vec<_> = source
            .lines()
            .filter_map(|line| line.strip_prefix('#'))
            .map(str::trim)
            .collect();
        let told = comments.join(" ").replace(" \\", "");
        for said in [
            format!(
                "--namespace {namespace} --from-file=components={}",
                example.components
            ),
            "--from-file=metadata=metadata.yaml".to_owned(),
            format!(
                "{prefix}/type={} {prefix}/name={name} {prefix}/version={}",
                example.of_type,
                release::VERSION
            ),
        ] {
            assert!(
                told.contains(&said),
                "{}: {said:?} is not in {told:?}",
                example.file
            );
        }
    }
}

#[test]
fn components_fit_into_a_config_map_with_the_metadata() {
    let metadata = file("config/metadata.yaml").len();
    for example in &EXAMPLES {
        let components = with_variables(&render(example.role, IMAGE), &|_| None)
            .expect("defaults")
            .len();
        assert!(
            components + metadata < CONFIG_MAP_MAX,
            "{}: {components} bytes",
            example.file
        );
    }
}

/// The operator owns namespaced objects, so they have to be in its provider's namespace. It reads health from the
/// Deployment with the provider's label, and changes the container named `manager`.
#[test]
fn what_has_a_namespace_is_in_the_providers_and_the_operator_finds_the_manager() {
    const WITHOUT_NAMESPACE: [&str; 7] = [
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "ExtensionConfig",
        "MutatingWebhookConfiguration",
        "Namespace",
        "ValidatingWebhookConfiguration",
    ];
    for example in &EXAMPLES {
        let (_, provider) = example.objects();
        let objects = documents(&render(example.role, IMAGE));
        for object in objects
            .iter()
            .filter(|object| !WITHOUT_NAMESPACE.contains(&text(object, "/kind")))
        {
            assert_eq!(
                object["metadata"]["namespace"], provider["metadata"]["namespace"],
                "{object}"
            );
        }
        let deployments: Vec<_> = objects
            .iter()
            .filter(|object| object["kind"] == "Deployment")
            .collect();
        let [deployment] = deployments.as_slice() else {
            panic!("{} Deployments", deployments.len())
        };
        assert_eq!(
            deployment["metadata"]["labels"]["cluster.x-k8s.io/provider"],
            *example.label
        );
        let containers = items(deployment, "/spec/template/spec/containers");
        let names: Vec<_> = containers
            .iter()
            .map(|container| text(container, "/name"))
            .collect();
        assert_eq!(names, ["manager"], "{}", example.file);
    }
}
