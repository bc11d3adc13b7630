//! Validates objects: first the types of metadata, on which all later code relies, then names, labels and annotations
//! by Kubernetes' rules (`apimachinery/pkg/api/validation/objectmeta.go`).

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{
    error::{Fault, Faults, StoreError, shown},
    object::metadata_text,
    prepare::MANAGED_FIELDS,
};
use crate::{
    depth::{DEPTH_MAX, fits},
    registry::ResourceType,
};

/// The rule for names: `a lowercase RFC 1123 subdomain …`.
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The maximum size of all annotations of an object in bytes, keys and values (`TotalAnnotationSizeLimitB`).
pub(crate) const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Checks an object before it is stored.
pub(super) fn validate(kind: &ResourceType, value: &Value) -> Result<(), StoreError> {
    let mut faults = Faults::default();
    if !object_fits(value) {
        let detail = format!("must not nest deeper than {DEPTH_MAX} levels");
        faults.push(Fault::forbidden("", &detail));
        return refuse(kind, value, faults);
    }
    match value.get("metadata").and_then(Value::as_object) {
        None => faults.push(Fault::required("metadata", "")),
        Some(metadata) => {
            texts(metadata, &mut faults);
            name(kind, metadata, &mut faults);
            maps(metadata, &mut faults);
            lists(metadata, &mut faults);
        }
    }
    if kind.is_definition() {
        super::definition::check(value, &mut faults);
    }
    refuse(kind, value, faults)
}

/// Whether an object has at most as many levels as allowed. `managedFields` do not count: the server made them, and they
/// have a few levels more than the object's own fields.
fn object_fits(object: &Value) -> bool {
    let fields = object.as_object().into_iter().flatten();
    fields.into_iter().all(
        |(name, value)| match value.as_object().filter(|_| name == "metadata") {
            None => fits(value, DEPTH_MAX - 1),
            Some(metadata) => {
                let mut counted = metadata.iter().filter(|(name, _)| *name != MANAGED_FIELDS);
                counted.all(|(_, value)| fits(value, DEPTH_MAX - 2))
            }
        },
    )
}

