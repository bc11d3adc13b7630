//! Ownership across the versions of a kind. A manager owns fields of the version that it wrote; a write may be of
//! another one, where these fields have other names and places (`structured-merge-diff/merge/update.go` compares in the
//! version of each manager).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    field_set::FieldSet,
    managers::Managers,
    owned::fields_of,
    path_element::PathElement,
    schema::{KindSchema, Schema},
    update::without_server_owned,
    view::View,
};
use crate::conversion::Conversion;

/// The versions of a kind, and an object in which managers own fields.
pub(crate) struct Versions<'a> {
    pub(crate) kind: &'a str,
    /// None if the versions differ by name only.
    pub(crate) conversion: Option<Conversion>,
    /// What each `apiVersion` may have.
    pub(crate) schemas: &'a BTreeMap<String, KindSchema>,
    /// The whole object before a write.
    pub(crate) live: &'a Value,
    /// The `apiVersion` of the write.
    pub(crate) api_version: &'a str,
}

impl Versions<'_> {
    /// The managers with what they own in the version of the write.
    pub(crate) fn inward(&self, managers: &Managers) -> Managers {
        let mut inward = managers.clone();
        if self.conversion.is_none() {
            return inward;
        }
        for managed in inward
            .0
            .values_mut()
            .filter(|managed| managed.api_version != self.api_version)
        {
            let fields = self.translated(&managed.fields, &managed.api_version, self.api_version);
            managed.fields = fields.unwrap_or_else(|| managed.fields.clone());
        }
        inward
    }

    /// The managers after a write, each with the fields of its own version. Those from whom the write took nothing own
    /// what they owned.
    pub(crate) fn outward(&self, before: &Managers, inward: &Managers, mut after: Managers) -> Managers {
        if self.conversion.is_none() {
            return after;
        }
        for (id, managed) in &mut after.0 {
            if managed.api_version == self.api_version {
                continue;
            }
            let known = before
                .0
                .get(id)
                .filter(|known| known.api_version == managed.api_version);
            let was = inward.0.get(id).map(|was| &was.fields);
            managed.fields = match known {
                Some(known) if was == Some(&managed.fields) => known.fields.clone(),
                known => {
                    let fields = self.translated(&managed.fields, self.api_version, &managed.api_version);
                    let fields = fields.unwrap_or_default();
                    known.map_or_else(|| fields.clone(), |known| fields.intersection(&known.fields))
                }
            };
        }
        // What has no field in the version of the write is not taken by it.
        for (id, known) in &before.0 {
            let is_hidden = inward.0.get(id).is_some_and(|managed| managed.fields.is_empty());
            if is_hidden && known.api_version != self.api_version {
                after.0.entry(id.clone()).or_insert_with(|| known.clone());
            }
        }
        after.0.retain(|_, managed| !managed.fields.is_empty());
        after
    }

    /// The fields of one version in another one: those of the part of the object that has them. None when that cannot be
    /// converted.
    fn translated(&self, fields: &FieldSet, from: &str, to: &str) -> Option<FieldSet> {
        let conversion = self.conversion?;
        let live = conversion.to(self.live, from).ok()?;
        let mut part = part(self.schema(from), &live, fields);
        let fields = part.as_object_mut()?;
        fields.insert("apiVersion".to_owned(), from.into());
        fields.insert("kind".to_owned(), self.kind.into());
        if let (Some(namespace), Some(metadata)) = (
            live.pointer("/metadata/namespace"),
            fields
                .entry("metadata")
                .or_insert_with(|| Map::new().into())
                .as_object_mut(),
        ) {
            metadata.insert("namespace".to_owned(), namespace.clone());
        }
        let converted = conversion.to(&part, to).ok()?;
        Some(without_server_owned(&fields_of(self.schema(to), &converted)))
    }

    fn schema(&self, api_version: &str) -> Schema<'_> {
        self.schemas
            .get(api_version)
            .map_or(Schema::Unknown, KindSchema::root)
    }
}

/// The part of a value that has these fields.
fn part(schema: Schema<'_>, value: &Value, fields: &FieldSet) -> Value {
    let none = FieldSet::default();
    let one = |schema, value, step: &PathElement| {
        let below = fields.below(step);
        (fields.contains(step) || below.is_some()).then(|| part(schema, value, below.unwrap_or(&none)))
    };
    match View::of(schema, Some(value)) {
        View::Map(map) => {
            let kept = map.iter().filter_map(|(name, value)| {
                let kept = one(schema.field(name).schema, value, &PathElement::field(name))?;
                Some((name.clone(), kept))
            });
            Value::Object(kept.collect())
        }
        View::List(list) => {
            let kept = list
                .iter()
                .filter_map(|element| one(schema.element(), element, &schema.step_to(element)?));
            Value::Array(kept.collect())
        }
        View::Missing | View::Null | View::Leaf => value.clone(),
    }
}
