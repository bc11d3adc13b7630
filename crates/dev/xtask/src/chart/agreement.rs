//! Checks that the chart installs what `nephele components` prints.
//!
//! Both are made from `config/` and the types. This check finds changes that were made to only one of them.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use nephele_components::{self as components, Role};
use serde_json::{Value, json};

use super::{
    files::SHARED,
    flags::Program,
    helm::{Helm, NAMESPACE, RELEASE},
    object::{find, id, of_kind, read, text, texts},
};
use crate::definitions;

/// A role's components, and the values with which the chart renders the same objects.
struct Way {
    role: Role,
    /// Values that give the objects the names of the components.
    values: &'static str,
    namespace: &'static str,
}

const WAYS: [Way; 2] = [
    Way {
        role: Role::Infrastructure,
        values: "{roles: [infrastructure]}",
        namespace: NAMESPACE,
    },
    Way {
        role: Role::Ipam,
        // The lease is that of the in-cluster provider.
        values: "{roles: [ipam], extraArgs: [--leader-election-id=7bb7acb4.ipam.cluster.x-k8s.io]}",
        namespace: "capi-ipam-in-cluster-system",
    },
];
/// Labels that only Helm's objects have.
const HELMS: [&str; 2] = ["app.kubernetes.io/", "helm.sh/"];
const CONTAINER: &str = "/spec/template/spec/containers/0";

/// Fails with the first object that differs.
pub(super) fn check(helm: &Helm, program: &Program) -> anyhow::Result<()> {
    helm.lint("{}")?;
    WAYS.iter().try_for_each(|way| {
        way.check(helm, program)
            .with_context(|| format!("{:?}", way.role))
    })?;
    definitions(&helm.objects(RELEASE, NAMESPACE, "{}")?)
}

impl Way {
    fn check(&self, helm: &Helm, program: &Program) -> anyhow::Result<()> {
        let rendered = helm.objects(RELEASE, self.namespace, self.values)?;
        let mut components = components(self.role)?;
        components.retain(|object| object["kind"] != "Namespace");
        ensure!(!components.is_empty(), "no components");
        for theirs in components.iter().map(|object| self.as_the_chart_names(object)) {
            let name = id(&theirs);
            let ours = find(&rendered, &name).context("not in the chart")?;
            if theirs["kind"] == "Deployment" {
                self.same_flags(&theirs, ours, program)?;
            }
            let theirs = comparable(&theirs);
            let ours = comparable(ours);
            if theirs != ours {
                bail!("{name} differs: {}", difference(&theirs, &ours, ""));
            }
        }
        Ok(())
    }

    /// Compares the flags and their values. The forms of flags differ between the two ways to install.
    fn same_flags(&self, theirs: &Value, ours: &Value, program: &Program) -> anyhow::Result<()> {
        let pointer = format!("{CONTAINER}/args");
        let args = |object: &Value| texts(object, &pointer);
        program.takes(&args(theirs))?;
        let flags = |object: &Value| -> BTreeSet<String> {
            let with_value = |arg: String| {
                if arg.contains('=') {
                    arg
                } else {
                    format!("{arg}=true")
                }
            };
            // Helm writes the namespace, where the components leave it to the kubelet.
            let expanded = |arg: String| arg.replace("$(POD_NAMESPACE)", self.namespace);
            args(object).into_iter().map(expanded).map(with_value).collect()
        };
        let theirs = flags(theirs);
        let ours = flags(ours);
        ensure!(
            theirs == ours,
            "flags differ: {:?}",
            theirs.symmetric_difference(&ours).collect::<Vec<_>>()
        );
        Ok(())
    }

    /// The object with its name in the chart, which has its own names where those of the in-cluster provider are only
    /// conventions.
    fn as_the_chart_names(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let Role::Ipam = self.role else { return object };
        let renamed = |kind: &str, name: &str| {
            let short = name
                .trim_start_matches("capi-ipam-in-cluster-")
                .trim_start_matches("system-")
                .to_owned();
            match (kind, SHARED.contains(&short.as_str())) {
                ("ServiceAccount", _) => "nephele-manager".to_owned(),
                ("Deployment", _) => format!("nephele-{short}"),
                ("ClusterRole" | "ClusterRoleBinding", true) => format!("{}-{short}", self.namespace),
                ("ClusterRole" | "ClusterRoleBinding", false) => format!("{}-ipam-{short}", self.namespace),
                ("Role" | "RoleBinding", true) => format!("nephele-{short}"),
                ("Role" | "RoleBinding", false) => format!("nephele-ipam-{short}"),
                _ => name.to_owned(),
            }
        };
        let name = renamed(text(&object, "/kind"), text(&object, "/metadata/name"));
        object["metadata"]["name"] = json!(name);
        if object.get("roleRef").is_some() {
            object["roleRef"]["name"] = json!(renamed(
                text(&object, "/roleRef/kind"),
                text(&object, "/roleRef/name")
            ));
        }
        for pointer in ["/subjects/0/name", "/spec/template/spec/serviceAccountName"] {
            if let Some(account) = object.pointer_mut(pointer) {
                *account = json!(renamed("ServiceAccount", ""));
            }
        }
        object
    }
}

