//! Kinds that CustomResourceDefinitions add and remove.

use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    error::{Fault, Faults},
    key::{GroupResource, Key},
    object::Object,
    selectable,
    state::State,
    validate,
};
use crate::{
    conversion::Conversion,
    registry::{PrinterColumn, ResourceType},
    time::time,
};

/// The collection of definitions.
pub(super) static COLLECTION: LazyLock<GroupResource> =
    LazyLock::new(|| GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions"));

/// The finalizer that keeps a deleted definition until no object of its kind is left.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The name of the definition of a collection.
pub(super) fn name_of(resource: &GroupResource) -> String {
    format!("{}.{}", resource.resource, resource.group)
}

/// The key of a definition.
pub(crate) fn key_of(name: &str) -> Key {
    Key {
        resource: COLLECTION.clone(),
        namespace: String::new(),
        name: name.to_owned(),
    }
}

/// The collection whose kind a definition defines.
fn collection_of(definition: &Value) -> Option<GroupResource> {
    let spec = definition.get("spec")?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Some(GroupResource {
        group: text(spec.get("group")?)?,
        resource: text(spec.get("names")?.get("plural")?)?,
    })
}

/// The collection of a definition, whether or not a version of it is served. None for a definition that names a
/// built-in kind, because built-in kinds do not change.
pub(super) fn defined_by(state: &State, name: &str) -> Option<GroupResource> {
    let definition = state.get(&key_of(name))?;
    collection_of(&definition.value()).filter(|resource| state.registry.get(resource).is_none())
}

/// Whether objects of the definition's kind exist.
pub(super) fn in_use(state: &State, name: &str) -> bool {
    let collection = defined_by(state, name).and_then(|resource| state.collections.get(&resource));
    collection.is_some_and(|collection| !collection.objects.is_empty())
}

/// Adds the faults of a definition.
pub(super) fn check(value: &Value, faults: &mut Faults) {
    let spec = &value["spec"];
    for (path, text) in [
        ("spec.group", &spec["group"]),
        ("spec.names.plural", &spec["names"]["plural"]),
        ("spec.names.kind", &spec["names"]["kind"]),
    ] {
        if text.as_str().is_none_or(str::is_empty) {
            faults.push(Fault::required(path, ""));
        }
    }
    check_names(&spec["names"], faults);
    if !matches!(spec["scope"].as_str(), Some("Namespaced" | "Cluster")) {
        let message = format!(
            "Unsupported value: {}: supported values: \"Cluster\", \"Namespaced\"",
            spec["scope"]
        );
        faults.push(Fault {
            field: "spec.scope".into(),
            reason: "FieldValueNotSupported",
            message,
        });
    }
    let group = spec["group"].as_str().unwrap_or_default();
    let good = group.is_empty() || validate::is_dns_subdomain(group) && group.contains('.');
    if !good {
        let detail = "should be a domain with at least one dot";
        faults.push(Fault::invalid("spec.group", &spec["group"], detail));
    }
    let expected = format!("{}.{group}", spec["names"]["plural"].as_str().unwrap_or_default());
    if value["metadata"]["name"] != expected.as_str() {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        faults.push(Fault::invalid(
            "metadata.name",
            &value["metadata"]["name"],
            detail,
        ));
    }
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named = |version: &Value| version["name"].as_str().is_some_and(validate::is_dns_label);
    if let Some(version) = versions.iter().find(|version| !named(version)) {
        faults.push(Fault::invalid(
            "spec.versions.name",
            &version["name"],
            "must be a DNS label",
        ));
    }
    if versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count()
        != 1
    {
        let detail = "must have exactly one version marked as storage version";
        faults.push(Fault::invalid("spec.versions", &spec["versions"], detail));
    }
    selectable::check(versions, faults);
}

/// Names are DNS labels that begin with a letter; kinds may have capitals
/// (`apiextensions/validation/validation.go`, `ValidateCustomResourceDefinitionNames`).
fn check_names(names: &Value, faults: &mut Faults) {
    const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let label =
        |text: &str| validate::is_dns_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase());
    for field in ["plural", "singular", "kind", "listKind"] {
        let Some(text) = names[field].as_str().filter(|text| !text.is_empty()) else {
            continue;
        };
        let (good, detail) = if field.to_lowercase().ends_with("kind") {
            (
                label(&text.to_lowercase()),
                format!("may have mixed case, but should otherwise match: {LABEL}"),
            )
        } else {
            (label(text), LABEL.to_owned())
        };
        if !good {
            faults.push(Fault::invalid(
                format!("spec.names.{field}"),
                &names[field],
                &detail,
            ));
        }
    }
    for field in ["shortNames", "categories"] {
        let list = names[field].as_array().map(Vec::as_slice).unwrap_or_default();
        for name in list.iter().filter(|name| !name.as_str().is_some_and(label)) {
            if faults.are_enough() {
                return;
            }
            faults.push(Fault::invalid(format!("spec.names.{field}"), name, LABEL));
        }
    }
}

