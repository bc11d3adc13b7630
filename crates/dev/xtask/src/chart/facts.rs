//! Facts about everything that the chart renders, whatever the values.

use std::collections::BTreeSet;

use anyhow::{bail, ensure};
use serde_json::Value;

use super::{
    alerts,
    flags::Program,
    object::{deployment, extension, find, id, items, of_kind, selects, text, texts},
};

const CLUSTER_SCOPED: [&str; 6] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "ExtensionConfig",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];
/// All permissions of the runtime extension's account: groups, resources and verbs.
const EXTENSION_RIGHTS: [(&str, &str, &[&str]); 5] = [
    ("", "configmaps", &["create", "get", "patch"]),
    ("", "secrets", &["create", "get", "list", "watch", "update"]),
    (
        "infrastructure.cluster.x-k8s.io",
        "inmemorymachines",
        &["get", "patch"],
    ),
    ("authentication.k8s.io", "tokenreviews", &["create"]),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
];
const PROVIDER: &str = "/metadata/labels/cluster.x-k8s.io~1provider";
const PROVIDERS: [&str; 2] = ["infrastructure-in-memory", "ipam-in-cluster"];

/// A rendered release.
pub(super) struct Release<'a> {
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
    /// The other namespace in which it may have roles.
    pub(super) watched: &'a str,
}

/// Fails with the first violated fact.
pub(super) fn check(objects: &[Value], release: &Release<'_>, program: &Program) -> anyhow::Result<()> {
    names_and_labels(objects, release)?;
    texts_are_texts(objects)?;
    selectors(objects)?;
    permissions(objects, release)?;
    extension_permissions(objects, release)?;
    reviews(objects)?;
    webhooks(objects, release)?;
    alerts::check(objects, release.namespace)?;
    for deployment in of_kind(objects, "Deployment") {
        pod(deployment)?;
        program.takes(&texts(deployment, "/spec/template/spec/containers/0/args"))?;
    }
    test(objects)
}

/// Every object is in the release's namespace or cluster-scoped, is unique, and has the release's labels.
fn names_and_labels(objects: &[Value], release: &Release<'_>) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for object in objects {
        let id = id(object);
        let kind = text(object, "/kind");
        let namespace = text(object, "/metadata/namespace");
        let belongs = if CLUSTER_SCOPED.contains(&kind) {
            ""
        } else {
            release.namespace
        };
        let is_watched = kind.starts_with("Role") && namespace == release.watched;
        ensure!(namespace == belongs || is_watched, "{id} is in {namespace:?}");
        ensure!(
            PROVIDERS.contains(&text(object, PROVIDER)),
            "{id} has no label of its provider"
        );
        let managed_by = text(object, "/metadata/labels/app.kubernetes.io~1managed-by");
        let instance = text(object, "/metadata/labels/app.kubernetes.io~1instance");
        ensure!(
            (managed_by, instance) == ("Helm", release.name),
            "{id} does not have the labels of the release"
        );
        if kind.starts_with("ClusterRole") {
            let found_by = text(object, "/metadata/name").starts_with(&format!("{}-", release.namespace));
            ensure!(found_by, "{id} does not start with the namespace");
        }
        ensure!(seen.insert(id.clone()), "{id} is there twice");
    }
    Ok(())
}

/// Labels, annotations and variables are strings: a template without quotes makes a boolean of `true`.
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
            for (name, value) in object
                .pointer(pointer)
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                ensure!(
                    value.is_string(),
                    "{}: {pointer}/{name} is not a text",
                    id(object)
                );
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
                ensure!(
                    value,
                    "{}: variable {} is not a text",
                    id(object),
                    variable["name"]
                );
            }
        }
    }
    Ok(())
}