/// Checks an update against the stored object.
pub(super) fn validate_update(kind: &ResourceType, before: &Value, next: &Value) -> Result<(), StoreError> {
    let mut faults = Faults::default();
    if before["metadata"].get("deletionTimestamp").is_some() {
        let list = |value: &Value| {
            value["metadata"]["finalizers"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        let known: HashSet<_> = list(before).into_iter().collect();
        let new: Vec<_> = list(next)
            .into_iter()
            .filter(|finalizer| !known.contains(finalizer))
            .collect();
        if !new.is_empty() {
            let new = Value::Array(new);
            let detail =
                "no new finalizers can be added if the object is being deleted, found new finalizers";
            faults.push(Fault::forbidden(
                "metadata.finalizers",
                &format!("{detail} {}", shown(&new)),
            ));
        }
    }
    if kind.is_definition() {
        super::definition::check_update(before, next, &mut faults);
    }
    refuse(kind, next, faults)
}

/// Refuses an object that has faults.
pub(crate) fn refuse(kind: &ResourceType, value: &Value, faults: Faults) -> Result<(), StoreError> {
    let faults = faults.into_vec();
    if faults.is_empty() {
        return Ok(());
    }
    Err(StoreError::Invalid {
        kind: kind.kind.clone(),
        group: kind.group.clone(),
        name: metadata_text(value, "name").to_owned(),
        faults,
    })
}

fn texts(metadata: &Map<String, Value>, faults: &mut Faults) {
    for field in [
        "name",
        "namespace",
        "generateName",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
    ] {
        if let Some(value) = metadata.get(field).filter(|value| !value.is_string()) {
            faults.push(Fault::invalid(
                format!("metadata.{field}"),
                value,
                "must be a string",
            ));
        }
    }
}

fn name(kind: &ResourceType, metadata: &Map<String, Value>, faults: &mut Faults) {
    let Some(value) = metadata.get("name").filter(|value| value.is_string()) else {
        faults.push(Fault::required(
            "metadata.name",
            "name or generateName is required",
        ));
        return;
    };
    let name = value.as_str().unwrap_or_default();
    let detail = if name.is_empty() {
        faults.push(Fault::required(
            "metadata.name",
            "name or generateName is required",
        ));
        return;
    } else if kind.group == "rbac.authorization.k8s.io" {
        // RBAC names are path segments.
        let bad = name == "." || name == ".." || name.contains(['/', '%', '\0']);
        bad.then_some("may not be '.' or '..', and may not contain '/' or '%'")
    } else if kind.group.is_empty() && matches!(kind.kind.as_str(), "Namespace" | "Service") {
        (!is_dns_label(name)).then_some(LABEL)
    } else {
        (!is_dns_subdomain(name)).then_some(SUBDOMAIN)
    };
    if let Some(detail) = detail {
        faults.push(Fault::invalid("metadata.name", value, detail));
    }
}

fn maps(metadata: &Map<String, Value>, faults: &mut Faults) {
    for field in ["labels", "annotations"] {
        let path = format!("metadata.{field}");
        let Some(value) = metadata.get(field) else {
            continue;
        };
        let Some(map) = value.as_object() else {
            faults.push(Fault::invalid(path, value, "must be an object"));
            continue;
        };
        let mut size = 0;
        for (key, value) in map {
            if faults.are_enough() {
                return;
            }
            // The real server lower-cases annotation keys before it checks them.
            let good = if field == "labels" {
                is_qualified(key)
            } else {
                is_qualified(&key.to_lowercase())
            };
            if !good {
                faults.push(Fault::invalid(path.clone(), &key.as_str().into(), QUALIFIED));
            }
            match value.as_str() {
                None => faults.push(Fault::invalid(path.clone(), value, "must be a string")),
                Some(text) if field == "labels" && !is_label_value(text) => {
                    let detail = if text.len() > 63 {
                        "must be no more than 63 bytes"
                    } else {
                        LABEL_VALUE
                    };
                    faults.push(Fault::invalid(path.clone(), value, detail));
                }
                Some(text) => size += key.len() + text.len(),
            }
        }
        if field == "annotations" && size > ANNOTATIONS_MAX {
            faults.push(Fault {
                field: path,
                reason: "FieldValueTooLong",
                message: format!("Too long: may not be more than {ANNOTATIONS_MAX} bytes"),
            });
        }
    }
}

fn lists(metadata: &Map<String, Value>, faults: &mut Faults) {
    if let Some(value) = metadata.get("finalizers") {
        match value.as_array() {
            None => faults.push(Fault::invalid("metadata.finalizers", value, "must be a list")),
            Some(list) => {
                for item in list
                    .iter()
                    .filter(|item| !item.as_str().is_some_and(is_qualified))
                {
                    if faults.are_enough() {
                        return;
                    }
                    faults.push(Fault::invalid("metadata.finalizers", item, QUALIFIED));
                }
            }
        }
    }
    if let Some(value) = metadata.get("ownerReferences") {
        let Some(list) = value.as_array() else {
            faults.push(Fault::invalid(
                "metadata.ownerReferences",
                value,
                "must be a list",
            ));
            return;
        };
        let mut controllers = 0;
        for owner in list {
            if faults.are_enough() {
                return;
            }
            for field in ["apiVersion", "kind", "name", "uid"] {
                let path = format!("metadata.ownerReferences.{field}");
                match owner.get(field) {
                    Some(Value::String(text)) if !text.is_empty() => {}
                    None | Some(Value::String(_)) => faults.push(Fault::required(path, "must not be empty")),
                    Some(other) => faults.push(Fault::invalid(path, other, "must be a string")),
                }
            }
            controllers += usize::from(owner["controller"] == true);
        }
        if controllers > 1 {
            let detail = "Only one reference can have Controller set to true";
            faults.push(Fault::invalid("metadata.ownerReferences", value, detail));
        }
    }
}

pub(super) fn is_dns_label(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    name.len() <= 63
        && bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

pub(super) fn is_dns_subdomain(name: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|part| {
            let bytes = part.as_bytes();
            bytes.first().copied().is_some_and(alphanumeric)
                && bytes.last().copied().is_some_and(alphanumeric)
                && bytes.iter().all(|&byte| alphanumeric(byte) || byte == b'-')
        })
}

/// Whether this is the key and value of a label (apimachinery, `IsQualifiedName` and `IsValidLabelValue`).
#[must_use]
pub fn is_label(key: &str, value: &str) -> bool {
    is_qualified(key) && is_label_value(value)
}

/// Whether a text is `[prefix/]name`, the form of label keys, annotation keys and finalizers.
fn is_qualified(key: &str) -> bool {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_subdomain) && name.len() <= 63 && is_label_text(name)
}

fn is_label_value(value: &str) -> bool {
    value.is_empty() || (value.len() <= 63 && is_label_text(value))
}

fn is_label_text(text: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends(text.as_bytes().first())
        && ends(text.as_bytes().last())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{GroupResource, Registry};

    fn faults(group: &str, resource: &str, metadata: &Value) -> Vec<String> {
        let registry = Registry::kubernetes();
        let kind = registry.get(&GroupResource::new(group, resource)).unwrap();
        match validate(kind, &json!({"metadata": metadata})) {
            Ok(()) => Vec::new(),
            Err(StoreError::Invalid { faults, .. }) => faults.into_iter().map(|fault| fault.field).collect(),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn names_follow_the_rules_of_their_kind() {
        let name = |group, resource, name: &str| faults(group, resource, &json!({"name": name})).is_empty();
        assert!(name("", "pods", "a.b-c.0"));
        for bad in ["", "A", "a_b", "-a", "a-", "a..b", "a/b", "ü", &"a".repeat(254)] {
            assert!(!name("", "pods", bad), "{bad}");
        }
        assert!(name("", "namespaces", "kube-system"));
        assert!(!name("", "namespaces", "a.b"));
        assert!(name("rbac.authorization.k8s.io", "clusterroles", "system:node"));
        assert!(!name("rbac.authorization.k8s.io", "clusterroles", "a/b"));
    }

    #[test]
    fn metadata_of_wrong_types_is_refused_field_by_field() {
        let metadata = json!({
            "name": "a", "uid": 1, "labels": {"a b": "x", "ok": "no/slash", "n": 3}, "annotations": [],
            "finalizers": ["Not A Name", 7], "ownerReferences": [{"kind": "Pod"}, "x"],
        });
        let seen = faults("", "pods", &metadata);
        assert_eq!(seen.iter().filter(|field| *field == "metadata.labels").count(), 3);
        assert_eq!(
            seen.iter()
                .filter(|field| *field == "metadata.finalizers")
                .count(),
            2
        );
        for field in [
            "metadata.uid",
            "metadata.annotations",
            "metadata.ownerReferences.uid",
        ] {
            assert!(seen.iter().any(|fault| fault == field), "{field} in {seen:?}");
        }
    }

    #[test]
    fn well_formed_metadata_passes() {
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true});
        let metadata = json!({
            "name": "a", "labels": {"node-role.kubernetes.io/control-plane": "", "app": "x_y.z"},
            "annotations": {"example.com/Upper": "any text / at all"},
            "finalizers": ["kubernetes", "example.com/hold"], "ownerReferences": [owner],
        });
        assert_eq!(faults("", "pods", &metadata), Vec::<String>::new());
    }
}
