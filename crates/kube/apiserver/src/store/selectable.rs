//! `selectableFields` of CustomResourceDefinitions: fields that field selectors may name (KEP-4358).

use std::collections::HashSet;

use serde_json::Value;

use super::error::{Fault, Faults, shown};

/// How many fields a version may have (`MaxSelectableFields`).
const FIELDS_MAX: usize = 8;

/// The fields of a version of a definition as selectors name them, such as `spec.color`.
pub(super) fn of(version: &Value) -> impl Iterator<Item = &str> {
    let listed = version["selectableFields"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let paths = listed.iter().filter_map(|field| field["jsonPath"].as_str());
    paths
        .map(|path| path.strip_prefix('.').unwrap_or(path))
        .take(FIELDS_MAX)
}

/// Adds the faults of the fields of all versions (`ValidateCustomResourceSelectableFields`).
pub(super) fn check(versions: &[Value], faults: &mut Faults) {
    let same = |field: &str| versions.windows(2).all(|two| two[0][field] == two[1][field]);
    // Upstream names what all versions have in common once.
    let common = same("selectableFields") && same("schema");
    let checked = if common {
        versions.get(..1).unwrap_or_default()
    } else {
        versions
    };
    for (index, version) in checked.iter().enumerate() {
        let path = if common {
            "spec.selectableFields".into()
        } else {
            format!("spec.versions[{index}].selectableFields")
        };
        check_version(&path, version, faults);
    }
}

fn check_version(path: &str, version: &Value, faults: &mut Faults) {
    let fields = &version["selectableFields"];
    let Some(list) = fields.as_array() else {
        if !fields.is_null() {
            faults.push(Fault::invalid(path, fields, "must be a list"));
        }
        return;
    };
    let schema = &version["schema"]["openAPIV3Schema"];
    if !list.is_empty() && !schema.is_object() {
        // Upstream's words.
        let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
        faults.push(Fault::invalid(path, &"".into(), detail));
        return;
    }
    let mut known = HashSet::new();
    for (index, field) in list.iter().enumerate() {
        if faults.are_enough() {
            return;
        }
        let place = format!("{path}[{index}].jsonPath");
        let value = &field["jsonPath"];
        let Some(text) = value.as_str().filter(|text| !text.is_empty()) else {
            faults.push(Fault::required(place, ""));
            continue;
        };
        match found(text, schema) {
            Err(detail) => {
                faults.push(Fault::invalid(
                    place,
                    value,
                    &format!("is an invalid path: {detail}"),
                ));
                continue;
            }
            Ok(_) if text == ".metadata" || text.starts_with(".metadata.") => {
                faults.push(Fault::invalid(
                    place.clone(),
                    value,
                    "must not point to fields in metadata",
                ));
            }
            Ok(found) if !matches!(found["type"].as_str(), Some("string" | "boolean" | "integer")) => {
                let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
                faults.push(Fault::invalid(place.clone(), value, detail));
            }
            Ok(_) => {}
        }
        if !known.insert(text) {
            let message = format!("Duplicate value: {}", shown(value));
            faults.push(Fault {
                field: place,
                reason: "FieldValueDuplicate",
                message,
            });
        }
    }
    if known.len() > FIELDS_MAX {
        let message = format!("Too many: {}: must have at most {FIELDS_MAX} items", known.len());
        faults.push(Fault {
            field: path.to_owned(),
            reason: "FieldValueTooMany",
            message,
        });
    }
}

/// The schema at a path.
fn found<'a>(path: &str, schema: &'a Value) -> Result<&'a Value, String> {
    if path.contains(['[', ']']) {
        return Err("array notation is not allowed".to_owned());
    }
    let names = path.strip_prefix('.').ok_or_else(|| {
        format!(
            "expected [ or . but got: {}",
            path.split('.').next().unwrap_or_default()
        )
    })?;
    names.split('.').try_fold(schema, |schema, name| {
        let named = schema["properties"].get(name);
        let any = || Some(&schema["additionalProperties"]).filter(|any| any.is_object());
        named
            .or_else(any)
            .ok_or_else(|| "does not refer to a valid field".to_owned())
    })
}
