//! Manifests of a step. Pure.

use kube::core::GroupVersionKind;
use nephele_api::{
    cloud::v1alpha1::MANIFESTS_MAX,
    names::{is_dns_subdomain, shown},
};
use nephele_yaml::{Bounds, Dialect};
use serde_json::Value;

use crate::script::Manifest;

/// The bounds of the manifests of a step. Those of a cluster with its classes and templates need less than 1 MiB of memory.
const BOUNDS: Bounds = Bounds {
    text: MANIFESTS_MAX,
    memory: 4 * 1024 * 1024,
    depth: 64,
    dialect: Dialect::Strict,
};

/// The objects of YAML documents for this namespace. `allowed` tells whether a step can change a kind, by its apiVersion and
/// kind.
///
/// # Errors
/// With what is wrong, and in which document.
pub(crate) fn read(
    text: &str,
    namespace: &str,
    allowed: impl Fn(&str, &str) -> Result<GroupVersionKind, String>,
) -> Result<Vec<Manifest>, String> {
    let documents = nephele_yaml::read_all(text, &BOUNDS).map_err(|error| error.to_string())?;
    let mut manifests = Vec::new();
    for (number, value) in documents.into_iter().filter(|(_, value)| !value.is_null()) {
        let read = manifest(value, namespace, &allowed);
        manifests.push(read.map_err(|message| format!("document {number}: {message}"))?);
    }
    if manifests.is_empty() {
        Err("must have an object".to_owned())
    } else {
        Ok(manifests)
    }
}

fn manifest(
    value: Value,
    namespace: &str,
    allowed: impl Fn(&str, &str) -> Result<GroupVersionKind, String>,
) -> Result<Manifest, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = allowed(&text(&value["apiVersion"]), &text(&value["kind"]))?;
    let name = text(&value["metadata"]["name"]);
    if name.is_empty() {
        return Err(format!("the {} must have metadata.name", kind.kind));
    }
    if !is_dns_subdomain(&name) {
        return Err(format!(
            "the {} must have a name of a-z, 0-9, - and ., not {:?}",
            kind.kind,
            shown(&name)
        ));
    }
    match &value["metadata"]["namespace"] {
        Value::Null => {}
        Value::String(given) if given == namespace => {}
        other => {
            return Err(format!(
                "{} {name} must be in the namespace {namespace}, not in {other}",
                kind.kind
            ));
        }
    }
    Ok(Manifest { kind, name, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_read(text: &str) -> Result<Vec<Manifest>, String> {
        read(text, "default", |version, kind| match version.split_once('/') {
            Some(("cluster.x-k8s.io", version)) => {
                Ok(GroupVersionKind::gvk("cluster.x-k8s.io", version, kind))
            }
            _ => Err("it may not".to_owned()),
        })
    }

    #[test]
    fn documents_are_read_in_order() {
        let text = "---\n# nothing\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: a}\nspec: {x: &x [1, -2, 0.5, true, t], y: *x}\n---\n\
            apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: b, namespace: default}\n";
        let manifests = try_read(text).expect("readable");
        let named: Vec<_> = manifests
            .iter()
            .map(|manifest| (&*manifest.kind.kind, &*manifest.name))
            .collect();
        assert_eq!(named, [("Cluster", "a"), ("Machine", "b")]);
        assert_eq!(
            manifests[0].value["spec"]["y"],
            serde_json::json!([1, -2, 0.5, true, "t"])
        );
    }

    #[test]
    fn a_mistake_names_the_document() {
        let object = |kind: &str, meta: &str| format!("apiVersion: {kind}\nkind: Thing\nmetadata: {meta}\n");
        let right = "cluster.x-k8s.io/v1beta2";
        for (text, message) in [
            (String::new(), "must have an object"),
            (object("v1", "{name: a}"), "document 1: it may not"),
            (
                format!("{}---\n{}", object(right, "{name: a}"), object(right, "{}")),
                "document 2: the Thing must have metadata.name",
            ),
            (
                object(right, "{name: a, namespace: kube-system}"),
                "document 1: Thing a must be in the namespace default, not in \"kube-system\"",
            ),
            (
                "a: b\n".repeat(MANIFESTS_MAX),
                "must be at most 65536 bytes, not 327680",
            ),
        ] {
            assert_eq!(try_read(&text).expect_err(message), message);
        }
        let message = try_read("a: [").expect_err("no YAML");
        assert!(message.starts_with("document 1 must be YAML: "), "{message}");
    }

    #[test]
    fn no_pattern_takes_longer_than_its_length_allows() {
        nephele_growth::assert_linear("manifests", 16 * 1024, &["a: "], |text| {
            let _ = try_read(text);
        });
    }
}
