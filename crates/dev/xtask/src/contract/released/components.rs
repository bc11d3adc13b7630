//! Requirements of clusterctl, the API server and people for components.

use std::collections::BTreeSet;

use nephele_components::{IMAGE, Role, render};
use serde_json::{Value, json};

use super::{PROVIDERS, components, items, text, texts};

/// Kinds that clusterctl creates before the manager runs, and finds again to delete them.
const KINDS: [&str; 11] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "Deployment",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Role",
    "RoleBinding",
    "Service",
    "ServiceAccount",
    "ValidatingWebhookConfiguration",
];
const CONTAINER: &str = "/spec/template/spec/containers/0";

fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

/// The manager's only Deployment.
fn deployment(objects: &[Value]) -> &Value {
    let all: Vec<_> = of_kind(objects, "Deployment").collect();
    let [deployment] = all.as_slice() else {
        panic!("{} Deployments", all.len())
    };
    deployment
}

#[test]
fn components_have_only_kinds_that_clusterctl_creates_and_deletes() {
    for (role, ..) in PROVIDERS {
        let objects = components(role);
        let kinds: BTreeSet<_> = objects.iter().map(|object| text(object, "/kind")).collect();
        assert!(
            kinds.iter().all(|kind| KINDS.contains(kind)),
            "{role:?}: {kinds:?}"
        );
        let containers = items(deployment(&objects), "/spec/template/spec/containers");
        let [container] = containers else {
            panic!("{} containers", containers.len())
        };
        assert_eq!(container["command"], json!(["/manager"]));
        assert!(items(container, "/args").iter().all(Value::is_string));
    }
}

#[test]
fn images_have_a_registry_a_path_and_a_tag() {
    for (role, ..) in PROVIDERS {
        let objects = components(role);
        let pod = &deployment(&objects)["spec"]["template"]["spec"];
        let all = items(pod, "/containers")
            .iter()
            .chain(items(pod, "/initContainers"));
        for image in all.map(|container| text(container, "/image")) {
            let (registry, rest) = image.split_once('/').unwrap_or_default();
            let (path, tag) = rest.rsplit_once(':').unwrap_or_default();
            assert!(
                registry.contains('.') && !path.is_empty() && !tag.is_empty(),
                "{image}"
            );
        }
    }
}

#[test]
fn every_variable_of_the_components_is_ours_and_has_a_default() {
    for (role, ..) in PROVIDERS {
        let mut rest = &*render(role, IMAGE);
        let mut variables = 0;
        while let Some((_, after)) = rest.split_once('$') {
            if let Some(after) = after.strip_prefix('$') {
                rest = after;
                continue;
            }
            let variable = after.strip_prefix('{').and_then(|after| after.split_once('}'));
            let (variable, after) =
                variable.unwrap_or_else(|| panic!("a $ that stands for nothing: {after:.40}"));
            // The syntax appears in a comment.
            if variable != "VARIABLE:=default" {
                let (name, default) = variable.split_once(":=").unwrap_or_default();
                assert!(
                    name.starts_with("NEPHELE_") && !default.is_empty(),
                    "{role:?}: {variable}"
                );
                variables += 1;
            }
            rest = after;
        }
        assert!(variables > 0, "{role:?}");
    }
}

/// All providers may be installed in the same namespace.
#[test]
fn services_select_the_pods_of_their_own_provider_alone() {
    let all = PROVIDERS.map(|(role, ..)| components(role));
    let labels = |objects: &[Value]| deployment(objects)["spec"]["template"]["metadata"]["labels"].clone();
    for (index, objects) in all.iter().enumerate() {
        for service in of_kind(objects, "Service") {
            let selector = service["spec"]["selector"].as_object().expect("a selector");
            let selected = all.iter().map(|others| {
                let labels = labels(others);
                selector.iter().all(|(name, value)| labels[name] == *value)
            });
            let expected = (0..all.len()).map(|other| other == index);
            assert!(selected.eq(expected), "{}", text(service, "/metadata/name"));
        }
    }
}

