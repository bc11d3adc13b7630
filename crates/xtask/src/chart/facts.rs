//! What holds of everything that the chart renders, whatever the values.

use std::collections::BTreeSet;

use anyhow::{bail, ensure};
use serde_json::Value;

use super::{
    flags::Program,
    object::{deployment, find, id, items, of_kind, selects, text, texts},
};

const CLUSTER_SCOPED: [&str; 6] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "ExtensionConfig",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];
const PROVIDER: &str = "/metadata/labels/cluster.x-k8s.io~1provider";
const PROVIDERS: [&str; 2] = ["infrastructure-in-memory", "ipam-in-cluster"];

/// Where a release was rendered for.
pub(super) struct Release<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    /// Where it may have roles beside.
    pub(super) watched: &'a str,
}

/// Fails with the first fact that does not hold.
pub(super) fn check(objects: &[Value], release: &Release<'_>, program: &Program) -> anyhow::Result<()> {
    names_and_labels(objects, release)?;
    texts_are_texts(objects)?;
    selectors(objects)?;
    permissions(objects, release)?;
    webhooks(objects, release)?;
    pod(deployment(objects)?)?;
    program.takes(&texts(deployment(objects)?, "/spec/template/spec/containers/0/args"))?;
    test(objects)
}

/// Every object is in the release's namespace or in none, is there once, and says whose it is.
fn names_and_labels(objects: &[Value], release: &Release<'_>) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for object in objects {
        let id = id(object);
        let (kind, namespace) = (text(object, "/kind"), text(object, "/metadata/namespace"));
        let belongs = if CLUSTER_SCOPED.contains(&kind) { "" } else { release.namespace };
        let is_watched = kind.starts_with("Role") && namespace == release.watched;
        ensure!(namespace == belongs || is_watched, "{id} is in {namespace:?}");
        ensure!(PROVIDERS.contains(&text(object, PROVIDER)), "{id} does not say of which provider it is");
        let managed_by = text(object, "/metadata/labels/app.kubernetes.io~1managed-by");
        let instance = text(object, "/metadata/labels/app.kubernetes.io~1instance");
        ensure!(
            (managed_by, instance) == ("Helm", release.name),
            "{id} does not say that it is the release's"
        );
        if kind.starts_with("ClusterRole") {
            let found_by = text(object, "/metadata/name").starts_with(&format!("{}-", release.namespace));
            ensure!(found_by, "{id} does not start with the namespace");
        }
        ensure!(seen.insert(id.clone()), "{id} is there twice");
    }
    Ok(())
}

/// Labels, annotations and variables are texts: a template without quotes makes `true` of one.
fn texts_are_texts(objects: &[Value]) -> anyhow::Result<()> {
    for object in objects {
        for pointer in [
            "/metadata/labels",
            "/metadata/annotations",
            "/spec/template/metadata/labels",
            "/spec/template/metadata/annotations",
            "/spec/selector/matchLabels",
            "/spec/template/spec/nodeSelector",
        ] {
            for (name, value) in object.pointer(pointer).and_then(Value::as_object).into_iter().flatten() {
                ensure!(value.is_string(), "{}: {pointer}/{name} is not a text", id(object));
            }
        }
        for container in items(object, "/spec/template/spec/containers") {
            ensure!(
                items(container, "/args").iter().all(Value::is_string),
                "{}: args are not texts",
                id(object)
            );
            for variable in items(container, "/env") {
                let value = variable.get("value").is_none_or(Value::is_string);
                ensure!(value, "{}: variable {} is not a text", id(object), variable["name"]);
            }
        }
    }
    Ok(())
}

/// Whatever selects pods selects the manager's, and not the test's; ports are called as the container calls them.
fn selectors(objects: &[Value]) -> anyhow::Result<()> {
    let manager = &deployment(objects)?["spec"]["template"];
    let ports: BTreeSet<_> =
        items(manager, "/spec/containers/0/ports").iter().map(|port| text(port, "/name")).collect();
    for object in objects {
        let selector = match text(object, "/kind") {
            "Service" => &object["spec"]["selector"],
            "Deployment" | "PodDisruptionBudget" => &object["spec"]["selector"]["matchLabels"],
            "NetworkPolicy" => &object["spec"]["podSelector"]["matchLabels"],
            _ => continue,
        };
        ensure!(
            selects(selector, &manager["metadata"]["labels"]),
            "{} does not select the manager",
            id(object)
        );
        for pod in of_kind(objects, "Pod") {
            ensure!(!selects(selector, &pod["metadata"]["labels"]), "{} selects the test", id(object));
        }
        let rules = items(object, "/spec/ingress").iter().flat_map(|rule| items(rule, "/ports"));
        let named = rules
            .map(|port| &port["port"])
            .chain(items(object, "/spec/ports").iter().map(|port| &port["targetPort"]));
        for name in named.filter_map(Value::as_str) {
            ensure!(ports.contains(name), "{} is about port {name}, which the manager has not", id(object));
        }
    }
    for probe in ["readinessProbe", "livenessProbe"] {
        let port = text(&manager["spec"]["containers"][0][probe], "/httpGet/port");
        ensure!(ports.contains(port), "{probe} asks port {port:?}");
    }
    for monitor in of_kind(objects, "ServiceMonitor") {
        let wanted = &monitor["spec"]["selector"]["matchLabels"];
        let found: Vec<_> = of_kind(objects, "Service")
            .filter(|service| selects(wanted, &service["metadata"]["labels"]))
            .collect();
        let [service] = found.as_slice() else { bail!("{} finds {} Services", id(monitor), found.len()) };
        let port = text(monitor, "/spec/endpoints/0/port");
        ensure!(items(service, "/spec/ports").iter().any(|named| named["name"] == port), "no port {port:?}");
    }
    Ok(())
}

