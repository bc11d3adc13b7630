//! What the server itself puts into an object, and what it refuses to store.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::error::StoreError;
use super::object::{metadata_mut, metadata_text};
use crate::registry::ResourceType;

/// Metadata that only the server writes.
const SERVER_OWNED: [&str; 6] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"];

/// RFC 3339 with seconds, as Kubernetes writes times.
pub(crate) fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A version 4 shaped uid out of what identifies the object in the store's history.
pub(crate) fn uid(seed: &str, resource: &str, namespace: &str, name: &str, version: u64) -> String {
    let mut hash = Sha256::new();
    for part in [seed, resource, namespace, name] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.update(version.to_be_bytes());
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// The five characters that `generateName` is completed with, from the alphabet of the real server, which has no
/// vowels so as not to form words.
pub(crate) fn name_suffix(uid: &str) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let digest = Sha256::digest(uid.as_bytes());
    digest.iter().take(5).map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

/// Puts the metadata of `current` that only the server writes into `next`.
pub(crate) fn keep_server_metadata(current: &Value, next: &mut Value) {
    let current = current.get("metadata").cloned().unwrap_or_default();
    let metadata = metadata_mut(next);
    for field in SERVER_OWNED.iter().chain(&["name", "namespace", "generateName"]) {
        match current.get(field) {
            Some(value) => metadata.insert((*field).to_owned(), value.clone()),
            None => metadata.remove(*field),
        };
    }
}

/// Drops what is not kept: `managedFields` (no server-side apply yet), and empty maps and lists of metadata, which
/// the real server omits.
pub(crate) fn tidy_metadata(value: &mut Value) {
    let metadata = metadata_mut(value);
    metadata.remove("managedFields");
    metadata.remove("selfLink");
    metadata.retain(|_, field| match field {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    });
}

/// Whether two versions of an object desire the same: all but metadata and, where it has its own subresource, status.
pub(crate) fn desires_the_same(kind: &ResourceType, a: &Value, b: &Value) -> bool {
    let rest = |value: &Value| -> Map<String, Value> {
        let mut map = value.as_object().cloned().unwrap_or_default();
        map.remove("metadata");
        if kind.status {
            map.remove("status");
        }
        map
    };
    rest(a) == rest(b)
}

/// Checks the metadata of an object about to be stored: types first, so that nothing later meets a surprise, then
/// names, labels and annotations by Kubernetes' rules (`apimachinery/pkg/api/validation`).
pub(crate) fn validate(kind: &ResourceType, value: &Value) -> Result<(), StoreError> {
    let invalid = |field: String, message: String| StoreError::Invalid {
        kind: kind.kind.clone(),
        group: kind.group.clone(),
        name: metadata_text(value, "name").to_owned(),
        field,
        message,
    };
    let metadata = value
        .get("metadata")
        .and_then(Value::as_object)
        .ok_or_else(|| invalid("metadata".into(), "Required value".into()))?;
    for field in ["name", "namespace", "generateName", "uid", "resourceVersion", "creationTimestamp"] {
        if metadata.get(field).is_some_and(|value| !value.is_string()) {
            return Err(invalid(format!("metadata.{field}"), "Invalid value: must be a string".into()));
        }
    }
    let name = metadata_text(value, "name");
    if name.is_empty() {
        return Err(invalid(
            "metadata.name".into(),
            "Required value: name or generateName is required".into(),
        ));
    }
    if let Some(message) = name_fault(kind, name) {
        return Err(invalid("metadata.name".into(), format!("Invalid value: {}: {message}", json!(name))));
    }
    for field in ["labels", "annotations"] {
        let Some(map) = metadata.get(field) else { continue };
        let map = map
            .as_object()
            .ok_or_else(|| invalid(format!("metadata.{field}"), "Invalid value: must be an object".into()))?;
        for (key, value) in map {
            let Some(text) = value.as_str() else {
                return Err(invalid(
                    format!("metadata.{field}"),
                    format!("Invalid value: {key}: must be a string"),
                ));
            };
            if !is_qualified_name(key) {
                let message = format!(
                    "Invalid value: {}: name part must consist of alphanumeric characters, '-', '_' or '.', and must \
                     start and end with an alphanumeric character",
                    json!(key)
                );
                return Err(invalid(format!("metadata.{field}"), message));
            }
            if field == "labels" && !is_label_value(text) {
                let message = format!(
                    "Invalid value: {}: a valid label must be an empty string or consist of alphanumeric characters, \
                     '-', '_' or '.', and must start and end with an alphanumeric character, at most 63",
                    json!(text)
                );
                return Err(invalid(format!("metadata.{field}"), message));
            }
        }
    }
    for field in ["finalizers", "ownerReferences"] {
        let Some(list) = metadata.get(field) else { continue };
        let of_right_type = |item: &Value| match field {
            "finalizers" => item.is_string(),
            _ => ["apiVersion", "kind", "name", "uid"]
                .iter()
                .all(|f| item.get(f).is_some_and(Value::is_string)),
        };
        if !list.as_array().is_some_and(|list| list.iter().all(of_right_type)) {
            let message = if field == "finalizers" {
                "Invalid value: must be a list of strings"
            } else {
                "Invalid value: each needs apiVersion, kind, name and uid"
            };
            return Err(invalid(format!("metadata.{field}"), message.into()));
        }
    }
    Ok(())
}

/// What is wrong with a name, if anything. RBAC names are path segments, all others DNS subdomains.
fn name_fault(kind: &ResourceType, name: &str) -> Option<&'static str> {
    if kind.group == "rbac.authorization.k8s.io" {
        let bad = name == "." || name == ".." || name.contains('/') || name.contains('%');
        return bad.then_some("may not be '.' or '..', and may not contain '/' or '%'");
    }
    let segment = |part: &str| {
        let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        part.as_bytes().first().is_some_and(|byte| alphanumeric(byte))
            && part.as_bytes().last().is_some_and(|byte| alphanumeric(byte))
            && part.bytes().all(|byte| alphanumeric(&byte) || byte == b'-')
    };
    let good = name.len() <= 253 && name.split('.').all(segment);
    (!good).then_some(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
         and end with an alphanumeric character",
    )
}

/// `[prefix/]name`, as label and annotation keys are.
fn is_qualified_name(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(|prefix| !prefix.is_empty() && prefix.len() <= 253)
        && !name.is_empty()
        && name.len() <= 63
        && is_label_text(name)
}

fn is_label_value(value: &str) -> bool {
    value.is_empty() || (value.len() <= 63 && is_label_text(value))
}

fn is_label_text(text: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    ends(text.as_bytes().first())
        && ends(text.as_bytes().last())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}
