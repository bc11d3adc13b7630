//! The components as text, from the files in `config/`. People can read and kustomize these files.
//!
//! clusterctl's rules for the file are in cluster-api, docs/book/src/developer/providers/contracts/clusterctl.md.
//! The command line prints and installs them, and `cargo xtask release` lays them out.

use anyhow::Context as _;

/// The role of the manager in a components file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The infrastructure provider.
    Infrastructure,
    /// The IPAM provider, alone. It has the names of the in-cluster IPAM provider, which it replaces, so a
    /// management cluster can have only one of the two. It shares no object with the infrastructure provider.
    Ipam,
    /// The runtime extension, alone. It has no kinds, and shares no object with the other roles.
    RuntimeExtension,
}

/// The files of a role, in the order in which their objects have to be created.
struct Files {
    namespace: &'static str,
    definitions: &'static [&'static str],
    objects: &'static [&'static str],
}

const INFRASTRUCTURE: Files = Files {
    namespace: include_str!("../../../../config/default/namespace.yaml"),
    definitions: &[
        include_str!("../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemoryclusters.yaml"),
        include_str!(
            "../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemoryclustertemplates.yaml"
        ),
        include_str!(
            "../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemorymachinepools.yaml"
        ),
        include_str!(
            "../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemorymachinepooltemplates.yaml"
        ),
        include_str!("../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemorymachines.yaml"),
        include_str!(
            "../../../../config/crd/bases/infrastructure.cluster.x-k8s.io_inmemorymachinetemplates.yaml"
        ),
        include_str!("../../../../config/crd/bases/cloud.nephele.dev_cloudextensionconfigs.yaml"),
        include_str!("../../../../config/crd/bases/cloud.nephele.dev_clusterfaults.yaml"),
        include_str!("../../../../config/crd/bases/cloud.nephele.dev_faults.yaml"),
        include_str!("../../../../config/crd/bases/cloud.nephele.dev_scenarios.yaml"),
        include_str!("../../../../config/crd/bases/cloud.nephele.dev_simulatedclouds.yaml"),
    ],
    objects: &[
        include_str!("../../../../config/rbac/service_account.yaml"),
        include_str!("../../../../config/rbac/role.yaml"),
        include_str!("../../../../config/rbac/scenario_role.yaml"),
        include_str!("../../../../config/rbac/cluster_fault_role.yaml"),
        include_str!("../../../../config/rbac/leader_election_role.yaml"),
        include_str!("../../../../config/rbac/metrics_reader_role.yaml"),
        include_str!("../../../../config/rbac/verbosity_role.yaml"),
        include_str!("../../../../config/rbac/journal_reader_role.yaml"),
        include_str!("../../../../config/rbac/checkpoint_role.yaml"),
        include_str!("../../../../config/rbac/tenant_role.yaml"),
        include_str!("../../../../config/rbac/autoscaler_role.yaml"),
        include_str!("../../../../config/webhook-infrastructure/role.yaml"),
        include_str!("../../../../config/webhook-infrastructure/service.yaml"),
        include_str!("../../../../config/manager/workload_service.yaml"),
        include_str!("../../../../config/manager/manager.yaml"),
        include_str!("../../../../config/webhook-infrastructure/mutating.yaml"),
        include_str!("../../../../config/webhook-infrastructure/validating.yaml"),
    ],
};

const IPAM: Files = Files {
    namespace: include_str!("../../../../config/ipam/namespace.yaml"),
    definitions: &[
        include_str!("../../../../config/crd/ipam/bases/ipam.cluster.x-k8s.io_globalinclusterippools.yaml"),
        include_str!(
            "../../../../config/crd/ipam/bases/ipam.cluster.x-k8s.io_globalinclusterprefixpools.yaml"
        ),
        include_str!("../../../../config/crd/ipam/bases/ipam.cluster.x-k8s.io_inclusterippools.yaml"),
        include_str!("../../../../config/crd/ipam/bases/ipam.cluster.x-k8s.io_inclusterprefixpools.yaml"),
    ],
    objects: &[
        include_str!("../../../../config/ipam/service_account.yaml"),
        include_str!("../../../../config/ipam/role.yaml"),
        include_str!("../../../../config/ipam/cluster_fault_role.yaml"),
        include_str!("../../../../config/ipam/leader_election_role.yaml"),
        include_str!("../../../../config/ipam/metrics_reader_role.yaml"),
        include_str!("../../../../config/ipam/verbosity_role.yaml"),
        include_str!("../../../../config/webhook/role.yaml"),
        include_str!("../../../../config/webhook/service.yaml"),
        include_str!("../../../../config/ipam/manager.yaml"),
        include_str!("../../../../config/webhook/validating.yaml"),
        include_str!("../../../../config/webhook/mutating.yaml"),
    ],
};