/// An endpoint never changes, but `clusterctl upgrade` creates a new pod. So the host of endpoints is a DNS name of the
/// current pod.
#[test]
fn endpoints_are_under_the_name_of_a_service_that_finds_the_pod() {
    let objects = components(Role::Infrastructure);
    let container = deployment(&objects).pointer(CONTAINER).expect("a container");
    let flag = texts(&container["args"])
        .into_iter()
        .find_map(|arg| arg.strip_prefix("--advertise-host="));
    let default = flag.and_then(|flag| flag.strip_prefix("${NEPHELE_ADVERTISE_HOST:=")?.strip_suffix('}'));
    let service = default
        .and_then(|host| host.strip_suffix(".$(POD_NAMESPACE).svc"))
        .expect("a Service's name");
    let service = of_kind(&objects, "Service").find(|object| text(object, "/metadata/name") == service);
    let spec = &service.expect("there is one of this name")["spec"];
    // The Service is headless, because each of thousands of clusters has its own port.
    assert_eq!(
        (&spec["clusterIP"], &spec["publishNotReadyAddresses"]),
        (&json!("None"), &json!(true))
    );
    // The kubelet sets these variables, for a host that is a name or an address.
    let fields: Vec<_> = (items(container, "/env").iter())
        .map(|variable| {
            (
                text(variable, "/name"),
                text(variable, "/valueFrom/fieldRef/fieldPath"),
            )
        })
        .filter(|(name, _)| ["POD_NAMESPACE", "POD_IP"].contains(name))
        .collect();
    assert_eq!(
        fields,
        [
            ("POD_IP", "status.podIP"),
            ("POD_NAMESPACE", "metadata.namespace")
        ]
    );
}

/// clusterctl, cmd/clusterctl/client/repository/components.go, replaces the namespace in metadata, subjects and
/// references of webhooks to Services.
#[test]
fn the_namespace_is_named_only_where_clusterctl_replaces_it() {
    for (role, _, namespace) in PROVIDERS {
        for mut object in components(role) {
            let name = format!("{} {}", text(&object, "/kind"), text(&object, "/metadata/name"));
            for pointer in [
                "/metadata/namespace",
                "/metadata/name",
                "/roleRef/name",
                "/spec/conversion/webhook/clientConfig/service/namespace",
            ] {
                if let Some(place) = object.pointer_mut(pointer) {
                    *place = Value::Null;
                }
            }
            for list in ["subjects", "webhooks"] {
                for item in object[list].as_array_mut().into_iter().flatten() {
                    for pointer in ["/namespace", "/clientConfig/service/namespace"] {
                        if let Some(place) = item.pointer_mut(pointer) {
                            *place = Value::Null;
                        }
                    }
                }
            }
            let named: Vec<_> = texts(&object)
                .into_iter()
                .filter(|text| text.contains(namespace))
                .collect();
            assert!(named.is_empty(), "{name}: {named:?}");
        }
    }
}

#[test]
fn pods_are_restricted() {
    for (role, ..) in PROVIDERS {
        let objects = components(role);
        for namespace in of_kind(&objects, "Namespace") {
            let level = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
            assert_eq!(level, "restricted", "{role:?}");
        }
        let pod = &deployment(&objects)["spec"]["template"]["spec"];
        assert_eq!(
            pod["securityContext"],
            json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } })
        );
        assert_eq!(
            pod["containers"][0]["securityContext"],
            json!({
                "allowPrivilegeEscalation": false,
                "capabilities": { "drop": ["ALL"] },
                "privileged": false,
                "readOnlyRootFilesystem": true,
                "runAsUser": 65532,
                "runAsGroup": 65532,
            })
        );
    }
}