/// Checks that the definitions equal those of the types, and none is missing.
fn definitions(rendered: &[Value]) -> anyhow::Result<()> {
    let types: Vec<_> = definitions::definitions().collect();
    let ours: BTreeSet<_> = of_kind(rendered, "CustomResourceDefinition").map(id).collect();
    ensure!(
        ours.len() == types.len(),
        "{} definitions of {}: {ours:?}",
        ours.len(),
        types.len()
    );
    for definition in types {
        let theirs = serde_json::to_value(&definition).context("failed to write a definition")?;
        let ours = find(rendered, &id(&theirs))?;
        let keep = text(ours, "/metadata/annotations/helm.sh~1resource-policy");
        ensure!(keep == "keep", "{} goes with the release", id(ours));
        let theirs = comparable(&theirs);
        let ours = comparable(ours);
        if theirs != ours {
            bail!(
                "{} differs from its type: {}",
                id(&theirs),
                difference(&theirs, &ours, "")
            );
        }
    }
    Ok(())
}

/// The object without Helm's own fields, and without fields that are compared separately.
fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    for pointer in [
        "/metadata/labels",
        "/spec/template/metadata/labels",
        "/spec/selector/matchLabels",
        "/spec/selector",
    ] {
        if let Some(labels) = object.pointer_mut(pointer).and_then(Value::as_object_mut) {
            labels.retain(|name, _| HELMS.iter().all(|helms| !name.starts_with(helms)));
        }
    }
    // This label distinguishes the pods of providers in the same namespace. In the chart, Helm's own labels do that.
    if let Some(selector) = object
        .pointer_mut("/spec/selector")
        .and_then(Value::as_object_mut)
    {
        selector.remove("cluster.x-k8s.io/provider");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        let left = annotations.map(|annotations| {
            annotations.retain(|name, _| !name.starts_with("helm.sh/"));
            annotations.len()
        });
        if left == Some(0) {
            metadata.remove("annotations");
        }
    }
    // Two pods at a time do no harm to pools, but the infrastructure provider cannot have two.
    if object["kind"] == "Deployment"
        && let Some(spec) = object["spec"].as_object_mut()
    {
        spec.remove("strategy");
    }
    // The conversion's Service is in the release's namespace.
    if let Some(service) = object.pointer_mut("/spec/conversion/webhook/clientConfig/service") {
        service["namespace"] = json!(null);
    }
    if let Some(container) = object.pointer_mut(CONTAINER).and_then(Value::as_object_mut) {
        container.remove("args");
        container.remove("imagePullPolicy");
    }
    whole(&mut object);
    object
}

/// Helm writes `65535.0` as `65535`, which an API server treats the same.
fn whole(value: &mut Value) {
    match value {
        Value::Object(entries) => entries.values_mut().for_each(whole),
        Value::Array(items) => items.iter_mut().for_each(whole),
        Value::Number(number) => {
            let float = number
                .as_f64()
                .filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15);
            if let Some(float) = float {
                *value = json!(float as i64);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The first difference between two values.
fn difference(theirs: &Value, ours: &Value, place: &str) -> String {
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            let differing = keys.into_iter().find(|key| a.get(*key) != b.get(*key));
            let key = differing.expect("called with values that differ");
            difference(&theirs[key], &ours[key], &format!("{place}/{key}"))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let index = (0..a.len())
                .find(|index| a[*index] != b[*index])
                .expect("called with values that differ");
            difference(&a[index], &b[index], &format!("{place}/{index}"))
        }
        _ => format!("{place} is {theirs} by clusterctl and {ours} by Helm"),
    }
}

/// The objects that clusterctl creates when no variable is set.
fn components(role: Role) -> anyhow::Result<Vec<Value>> {
    let text = components::with_variables(&components::render(role, components::IMAGE), &|_| None)?;
    read(&text).context("failed to read the components")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_equal_however_they_are_written() {
        let mut value = json!({"a": [65535.0, 0.5, 7]});
        whole(&mut value);
        assert_eq!(value, json!({"a": [65535, 0.5, 7]}));
    }

    #[test]
    fn a_difference_is_told_by_its_place() {
        let theirs = json!({"a": [1, {"b": "c"}]});
        let ours = json!({"a": [1, {"b": "d"}]});
        assert_eq!(
            difference(&theirs, &ours, ""),
            "/a/1/b is \"c\" by clusterctl and \"d\" by Helm"
        );
    }
}