/// Bindings are of roles that are there, to the account that the manager has.
fn permissions(objects: &[Value], release: &Release<'_>) -> anyhow::Result<()> {
    let account = text(deployment(objects)?, "/spec/template/spec/serviceAccountName");
    ensure!(!account.is_empty(), "the manager has no account");
    for binding in objects.iter().filter(|object| text(object, "/kind").ends_with("Binding")) {
        find(objects, &format!("{}/{}", text(binding, "/roleRef/kind"), text(binding, "/roleRef/name")))?;
        if text(binding, "/metadata/name").ends_with("metrics-reader") {
            continue;
        }
        for subject in items(binding, "/subjects") {
            let (name, namespace) = (text(subject, "/name"), text(subject, "/namespace"));
            ensure!(
                (name, namespace) == (account, release.namespace),
                "{} is for {namespace}/{name}",
                id(binding)
            );
        }
    }
    Ok(())
}

/// Definitions and configurations lead to Services of this release; roles that name configurations name these.
fn webhooks(objects: &[Value], release: &Release<'_>) -> anyhow::Result<()> {
    let served = of_kind(objects, "Service").any(|service| {
        items(service, "/spec/ports").iter().any(|port| port["targetPort"] == "webhook-server")
    });
    let configurations: Vec<_> =
        objects.iter().filter(|object| text(object, "/kind").ends_with("WebhookConfiguration")).collect();
    ensure!(served || configurations.is_empty(), "webhooks are configured and not served");
    let of_webhooks = configurations.iter().flat_map(|object| {
        items(object, "/webhooks").iter().map(|webhook| (id(object), &webhook["clientConfig"]["service"]))
    });
    let of_definitions = of_kind(objects, "CustomResourceDefinition").filter_map(|object| {
        Some((id(object), object.pointer("/spec/conversion/webhook/clientConfig/service")?))
    });
    for (id, service) in of_webhooks.chain(of_definitions) {
        ensure!(text(service, "/namespace") == release.namespace, "{id} leads out of the namespace");
        if served {
            find(objects, &format!("Service/{}", text(service, "/name")))?;
        }
    }
    let named: BTreeSet<_> = configurations.iter().map(|object| text(object, "/metadata/name")).collect();
    for role in of_kind(objects, "ClusterRole").filter(|_| served) {
        for rule in items(role, "/rules") {
            if texts(rule, "/apiGroups") == ["admissionregistration.k8s.io"] {
                let names = texts(rule, "/resourceNames");
                ensure!(
                    names.iter().all(|name| named.contains(name.as_str())),
                    "{} is about {names:?}",
                    id(role)
                );
            }
        }
    }
    Ok(())
}

/// What clusterctl, the Cluster API Operator and pod security ask of a manager.
fn pod(deployment: &Value) -> anyhow::Result<()> {
    let pod = &deployment["spec"]["template"]["spec"];
    let [container] = items(pod, "/containers") else { bail!("not one container") };
    ensure!(container["name"] == "manager", "the container is not called manager");
    ensure!(texts(container, "/command") == ["/manager"], "the container does not start the manager");
    let image = text(container, "/image");
    let (host, path) = image.split_once('/').unwrap_or_default();
    let canonical = (host.contains(['.', ':']) || host == "localhost") && path.contains([':', '@']);
    ensure!(canonical, "image {image:?} is not registry/path:tag");
    for arg in texts(container, "/args") {
        ensure!(arg.starts_with("--") && arg.contains('='), "argument {arg:?} is not --flag=value");
    }
    ensure!(pod["securityContext"]["runAsNonRoot"] == true, "may run as root");
    ensure!(pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", "no seccomp profile");
    let security = &container["securityContext"];
    ensure!(security["allowPrivilegeEscalation"] == false, "privileges may escalate");
    ensure!(security["readOnlyRootFilesystem"] == true, "the root is not read-only");
    ensure!(texts(security, "/capabilities/drop") == ["ALL"], "capabilities are kept");
    let volumes: BTreeSet<_> = items(pod, "/volumes").iter().map(|volume| text(volume, "/name")).collect();
    for mount in items(container, "/volumeMounts") {
        ensure!(volumes.contains(text(mount, "/name")), "no volume for {mount}");
    }
    Ok(())
}

/// The test starts what the Deployment starts, as the Deployment does.
fn test(objects: &[Value]) -> anyhow::Result<()> {
    let manager = &deployment(objects)?["spec"]["template"]["spec"];
    for pod in of_kind(objects, "Pod") {
        ensure!(text(pod, "/metadata/annotations/helm.sh~1hook") == "test", "{} is no test", id(pod));
        let (own, theirs) = (&pod["spec"]["containers"][0], &manager["containers"][0]);
        for what in ["image", "command", "securityContext"] {
            ensure!(own[what] == theirs[what], "{}: {what} is not the Deployment's", id(pod));
        }
        let mut args = texts(theirs, "/args");
        args.push("--version".to_owned());
        ensure!(texts(own, "/args") == args, "{}: arguments are not the Deployment's", id(pod));
        ensure!(pod["spec"]["restartPolicy"] == "Never", "{} starts again", id(pod));
    }
    Ok(())
}