/// Every selector of pods selects the pods of one Deployment, and not the test pod. Ports have the names in the
/// container.
fn selectors(objects: &[Value]) -> anyhow::Result<()> {
    let templates: Vec<&Value> = of_kind(objects, "Deployment")
        .map(|deployment| &deployment["spec"]["template"])
        .collect();
    let ports_of = |template: &Value| -> BTreeSet<String> {
        items(template, "/spec/containers/0/ports")
            .iter()
            .map(|port| text(port, "/name").to_owned())
            .collect()
    };
    for object in objects {
        let selector = match text(object, "/kind") {
            "Service" => &object["spec"]["selector"],
            "Deployment" | "PodDisruptionBudget" => &object["spec"]["selector"]["matchLabels"],
            "NetworkPolicy" => &object["spec"]["podSelector"]["matchLabels"],
            _ => continue,
        };
        let selected: Vec<_> = templates
            .iter()
            .copied()
            .filter(|template| selects(selector, &template["metadata"]["labels"]))
            .collect();
        let [template] = selected.as_slice() else {
            bail!(
                "{} selects the pods of {} Deployments",
                id(object),
                selected.len()
            )
        };
        let ports = ports_of(template);
        for pod in of_kind(objects, "Pod") {
            ensure!(
                !selects(selector, &pod["metadata"]["labels"]),
                "{} selects the test",
                id(object)
            );
        }
        let rules = items(object, "/spec/ingress")
            .iter()
            .flat_map(|rule| items(rule, "/ports"));
        let named = rules.map(|port| &port["port"]).chain(
            items(object, "/spec/ports")
                .iter()
                .map(|port| &port["targetPort"]),
        );
        for name in named.filter_map(Value::as_str) {
            ensure!(
                ports.contains(name),
                "{} names port {name}, which the pod has not",
                id(object)
            );
        }
    }
    for template in templates {
        for probe in ["readinessProbe", "livenessProbe"] {
            let port = text(&template["spec"]["containers"][0][probe], "/httpGet/port");
            ensure!(ports_of(template).contains(port), "{probe} asks port {port:?}");
        }
    }
    for monitor in of_kind(objects, "ServiceMonitor") {
        let wanted = &monitor["spec"]["selector"]["matchLabels"];
        let found: Vec<_> = of_kind(objects, "Service")
            .filter(|service| selects(wanted, &service["metadata"]["labels"]))
            .collect();
        let deployments = of_kind(objects, "Deployment").count();
        ensure!(
            found.len() == deployments,
            "{} finds {} Services",
            id(monitor),
            found.len()
        );
        let port = text(monitor, "/spec/endpoints/0/port");
        for service in found {
            let has_port = items(service, "/spec/ports")
                .iter()
                .any(|named| named["name"] == port);
            ensure!(has_port, "no port {port:?} of {}", id(service));
        }
    }
    Ok(())
}

/// The service account of a Deployment's pods.
fn account(deployment: &Value) -> &str {
    text(deployment, "/spec/template/spec/serviceAccountName")
}

/// Bindings refer to existing roles, and to the account of the manager or of the extension. The accounts differ.
fn permissions(objects: &[Value], release: &Release<'_>) -> anyhow::Result<()> {
    let manager = account(deployment(objects)?);
    ensure!(!manager.is_empty(), "the manager has no account");
    let extension = extension(objects).map_or("", account);
    ensure!(extension != manager, "the extension has the manager's account");
    for binding in objects
        .iter()
        .filter(|object| text(object, "/kind").ends_with("Binding"))
    {
        find(
            objects,
            &format!(
                "{}/{}",
                text(binding, "/roleRef/kind"),
                text(binding, "/roleRef/name")
            ),
        )?;
        if text(binding, "/metadata/name").ends_with("metrics-reader") {
            continue;
        }
        let is_extension = text(binding, "/metadata/name").contains("-runtime-extension");
        let expected = if is_extension { extension } else { manager };
        for subject in items(binding, "/subjects") {
            let name = text(subject, "/name");
            let namespace = text(subject, "/namespace");
            ensure!(
                (name, namespace) == (expected, release.namespace),
                "{} is for {namespace}/{name}",
                id(binding)
            );
        }
    }
    Ok(())
}

