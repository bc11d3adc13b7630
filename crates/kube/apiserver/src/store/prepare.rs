//! The fields that the server itself sets.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::object::{metadata_mut, metadata_text};
use crate::registry::ResourceType;

/// Metadata that only the server writes.
const SERVER_OWNED: [&str; 6] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
];

/// Who owns which fields, in the metadata.
pub(crate) const MANAGED_FIELDS: &str = "managedFields";

/// A uid in the form of a version 4 UUID, derived from the identity of the object in the store's history.
pub(super) fn uid(seed: &str, resource: &str, namespace: &str, name: &str, version: u64) -> String {
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

/// The five characters appended to `generateName`, from the alphabet of the real server, which has no vowels so that it
/// forms no words.
fn name_suffix(uid: &str) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let digest = Sha256::digest(uid.as_bytes());
    digest
        .iter()
        .take(5)
        .map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()]))
        .collect()
}

/// Copies the metadata that only the server writes from `current` to `next`.
pub(super) fn keep_server_metadata(current: &Value, next: &mut Value) {
    let current = current.get("metadata").cloned().unwrap_or_default();
    let metadata = metadata_mut(next);
    for field in SERVER_OWNED.iter().chain(&["name", "namespace", "generateName"]) {
        match current.get(field) {
            Some(value) => metadata.insert((*field).to_owned(), value.clone()),
            None => metadata.remove(*field),
        };
    }
}

/// Drops fields of the metadata that are not stored: `selfLink`, and empty maps and lists, which the real server omits.
/// Takes out `managedFields`, which [`Ownership`](super::ownership::Ownership) decides on.
pub(super) fn tidy_metadata(value: &mut Value) -> Option<Value> {
    let metadata = metadata_mut(value);
    let managed_fields = metadata.remove(MANAGED_FIELDS).filter(|fields| !fields.is_null());
    metadata.remove("selfLink");
    metadata.retain(|_, field| match field {
        // Go's encoding of unset times.
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    });
    managed_fields
}

/// Whether two versions of an object have the same desired state: everything except metadata and, if status has its own
/// subresource, status.
pub(super) fn desires_the_same(kind: &ResourceType, a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return a == b;
    };
    let desired = |field: &str| field != "metadata" && !(kind.status && field == "status");
    let fields = |map: &serde_json::Map<String, Value>| map.keys().filter(|field| desired(field)).count();
    fields(a) == fields(b)
        && a.iter()
            .all(|(field, value)| !desired(field) || b.get(field) == Some(value))
}

/// Sets an object's kind, in the one version in which it is stored: versions differ by name only.
pub(super) fn set_type(kind: &ResourceType, value: &mut Value) {
    if let Some(object) = value.as_object_mut() {
        object.insert("kind".to_owned(), kind.kind.clone().into());
        object.insert(
            "apiVersion".to_owned(),
            kind.api_version(&kind.versions[0]).into(),
        );
    }
}

/// The name for a `generateName`. As in the real server, a long prefix is cut to 58 bytes so that the suffix fits
/// into 63.
pub(super) fn generate_name(prefix: &str, basis: &str) -> String {
    let end = (0..=prefix.len().min(58))
        .rev()
        .find(|&at| prefix.is_char_boundary(at))
        .unwrap_or(0);
    format!("{}{}", &prefix[..end], name_suffix(basis))
}

/// Copies `field` of `from` to `to`, or removes it from `to` if `from` does not have it.
pub(super) fn copy_field(from: &Value, to: &mut Value, field: &str) {
    if let Some(object) = to.as_object_mut() {
        match from.get(field) {
            Some(value) => object.insert(field.to_owned(), value.clone()),
            None => object.remove(field),
        };
    }
}

/// The label and phase that the real server's admission and registry give a namespace.
pub(super) fn complete_namespace(value: &mut Value) {
    let name = metadata_text(value, "name").to_owned();
    let labels = metadata_mut(value).entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    if let Some(object) = value.as_object_mut() {
        object
            .entry("spec")
            .or_insert_with(|| json!({"finalizers": ["kubernetes"]}));
        object.insert("status".to_owned(), json!({"phase": "Active"}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_is_a_function_of_its_history() {
        let seen = uid("seed", "nodes", "", "a", 1);
        assert_eq!(seen, uid("seed", "nodes", "", "a", 1));
        assert_eq!(seen.len(), 36);
        assert_ne!(seen, uid("seed", "nodes", "", "a", 2));
        assert_ne!(seen, uid("seed", "nodes", "a", "", 1));
    }

    #[test]
    fn generated_name_fits_into_a_label() {
        assert_eq!(generate_name("web-", "x").len(), 9);
        assert_eq!(generate_name(&"a".repeat(80), "x").len(), 63);
        // The cut is at a character boundary; validation then refuses a name that is not ASCII.
        assert!(generate_name(&"é".repeat(40), "x").starts_with("éé"));
    }
}
