//! Manifests of a step. Pure.

use kube::core::GroupVersionKind;
use nephele_api::cloud::v1alpha1::MANIFESTS_MAX;
use nephele_api::names::{is_dns_subdomain, shown};
use serde::de::DeserializeSeed as _;
use serde_json::Value;
use serde_yaml_ng::Deserializer;

use crate::bounded::Bounded;
use crate::script::Manifest;

/// The largest manifests after their anchors are resolved, in bytes of their texts and names, with
/// [`crate::bounded::VALUE_BYTES`] for each value.
const RESOLVED_MAX: usize = 1024 * 1024;

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
    if text.len() > MANIFESTS_MAX {
        return Err(format!("must be at most {MANIFESTS_MAX} bytes, not {}", text.len()));
    }
    let mut left = RESOLVED_MAX;
    let mut manifests = Vec::new();
    for (index, document) in Deserializer::from_str(text).enumerate() {
        let number = index + 1;
        let value = Bounded { left: &mut left }
            .deserialize(document)
            .map_err(|error| format!("document {number} must be YAML: {error}"))?;
        if !value.is_null() {
            let read = manifest(value, namespace, &allowed);
            manifests.push(read.map_err(|message| format!("document {number}: {message}"))?);
        }
    }
    if manifests.is_empty() { Err("must have an object".to_owned()) } else { Ok(manifests) }
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
            return Err(format!("{} {name} must be in the namespace {namespace}, not in {other}", kind.kind));
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
        let named: Vec<_> =
            manifests.iter().map(|manifest| (&*manifest.kind.kind, &*manifest.name)).collect();
        assert_eq!(named, [("Cluster", "a"), ("Machine", "b")]);
        assert_eq!(manifests[0].value["spec"]["y"], serde_json::json!([1, -2, 0.5, true, "t"]));
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
            ("a: b\n".repeat(MANIFESTS_MAX), "must be at most 65536 bytes, not 327680"),
        ] {
            assert_eq!(try_read(&text).expect_err(message), message);
        }
        let message = try_read("a: [").expect_err("no YAML");
        assert!(message.starts_with("document 1 must be YAML: "), "{message}");
    }

    /// Nine levels of ten aliases are a thousand million values.
    #[test]
    fn anchors_do_not_explode() {
        let mut text = "a0: &a0 [x]\n".to_owned();
        for level in 1..10 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        let message = try_read(&text).expect_err("too large");
        assert!(message.contains("repetition limit exceeded"), "{message}");
        // Few aliases of a long text.
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(50_000), vec!["*a"; 1000].join(", "));
        let message = try_read(&long).expect_err("too large");
        assert!(message.contains("too large"), "{message}");
    }
}