/// Fields that may not change once a definition has been established
/// (`ValidateCustomResourceDefinitionSpecUpdate`). Group and plural are in its name.
pub(super) fn check_update(before: &Value, next: &Value, faults: &mut Faults) {
    for (path, pointer) in [
        ("spec.scope", "/spec/scope"),
        ("spec.names.kind", "/spec/names/kind"),
    ] {
        if before.pointer(pointer) != next.pointer(pointer) {
            let value = next.pointer(pointer).unwrap_or(&Value::Null);
            faults.push(Fault::invalid(path, value, "field is immutable"));
        }
    }
}

/// Sets the names that a definition may omit, and the status that the real server's controllers give to a definition
/// whose names are free. A version that was stored once stays in `storedVersions`.
pub(super) fn complete(value: &mut Value, now: Timestamp) {
    let names = &mut value["spec"]["names"];
    let kind = names["kind"].as_str().unwrap_or_default().to_owned();
    if let Some(names) = names.as_object_mut() {
        names
            .entry("singular")
            .or_insert_with(|| kind.to_lowercase().into());
        names
            .entry("listKind")
            .or_insert_with(|| format!("{kind}List").into());
    }
    let names = names.clone();
    let mut stored = value["status"]["storedVersions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let versions = value["spec"]["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for version in versions.iter().filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": message,
               "lastTransitionTime": time(now)})
    };
    let mut conditions = value["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for (kind, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        (
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    ] {
        if !conditions.iter().any(|condition| condition["type"] == kind) {
            conditions.push(condition(kind, reason, message));
        }
    }
    if let Some(object) = value.as_object_mut() {
        let status = json!({"acceptedNames": names, "storedVersions": stored, "conditions": conditions});
        object.insert("status".to_owned(), status);
    }
}

/// Called after a write. If the object is a definition, its served versions are served from now on; there may be none.
pub(super) fn written(state: &mut State, kind: &ResourceType, object: &Object) {
    if !kind.is_definition() {
        return;
    }
    let definition = object.value();
    // A definition can replace a kind of another definition, but never a built-in kind.
    let Some(resource) = collection_of(&definition).filter(|named| state.registry.get(named).is_none())
    else {
        return;
    };
    let conversion = state.conversions.get(&resource.group).copied();
    match resource_type_of_definition(&definition, conversion) {
        Some(defined) => state.defined.insert(resource, Arc::new(defined)),
        // The objects stay, and are served again when a version is served again.
        None => state.defined.remove(&resource),
    };
}

/// Called after a removal. If the object is a definition, its kind is removed too. The objects of the kind were removed
/// before.
pub(super) fn removed(state: &mut State, key: &Key, gone: &Object) {
    if key.resource != *COLLECTION {
        return;
    }
    if let Some(resource) = collection_of(&gone.value()).filter(|named| state.registry.get(named).is_none()) {
        state.defined.remove(&resource);
        state.collections.remove(&resource);
        state.forget_schemas(&resource);
    }
}