const RUNTIME_EXTENSION: Files = Files {
    namespace: include_str!("../../../../config/runtime-extension/namespace.yaml"),
    definitions: &[],
    objects: &[
        include_str!("../../../../config/runtime-extension/service_account.yaml"),
        include_str!("../../../../config/runtime-extension/role.yaml"),
        include_str!("../../../../config/runtime-extension/metrics_reader_role.yaml"),
        include_str!("../../../../config/runtime-extension/service.yaml"),
        include_str!("../../../../config/runtime-extension/manager.yaml"),
        include_str!("../../../../config/runtime-extension/extension_config.yaml"),
    ],
};

/// The released image, which is the one in `config/manager/manager.yaml`.
pub const IMAGE: &str = concat!("ghcr.io/nephele-dev/nephele:v", env!("CARGO_PKG_VERSION"));

impl Role {
    fn files(self) -> &'static Files {
        match self {
            Self::Infrastructure => &INFRASTRUCTURE,
            Self::Ipam => &IPAM,
            Self::RuntimeExtension => &RUNTIME_EXTENSION,
        }
    }
}

/// The components with values for their variables, as clusterctl expands them: `${VARIABLE:=default}` becomes the value
/// of the variable or else the default, and `$$` becomes `$`. `$(NAME)` is the kubelet's to expand.
///
/// # Errors
/// When a variable without a default has no value, or a `$` is none of the above.
pub fn with_variables(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if after.starts_with('(') {
            expanded.push('$');
            rest = after;
        } else {
            let braced = after.strip_prefix('{').and_then(|after| after.split_once('}'));
            let (name, after) = braced.context("a $ that is neither a variable nor escaped")?;
            let (name, default) = match name.split_once(":=") {
                Some((name, default)) => (name, Some(default.to_owned())),
                None => (name, None),
            };
            let value = variable(name).or(default);
            expanded.push_str(&value.with_context(|| format!("{name} has neither a value nor a default"))?);
            rest = after;
        }
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// The components of a role as YAML documents, with this image.
pub fn render(role: Role, image: &str) -> String {
    let files = role.files();
    let documents = std::iter::once(files.namespace.to_owned())
        // clusterctl expands variables in the whole file, but a `$` in a definition is literal.
        .chain(
            files
                .definitions
                .iter()
                .map(|definition| definition.replace('$', "$$")),
        )
        .chain(files.objects.iter().map(|object| object.replace(IMAGE, image)));
    documents.map(|document| format!("---\n{document}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize;
    use serde_yaml_ng::{Deserializer, Value};

    use super::*;

    /// The facts that a role's components are checked against.
    struct Expected {
        role: Role,
        label: &'static str,
        namespace: &'static str,
        definitions: BTreeSet<String>,
    }

    fn roles() -> [Expected; 3] {
        let infrastructure = nephele_api::infrastructure::crds();
        let ipam = nephele_api::ipam::crds();
        let [infrastructure, ipam] = [infrastructure, ipam].map(|definitions| {
            definitions
                .into_iter()
                .filter_map(|definition| definition.metadata.name)
                .collect()
        });
        [
            Expected {
                role: Role::Infrastructure,
                label: "infrastructure-in-memory",
                namespace: "nephele-system",
                definitions: infrastructure,
            },
            Expected {
                role: Role::Ipam,
                label: "ipam-in-cluster",
                namespace: "capi-ipam-in-cluster-system",
                definitions: ipam,
            },
            Expected {
                role: Role::RuntimeExtension,
                label: "runtime-extension-nephele",
                namespace: "nephele-runtime-extension-system",
                definitions: BTreeSet::new(),
            },
        ]
    }

    fn objects(role: Role, image: &str) -> Vec<Value> {
        let text = render(role, image);
        Deserializer::from_str(&text)
            .map(|document| Value::deserialize(document).expect("YAML"))
            .collect()
    }

    fn text<'a>(object: &'a Value, path: &[&str]) -> Option<&'a str> {
        path.iter()
            .try_fold(object, |value, name| value.get(name))?
            .as_str()
    }

    fn kind(object: &Value) -> &str {
        text(object, &["kind"]).expect("an object has a kind")
    }

    fn name(object: &Value) -> &str {
        text(object, &["metadata", "name"]).expect("an object has a name")
    }

    #[test]
    fn variables_are_their_values_or_defaults_and_dollars_themselves() {
        let value = |name: &str| (name == "SET").then(|| "x".to_owned());
        let expand = |text: &str| with_variables(text, &value).ok();
        assert_eq!(
            expand("a ${A:=:8443} b$$ $(C) ${SET:=c} ${SET}").as_deref(),
            Some("a :8443 b$ $(C) x x")
        );
        assert_eq!((expand("${A}"), expand("$A"), expand("${A")), (None, None, None));
    }

    #[test]
    fn there_is_one_namespace_and_everything_that_can_be_is_in_it() {
        let cluster_scoped = BTreeSet::from([
            "Namespace",
            "CustomResourceDefinition",
            "ClusterRole",
            "ClusterRoleBinding",
            "ValidatingWebhookConfiguration",
            "MutatingWebhookConfiguration",
            "ExtensionConfig",
        ]);
        for Expected { role, namespace, .. } in roles() {
            let objects = objects(role, IMAGE);
            assert_eq!(
                objects
                    .iter()
                    .filter(|object| kind(object) == "Namespace")
                    .count(),
                1
            );
            for object in &objects {
                let expected = (!cluster_scoped.contains(kind(object))).then_some(namespace);
                assert_eq!(
                    text(object, &["metadata", "namespace"]),
                    expected,
                    "{}",
                    name(object)
                );
            }
        }
    }

    #[test]
    fn every_object_says_whose_it_is_and_cluster_scoped_ones_are_found_by_their_names() {
        for Expected {
            role,
            label,
            namespace,
            ..
        } in roles()
        {
            for object in &objects(role, IMAGE) {
                let provider = text(object, &["metadata", "labels", "cluster.x-k8s.io/provider"]);
                assert_eq!(provider, Some(label), "{}", name(object));
                if kind(object).starts_with("ClusterRole") {
                    assert!(
                        name(object).starts_with(&format!("{namespace}-")),
                        "{}",
                        name(object)
                    );
                }
            }
        }
    }

    /// The files that a kustomization has, with those of the kustomizations that it has.
    fn listed(folder: &std::path::Path) -> Vec<String> {
        let path = folder.join("kustomization.yaml");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let value: Value = serde_yaml_ng::from_str(&text).expect("YAML");
        let resources = value["resources"].as_sequence().cloned().unwrap_or_default();
        let resources = resources
            .iter()
            .map(|name| folder.join(name.as_str().expect("a name")));
        let of = |path: std::path::PathBuf| match path.is_dir() {
            true => listed(&path),
            false => vec![std::fs::read_to_string(&path).expect("a file")],
        };
        resources.flat_map(of).collect()
    }

    #[test]
    fn components_have_all_files_that_the_kustomizations_list() {
        let config = "../../../config";
        let folders = [(Role::Infrastructure, "default"), (Role::Ipam, "ipam")];
        for (role, folder) in folders
            .into_iter()
            .chain([(Role::RuntimeExtension, "runtime-extension")])
        {
            let Files {
                namespace,
                definitions,
                objects,
            } = role.files();
            let included: BTreeSet<&str> = [*namespace]
                .into_iter()
                .chain(definitions.iter().chain(*objects).copied())
                .collect();
            let listed = listed(&std::path::Path::new(config).join(folder));
            let listed: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
            assert_eq!(included, listed, "{folder}");
        }
    }

    #[test]
    fn roles_have_no_object_in_common() {
        let [infrastructure, ipam, extension] = roles().map(|Expected { role, .. }| {
            let names = objects(role, IMAGE).into_iter().map(|object| {
                let namespace = text(&object, &["metadata", "namespace"])
                    .unwrap_or_default()
                    .to_owned();
                (kind(&object).to_owned(), namespace, name(&object).to_owned())
            });
            names.collect::<BTreeSet<_>>()
        });
        for (one, other) in [
            (&infrastructure, &ipam),
            (&infrastructure, &extension),
            (&ipam, &extension),
        ] {
            assert_eq!(one.intersection(other).collect::<Vec<_>>(), Vec::<&_>::new());
        }
    }

    #[test]
    fn all_definitions_are_there() {
        for Expected {
            role, definitions, ..
        } in roles()
        {
            let objects = objects(role, IMAGE);
            let found: BTreeSet<_> = (objects.iter())
                .filter(|object| kind(object) == "CustomResourceDefinition")
                .map(|object| name(object).to_owned())
                .collect();
            assert_eq!(found, definitions);
        }
    }

    #[test]
    fn webhooks_are_asked_at_a_service_that_is_there() {
        for Expected { role, .. } in roles() {
            let objects = objects(role, IMAGE);
            let services: Vec<_> = objects
                .iter()
                .filter(|object| kind(object) == "Service")
                .map(name)
                .collect();
            let conversions = objects.iter().filter_map(|object| {
                text(
                    object,
                    &["spec", "conversion", "webhook", "clientConfig", "service", "name"],
                )
            });
            let reviews = (objects.iter())
                .filter_map(|object| object.get("webhooks")?.as_sequence())
                .flatten()
                .filter_map(|webhook| text(webhook, &["clientConfig", "service", "name"]));
            let hooks = objects
                .iter()
                .filter_map(|object| text(object, &["spec", "clientConfig", "service", "name"]));
            for service in conversions.chain(reviews).chain(hooks) {
                assert!(services.contains(&service), "{service} is not among {services:?}");
            }
        }
    }

    #[test]
    fn services_lead_to_ports_of_the_manager() {
        for Expected { role, .. } in roles() {
            let objects = objects(role, IMAGE);
            let container = |field: &str| -> Vec<Value> {
                let deployment = objects.iter().find(|object| kind(object) == "Deployment");
                let pod = deployment.and_then(|object| object.get("spec")?.get("template")?.get("spec"));
                let manager = pod.and_then(|pod| pod.get("containers")?.get(0));
                manager
                    .and_then(|manager| manager.get(field)?.as_sequence().cloned())
                    .unwrap_or_default()
            };
            let (target, flag) = match role {
                Role::Infrastructure | Role::Ipam => ("webhook-server", "--webhook-port"),
                Role::RuntimeExtension => ("runtime-hooks", "--runtime-extension-port"),
            };
            let port = (container("ports").into_iter())
                .find(|port| text(port, &["name"]) == Some(target))
                .and_then(|port| port.get("containerPort")?.as_u64())
                .expect("a port of this name");
            assert!(
                container("args").contains(&Value::from(format!("{flag}={port}"))),
                "{port}"
            );
            let targets: Vec<_> = (objects.iter().filter(|object| kind(object) == "Service"))
                .filter_map(|service| service.get("spec")?.get("ports")?.as_sequence())
                .flatten()
                .map(|port| text(port, &["targetPort"]))
                .collect();
            assert_eq!(targets, [Some(target)]);
        }
    }

    #[test]
    fn the_image_is_the_one_asked_for_in_a_container_called_manager() {
        let image = "localhost/nephele:test";
        for Expected { role, .. } in roles() {
            let objects = objects(role, image);
            let containers: Vec<_> = objects
                .iter()
                .filter_map(|object| {
                    object
                        .get("spec")?
                        .get("template")?
                        .get("spec")?
                        .get("containers")?
                        .as_sequence()
                })
                .flatten()
                .map(|container| (text(container, &["name"]), text(container, &["image"])))
                .collect();
            assert_eq!(containers, [(Some("manager"), Some(image))]);
        }
    }

    #[test]
    fn a_dollar_in_a_definition_survives_the_expansion_of_variables() {
        for Expected { role, .. } in roles() {
            let rendered = render(role, IMAGE);
            for line in role
                .files()
                .definitions
                .iter()
                .flat_map(|definition| definition.lines())
            {
                assert!(
                    !line.contains('$') || rendered.contains(&line.replace('$', "$$")),
                    "{line}"
                );
            }
        }
    }
}