/// The extension's account has the permissions it needs to answer, and no others. With roles in a watched
/// namespace, the extension can do nothing outside of that namespace except request reviews and keep its certificate.
fn extension_permissions(objects: &[Value], release: &Release<'_>) -> anyhow::Result<()> {
    let Some(extension) = extension(objects) else {
        return Ok(());
    };
    for binding in objects
        .iter()
        .filter(|object| text(object, "/kind").ends_with("Binding"))
    {
        let is_its = |subject: &Value| {
            (text(subject, "/name"), text(subject, "/namespace")) == (account(extension), release.namespace)
        };
        if !items(binding, "/subjects").iter().any(is_its) {
            continue;
        }
        let role = find(
            objects,
            &format!(
                "{}/{}",
                text(binding, "/roleRef/kind"),
                text(binding, "/roleRef/name")
            ),
        )?;
        for rule in items(role, "/rules") {
            for (group, resource) in texts(rule, "/apiGroups").into_iter().flat_map(|group| {
                texts(rule, "/resources")
                    .into_iter()
                    .map(move |resource| (group.clone(), resource))
            }) {
                let right = EXTENSION_RIGHTS
                    .iter()
                    .find(|right| (right.0, right.1) == (&*group, &*resource));
                let verbs = right.map_or(&[][..], |right| right.2);
                let allowed = texts(rule, "/verbs")
                    .iter()
                    .all(|verb| verbs.contains(&verb.as_str()));
                ensure!(
                    !verbs.is_empty() && allowed,
                    "{} lets the extension use {group}/{resource}",
                    id(role)
                );
                let is_review = resource.ends_with("reviews");
                let is_secret = resource == "secrets";
                let everywhere = text(role, "/kind") == "ClusterRole";
                ensure!(
                    !(everywhere && is_secret),
                    "{} lets the extension use Secrets everywhere",
                    id(role)
                );
                ensure!(
                    release.watched.is_empty() || !everywhere || is_review,
                    "{} lets the extension use {resource} outside of {}",
                    id(role),
                    release.watched
                );
            }
        }
    }
    Ok(())
}

/// Accounts may ask who a caller is where diagnostics or the page authenticate their callers, and nowhere else.
fn reviews(objects: &[Value]) -> anyhow::Result<()> {
    let authenticates = |deployment: &Value| {
        let args = texts(deployment, "/spec/template/spec/containers/0/args");
        args.iter().any(|arg| {
            arg == "--insecure-diagnostics=false"
                || (arg.starts_with("--page-address=") && arg != "--page-address=0")
        })
    };
    let authenticated = of_kind(objects, "Deployment").any(authenticates);
    for role in objects
        .iter()
        .filter(|object| text(object, "/kind").ends_with("Role"))
    {
        let groups: Vec<_> = items(role, "/rules")
            .iter()
            .flat_map(|rule| texts(rule, "/apiGroups"))
            .collect();
        let asks = ["authentication.k8s.io", "authorization.k8s.io"]
            .iter()
            .any(|group| groups.iter().any(|one| one == group));
        ensure!(
            authenticated || !asks,
            "{} lets an account review callers, of which there are none",
            id(role)
        );
    }
    Ok(())
}