#[test]
fn ports_probes_and_labels_are_the_usual_ones() {
    for (role, label, _) in PROVIDERS {
        let objects = components(role);
        let deployment = deployment(&objects);
        let template = &deployment["spec"]["template"];
        let container = deployment.pointer(CONTAINER).expect("a container");
        let ports: BTreeSet<_> = items(container, "/ports")
            .iter()
            .map(|port| {
                (
                    text(port, "/name"),
                    port["containerPort"].as_u64().unwrap_or_default(),
                )
            })
            .collect();
        let usual = BTreeSet::from([("healthz", 9440), ("metrics", 8443), ("webhook-server", 9443)]);
        assert!(ports.is_subset(&usual) && ports.len() > 1, "{role:?}: {ports:?}");
        for (probe, path) in [("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")] {
            let get = &container[probe]["httpGet"];
            assert_eq!(
                (&get["path"], &get["port"]),
                (&json!(path), &json!("healthz")),
                "{role:?}"
            );
        }
        for labels in [&deployment["metadata"]["labels"], &template["metadata"]["labels"]] {
            assert_eq!(labels["cluster.x-k8s.io/provider"], label);
            assert_eq!(labels["control-plane"], "controller-manager");
        }
        // A selector cannot change, but clusterctl writes that label again.
        let selector = &deployment["spec"]["selector"]["matchLabels"];
        assert_eq!(selector.get("cluster.x-k8s.io/provider"), None, "{role:?}");
        let pod = &template["spec"];
        assert_eq!(pod["terminationGracePeriodSeconds"], 10);
        assert_eq!(
            pod["tolerations"][0]["key"],
            "node-role.kubernetes.io/control-plane"
        );
        assert_eq!(container["terminationMessagePolicy"], "FallbackToLogsOnError");
    }
}

#[test]
fn webhooks_ask_as_cluster_api_s_do() {
    let mut seen = 0;
    for (role, ..) in PROVIDERS {
        for object in components(role) {
            for webhook in items(&object, "/webhooks") {
                seen += 1;
                let rule = &webhook["rules"][0];
                let group = text(rule, "/apiGroups/0");
                let version = text(rule, "/apiVersions/0");
                let kind = text(rule, "/resources/0").trim_end_matches('s');
                let (verb, prefix) = match text(&object, "/kind") {
                    "ValidatingWebhookConfiguration" => ("validate", "validation"),
                    _ => ("mutate", "default"),
                };
                let path = format!("/{verb}-{}-{version}-{kind}", group.replace('.', "-"));
                assert_eq!(webhook["clientConfig"]["service"]["path"], path);
                assert_eq!(webhook["name"], format!("{prefix}.{kind}.{group}"));
                assert_eq!(
                    (
                        &webhook["failurePolicy"],
                        &webhook["matchPolicy"],
                        &webhook["sideEffects"]
                    ),
                    (&json!("Fail"), &json!("Equivalent"), &json!("None"))
                );
                assert_eq!(webhook["admissionReviewVersions"], json!(["v1"]));
            }
            let conversion = object.pointer("/spec/conversion/webhook");
            if let Some(conversion) = conversion {
                assert_eq!(text(conversion, "/clientConfig/service/path"), "/convert");
            }
        }
    }
    assert!(seen > 0);
}

/// The permissions of a provider's account and of those who read its metrics, as `group/resource verb`. What tenants may do is
/// for people.
fn permissions(objects: &[Value]) -> BTreeSet<String> {
    let roles = objects
        .iter()
        .filter(|object| ["Role", "ClusterRole"].contains(&text(object, "/kind")));
    let roles = roles.filter(|role| !text(role, "/metadata/name").ends_with("-tenant"));
    let rules = roles.flat_map(|role| items(role, "/rules"));
    rules
        .flat_map(|rule| {
            let list = |pointer: &str| -> Vec<String> {
                texts(rule.pointer(pointer).unwrap_or(&Value::Null))
                    .into_iter()
                    .map(str::to_owned)
                    .collect()
            };
            let resources = list("/resources").into_iter().flat_map(move |resource| {
                let groups = list("/apiGroups").into_iter();
                groups
                    .map(move |group| format!("{group}/{resource}"))
                    .collect::<Vec<_>>()
            });
            let paths = list("/nonResourceURLs");
            let verbs = list("/verbs");
            resources.chain(paths).flat_map(move |what| {
                verbs
                    .iter()
                    .map(|verb| format!("{what} {verb}"))
                    .collect::<Vec<_>>()
            })
        })
        .collect()
}