/// The kind that a CustomResourceDefinition defines. None if a required field is missing.
///
/// This server calls no conversion webhook. Without a `conversion` in place of it, only the stored version of a kind with
/// a webhook is served.
fn resource_type_of_definition(definition: &Value, conversion: Option<Conversion>) -> Option<ResourceType> {
    let spec = definition.get("spec")?;
    let names = spec.get("names")?;
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let texts = |field: &str| {
        let list = names
            .get(field)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        list.iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let mut versions: Vec<&Value> = spec.get("versions")?.as_array()?.iter().collect();
    versions.retain(|version| version["served"] == true && version["name"].is_string());
    if spec["conversion"]["strategy"] == "Webhook" && conversion.is_none() {
        versions.retain(|version| version["storage"] == true);
    }
    versions.sort_by_key(|version| priority(version["name"].as_str().unwrap_or_default()));
    let first = versions.first()?;
    let kind = text(names, "kind")?;
    let columns = first
        .get("additionalPrinterColumns")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let scale = first["subresources"].get("scale").is_some();
    Some(ResourceType {
        group: text(spec, "group")?,
        versions: versions
            .iter()
            .filter_map(|version| text(version, "name"))
            .collect(),
        list_kind: text(names, "listKind").unwrap_or_else(|| format!("{kind}List")),
        plural: text(names, "plural")?,
        singular: text(names, "singular").unwrap_or_else(|| kind.to_lowercase()),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        namespaced: spec["scope"] == "Namespaced",
        status: first["subresources"].get("status").is_some(),
        generation: true,
        unconditional_update: false,
        create_on_update: false,
        verbs: ResourceType::stored_verbs(),
        subresources: if scale { vec!["scale"] } else { Vec::new() },
        columns: columns
            .iter()
            .map(|column| PrinterColumn {
                name: text(column, "name").unwrap_or_default(),
                kind: text(column, "type").unwrap_or_default(),
                json_path: text(column, "jsonPath").unwrap_or_default(),
                priority: column["priority"].as_i64().unwrap_or(0),
                description: text(column, "description").unwrap_or_default(),
            })
            .collect(),
        selectable_fields: versions
            .iter()
            .flat_map(|version| {
                let name = version["name"].as_str().unwrap_or_default();
                selectable::of(version).map(|field| (name.to_owned(), field.to_owned()))
            })
            .collect(),
        custom: true,
        conversion,
        kind,
    })
}

/// Sorts versions by the real server's priority (`apimachinery/pkg/version/helpers.go`): stable before beta before
/// alpha, greater numbers first, then everything else by name.
fn priority(version: &str) -> (u8, std::cmp::Reverse<(u64, u64)>, String) {
    let parse = || -> Option<(u8, u64, u64)> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        let (class, minor) = match &rest[digits..] {
            "" => (0, 0),
            minor => match (minor.strip_prefix("beta"), minor.strip_prefix("alpha")) {
                (Some(number), _) => (1, number.parse().ok()?),
                (_, Some(number)) => (2, number.parse().ok()?),
                _ => return None,
            },
        };
        Some((class, major, minor))
    };
    let (class, major, minor) = parse().unwrap_or((3, 0, 0));
    (class, std::cmp::Reverse((major, minor)), version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_a_webhook_converts_is_served_as_it_is_stored() {
        let mut definition = json!({ "spec": {
            "group": "g.io", "names": { "kind": "Kind", "plural": "kinds" },
            "versions": [
                { "name": "v1", "served": true, "storage": false },
                { "name": "v1beta1", "served": true, "storage": true },
            ],
        } });
        let served = |definition: &Value| {
            resource_type_of_definition(definition, None)
                .expect("a kind")
                .versions
        };
        assert_eq!(served(&definition), ["v1", "v1beta1"]);
        definition["spec"]["conversion"] = json!({ "strategy": "None" });
        assert_eq!(served(&definition), ["v1", "v1beta1"]);
        definition["spec"]["conversion"] = json!({ "strategy": "Webhook" });
        assert_eq!(served(&definition), ["v1beta1"]);
        let given = Some(Conversion(|object, _| Ok(object.clone())));
        let converted = resource_type_of_definition(&definition, given).expect("a kind");
        assert_eq!((converted.versions.len(), converted.conversion), (2, given));
    }

    #[test]
    fn versions_are_preferred_as_the_real_server_does() {
        let mut versions = [
            "foo1", "v1alpha2", "v2", "v1beta2", "v10", "v1", "v1beta10", "v1beta1", "bar",
        ];
        versions.sort_by_key(|version| priority(version));
        assert_eq!(
            versions,
            [
                "v10", "v2", "v1", "v1beta10", "v1beta2", "v1beta1", "v1alpha2", "bar", "foo1"
            ]
        );
    }
}