/// Definitions and configurations refer to Services of this release. Roles with names of configurations have the names
/// of this release's configurations.
fn webhooks(objects: &[Value], release: &Release<'_>) -> anyhow::Result<()> {
    let served = of_kind(objects, "Service").any(|service| {
        items(service, "/spec/ports")
            .iter()
            .any(|port| port["targetPort"] == "webhook-server")
    });
    let configurations: Vec<_> = objects
        .iter()
        .filter(|object| text(object, "/kind").ends_with("WebhookConfiguration"))
        .collect();
    ensure!(
        served || configurations.is_empty(),
        "webhooks are configured but not served"
    );
    let of_webhooks = configurations.iter().flat_map(|object| {
        items(object, "/webhooks")
            .iter()
            .map(|webhook| (id(object), &webhook["clientConfig"]["service"]))
    });
    let of_definitions = of_kind(objects, "CustomResourceDefinition").filter_map(|object| {
        Some((
            id(object),
            object.pointer("/spec/conversion/webhook/clientConfig/service")?,
        ))
    });
    for (id, service) in of_webhooks.chain(of_definitions) {
        ensure!(
            text(service, "/namespace") == release.namespace,
            "{id} leads out of the namespace"
        );
        if served {
            find(objects, &format!("Service/{}", text(service, "/name")))?;
        }
    }
    let named: BTreeSet<_> = configurations
        .iter()
        .map(|object| text(object, "/metadata/name"))
        .collect();
    for role in of_kind(objects, "ClusterRole").filter(|_| served) {
        for rule in items(role, "/rules") {
            if texts(rule, "/apiGroups") == ["admissionregistration.k8s.io"] {
                let names = texts(rule, "/resourceNames");
                ensure!(
                    names.iter().all(|name| named.contains(name.as_str())),
                    "{} names {names:?}",
                    id(role)
                );
            }
        }
    }
    Ok(())
}

/// Requirements of clusterctl, the Cluster API Operator and pod security for a manager.
fn pod(deployment: &Value) -> anyhow::Result<()> {
    let pod = &deployment["spec"]["template"]["spec"];
    let [container] = items(pod, "/containers") else {
        bail!("not one container")
    };
    ensure!(
        container["name"] == "manager",
        "the container is not called manager"
    );
    ensure!(
        texts(container, "/command") == ["/manager"],
        "the container does not start the manager"
    );
    let image = text(container, "/image");
    let (host, path) = image.split_once('/').unwrap_or_default();
    let canonical = (host.contains(['.', ':']) || host == "localhost") && path.contains([':', '@']);
    ensure!(canonical, "image {image:?} is not registry/path:tag");
    for arg in texts(container, "/args") {
        ensure!(
            arg.starts_with("--") && arg.contains('='),
            "argument {arg:?} is not --flag=value"
        );
    }
    ensure!(pod["securityContext"]["runAsNonRoot"] == true, "may run as root");
    ensure!(
        pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault",
        "no seccomp profile"
    );
    let security = &container["securityContext"];
    ensure!(
        security["allowPrivilegeEscalation"] == false,
        "privileges may escalate"
    );
    ensure!(
        security["readOnlyRootFilesystem"] == true,
        "the root is not read-only"
    );
    ensure!(
        texts(security, "/capabilities/drop") == ["ALL"],
        "capabilities are kept"
    );
    let volumes: BTreeSet<_> = items(pod, "/volumes")
        .iter()
        .map(|volume| text(volume, "/name"))
        .collect();
    for mount in items(container, "/volumeMounts") {
        ensure!(volumes.contains(text(mount, "/name")), "no volume for {mount}");
    }
    Ok(())
}

/// The test starts the same program as the Deployment, in the same way.
fn test(objects: &[Value]) -> anyhow::Result<()> {
    let manager = &deployment(objects)?["spec"]["template"]["spec"];
    for pod in of_kind(objects, "Pod") {
        ensure!(
            text(pod, "/metadata/annotations/helm.sh~1hook") == "test",
            "{} is no test",
            id(pod)
        );
        let own = &pod["spec"]["containers"][0];
        let theirs = &manager["containers"][0];
        for what in ["image", "command", "securityContext"] {
            ensure!(
                own[what] == theirs[what],
                "{}: {what} is not the Deployment's",
                id(pod)
            );
        }
        let mut args = texts(theirs, "/args");
        args.push("--version".to_owned());
        ensure!(
            texts(own, "/args") == args,
            "{}: arguments are not the Deployment's",
            id(pod)
        );
        ensure!(
            pod["spec"]["restartPolicy"] == "Never",
            "{} starts again",
            id(pod)
        );
    }
    Ok(())
}