#[test]
fn permissions_are_those_that_the_contracts_ask_for() {
    let expanded = |wanted: &[(&str, &str)]| -> BTreeSet<String> {
        let pairs = wanted.iter().flat_map(|(what, verbs)| {
            verbs
                .split(' ')
                .map(|verb| format!("{what} {verb}"))
                .collect::<Vec<_>>()
        });
        pairs.collect()
    };
    let [infrastructure, ipam] = PROVIDERS.map(|(role, ..)| permissions(&components(role)));
    for all in [&infrastructure, &ipam] {
        assert!(all.iter().all(|permission| !permission.contains('*')), "{all:?}");
        let everyone = expanded(&[
            ("authentication.k8s.io/tokenreviews", "create"),
            ("authorization.k8s.io/subjectaccessreviews", "create"),
            ("/metrics", "get"),
            ("/debug/flags/v", "put"),
        ]);
        assert_eq!(everyone.difference(all).collect::<Vec<_>>(), [""; 0]);
        // The manager grants no permissions itself.
        assert!(
            !all.iter()
                .any(|permission| permission.starts_with("rbac.authorization.k8s.io")),
            "{all:?}"
        );
    }
    let wanted = expanded(&[
        (
            "infrastructure.cluster.x-k8s.io/inmemorymachines/finalizers",
            "update",
        ),
        (
            "infrastructure.cluster.x-k8s.io/inmemoryclusters/finalizers",
            "update",
        ),
        (
            "ipam.cluster.x-k8s.io/ipaddressclaims",
            "create delete get list patch watch",
        ),
        ("ipam.cluster.x-k8s.io/ipaddresses", "get list watch"),
    ]);
    assert_eq!(wanted.difference(&infrastructure).collect::<Vec<_>>(), [""; 0]);
    // Only Cluster API deletes clusters.
    for what in [
        "infrastructure.cluster.x-k8s.io/inmemoryclusters",
        "cluster.x-k8s.io/clusters",
    ] {
        let deletes = infrastructure
            .iter()
            .find(|may| may.starts_with(what) && may.contains(" delete"));
        assert_eq!(deletes, None);
    }
    let pools = [
        "inclusterippools",
        "globalinclusterippools",
        "inclusterprefixpools",
        "globalinclusterprefixpools",
    ];
    let mut wanted = expanded(&[
        (
            "ipam.cluster.x-k8s.io/ipaddressclaims",
            "get list watch update patch",
        ),
        ("ipam.cluster.x-k8s.io/ipaddressclaims/status", "get update patch"),
        ("ipam.cluster.x-k8s.io/ipaddressclaims/finalizers", "update"),
        (
            "ipam.cluster.x-k8s.io/ipaddresses",
            "create delete get list patch update watch",
        ),
        ("cluster.x-k8s.io/clusters", "get list watch"),
    ]);
    for pool in pools {
        let name = |part: &str| format!("ipam.cluster.x-k8s.io/{pool}{part}");
        wanted.extend(expanded(&[
            (&name(""), "get list watch"),
            (&name("/status"), "update"),
            (&name("/finalizers"), "update"),
        ]));
    }
    assert_eq!(wanted.difference(&ipam).collect::<Vec<_>>(), [""; 0]);
}

/// Cluster API, docs/book/src/tasks/automated-machine-management/autoscaling.md: the cluster autoscaler reads the
/// capacity in templates itself, with a role that its operator binds.
#[test]
fn the_autoscaler_has_a_role_for_reading_what_machines_have() {
    let [(role, ..), _] = PROVIDERS;
    let objects = components(role);
    let named = |object: &&Value| text(object, "/metadata/name") == "nephele-system-autoscaler";
    let role = of_kind(&objects, "ClusterRole")
        .find(named)
        .expect("a role for the autoscaler");
    let may = permissions(std::slice::from_ref(role));
    let wanted: BTreeSet<String> = [
        "inmemorymachinetemplates",
        "inmemorymachinepooltemplates",
        "inmemorymachinepools",
    ]
    .iter()
    .flat_map(|kind| ["get", "list", "watch"].map(|verb| (kind, verb)))
    .map(|(kind, verb)| format!("infrastructure.cluster.x-k8s.io/{kind} {verb}"))
    .collect();
    assert_eq!(may, wanted);
    let refers = |object: &Value| text(object, "/roleRef/name") == "nephele-system-autoscaler";
    assert!(!of_kind(&objects, "ClusterRoleBinding").any(refers));
}
