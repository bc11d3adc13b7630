//! The objects of an installation: those of the infrastructure provider, whose manager can have the role of the IPAM
//! provider, too. Pure.

use anyhow::Context as _;
use nephele_components::{Role, render, with_variables};
use serde::Deserialize as _;
use serde_json::{Value, json};
use serde_yaml_ng::Deserializer;

/// The namespace of the manager.
pub(crate) const NAMESPACE: &str = "nephele-system";
/// The manager's Deployment.
pub(crate) const DEPLOYMENT: &str = "nephele-controller-manager";
/// The label by which `nephele uninstall` finds what was installed.
pub(crate) const LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "nephele-install");

const ACCOUNT: &str = "nephele-manager";
const CONTAINER: &str = "/spec/template/spec/containers/0";
/// The parts of the IPAM provider's names that differ when its objects are those of the manager of all roles.
const IPAM_NAMES: [(&str, &str); 2] = [
    ("capi-ipam-in-cluster-system-", "nephele-system-ipam-"),
    ("capi-ipam-in-cluster-", "nephele-ipam-"),
];
/// Permissions that managers of both roles have already.
const IPAM_SHARED: [&str; 3] = ["leader-election", "metrics-reader", "verbosity-writer"];

/// What to install.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) image: String,
    /// Nodes have the image; there is no registry to pull it from.
    pub(crate) on_nodes: bool,
    /// The manager is the IPAM provider, too.
    pub(crate) ipam: bool,
}

/// All objects, in the order in which they have to be created. `variable` gives the value of a variable of the
/// components, as clusterctl reads them from the environment.
///
/// # Errors
/// When a value makes the components invalid YAML.
pub(crate) fn objects(
    wanted: &Wanted,
    variable: &dyn Fn(&str) -> Option<String>,
) -> anyhow::Result<Vec<Value>> {
    let mut objects = documents(Role::Infrastructure, wanted, variable)?;
    if wanted.ipam {
        let ipam = documents(Role::Ipam, wanted, variable)?;
        objects.extend(ipam.into_iter().filter(is_not_the_managers).map(of_the_manager));
    }
    for object in &mut objects {
        object["metadata"]["labels"][LABEL.0] = json!(LABEL.1);
        if object["kind"] == "Deployment" {
            set_up(object, wanted);
        }
    }
    // Definitions and permissions come before the manager that needs them.
    objects.sort_by_key(|object| rank(object["kind"].as_str().unwrap_or_default()));
    Ok(objects)
}

fn documents(
    role: Role,
    wanted: &Wanted,
    variable: &dyn Fn(&str) -> Option<String>,
) -> anyhow::Result<Vec<Value>> {
    let text = with_variables(&render(role, &wanted.image), variable)?;
    let documents = Deserializer::from_str(&text).map(Value::deserialize);
    documents
        .collect::<Result<_, _>>()
        .context("failed to read the components with these values of variables")
}

fn set_up(deployment: &mut Value, wanted: &Wanted) {
    let Some(container) = deployment.pointer_mut(CONTAINER) else {
        return;
    };
    if wanted.on_nodes {
        container["imagePullPolicy"] = json!("Never");
    }
    for arg in list(container, "args") {
        if *arg == "--roles=infrastructure" && wanted.ipam {
            *arg = json!("--roles=infrastructure,ipam");
        }
    }
}

/// Whether an object of the IPAM provider has no counterpart among those of the infrastructure provider.
fn is_not_the_managers(object: &Value) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    !matches!(
        object["kind"].as_str(),
        Some("Namespace" | "ServiceAccount" | "Deployment")
    ) && !IPAM_SHARED.iter().any(|shared| name.ends_with(shared))
}

/// An object of the IPAM provider as one of the manager with both roles. Services and webhook configurations keep their
/// names, because definitions and the manager refer to them.
fn of_the_manager(mut object: Value) -> Value {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(namespace) = object.pointer_mut("/metadata/namespace") {
        *namespace = json!(NAMESPACE);
    }
    if kind.contains("Role") {
        for pointer in ["/metadata/name", "/roleRef/name"] {
            if let Some(Value::String(name)) = object.pointer_mut(pointer) {
                for (theirs, ours) in IPAM_NAMES {
                    *name = name.replace(theirs, ours);
                }
            }
        }
        for subject in list(&mut object, "subjects") {
            subject["name"] = json!(ACCOUNT);
            subject["namespace"] = json!(NAMESPACE);
        }
    }
    if kind == "Service" {
        object["spec"]["selector"]["cluster.x-k8s.io/provider"] = json!("infrastructure-in-memory");
    }
    if let Some(namespace) = object.pointer_mut("/spec/conversion/webhook/clientConfig/service/namespace") {
        *namespace = json!(NAMESPACE);
    }
    for webhook in list(&mut object, "webhooks") {
        webhook["clientConfig"]["service"]["namespace"] = json!(NAMESPACE);
    }
    object
}

/// The items of a list in an object, if the object has it.
fn list<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object
        .get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

fn rank(kind: &str) -> u8 {
    match kind {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "Deployment" => 3,
        // The API server calls these for every write, so the manager has to be there first.
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => 4,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of(ipam: bool) -> Vec<Value> {
        let wanted = Wanted {
            image: "localhost/nephele:1".into(),
            on_nodes: true,
            ipam,
        };
        objects(&wanted, &|_| None).expect("components")
    }

    fn ids(objects: &[Value]) -> BTreeSet<String> {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let id = |object: &Value| {
            let metadata = &object["metadata"];
            format!(
                "{} {} {}",
                text(&object["kind"]),
                text(&metadata["namespace"]),
                text(&metadata["name"])
            )
        };
        objects.iter().map(id).collect()
    }

    #[test]
    fn the_role_of_the_ipam_provider_adds_its_kinds_permissions_and_webhooks() {
        let without = of(false);
        let with = of(true);
        assert_eq!(with.len(), ids(&with).len(), "objects with the same name");
        let added: Vec<_> = ids(&with).difference(&ids(&without)).cloned().collect();
        assert_eq!(
            added,
            [
                "ClusterRole - nephele-system-ipam-cluster-faults",
                "ClusterRole - nephele-system-ipam-manager",
                "ClusterRole - nephele-system-ipam-webhook",
                "ClusterRoleBinding - nephele-system-ipam-cluster-faults",
                "ClusterRoleBinding - nephele-system-ipam-manager",
                "ClusterRoleBinding - nephele-system-ipam-webhook",
                "CustomResourceDefinition - globalinclusterippools.ipam.cluster.x-k8s.io",
                "CustomResourceDefinition - globalinclusterprefixpools.ipam.cluster.x-k8s.io",
                "CustomResourceDefinition - inclusterippools.ipam.cluster.x-k8s.io",
                "CustomResourceDefinition - inclusterprefixpools.ipam.cluster.x-k8s.io",
                "MutatingWebhookConfiguration - capi-ipam-in-cluster-mutating-webhook-configuration",
                "Role nephele-system nephele-ipam-webhook",
                "RoleBinding nephele-system nephele-ipam-webhook",
                "Service nephele-system capi-ipam-in-cluster-webhook-service",
                "ValidatingWebhookConfiguration - capi-ipam-in-cluster-validating-webhook-configuration",
            ]
        );
    }

    #[test]
    fn no_object_refers_to_the_namespace_of_the_ipam_provider() {
        for object in of(true) {
            let mut text = object.to_string();
            // The names of the Secret and of objects that keep their names begin like the namespace.
            text = text.replace("capi-ipam-in-cluster-system-", "");
            assert!(!text.contains("capi-ipam-in-cluster-system"), "{text}");
        }
    }

    #[test]
    fn no_field_is_null_because_the_api_server_refuses_unknown_fields() {
        for object in of(true) {
            let fields = object.as_object().expect("an object");
            assert!(fields.values().all(|value| !value.is_null()), "{fields:?}");
        }
    }

    #[test]
    fn the_manager_has_both_roles_and_its_image_is_not_pulled() {
        let objects = of(true);
        let deployment = objects
            .iter()
            .find(|object| object["kind"] == "Deployment")
            .expect("a manager");
        let container = deployment.pointer(CONTAINER).expect("a container");
        assert_eq!(container["image"], "localhost/nephele:1");
        assert_eq!(container["imagePullPolicy"], "Never");
        let args = container["args"].as_array().expect("arguments");
        assert!(args.contains(&json!("--roles=infrastructure,ipam")), "{args:?}");
    }

    #[test]
    fn every_binding_binds_a_role_that_is_there_to_the_manager() {
        let objects = of(true);
        let ids = ids(&objects);
        for binding in objects
            .iter()
            .filter(|o| o["kind"].as_str().is_some_and(|k| k.ends_with("Binding")))
        {
            let namespace = binding["metadata"]["namespace"].as_str().unwrap_or("-");
            let kind = binding["roleRef"]["kind"].as_str().expect("a kind");
            let namespace = if kind == "ClusterRole" { "-" } else { namespace };
            let role = format!(
                "{kind} {namespace} {}",
                binding["roleRef"]["name"].as_str().expect("a name")
            );
            assert!(ids.contains(&role), "{role}");
            assert_eq!(
                binding["subjects"],
                json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}])
            );
        }
    }
}
