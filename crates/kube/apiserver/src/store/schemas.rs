//! The schemas of kinds, for server-side apply.

use std::sync::Arc;

use serde_json::Value;

use super::{Store, definition, key::GroupResource, state::State};
use crate::{
    apply::{CustomSchema, KindSchema},
    registry::ResourceType,
};

impl Store {
    /// The schema of a kind in a version.
    pub(crate) fn schema(&self, kind: &ResourceType, version: &str) -> KindSchema {
        self.state.lock().schema_of(kind, version)
    }
}

impl State {
    /// The schema of a kind in a version.
    pub(super) fn schema_of(&mut self, kind: &ResourceType, version: &str) -> KindSchema {
        if !kind.custom {
            return KindSchema::built_in(&kind.group, &kind.kind);
        }
        let resource = kind.group_resource();
        let Some(object) = self
            .get(&definition::key_of(&definition::name_of(&resource)))
            .cloned()
        else {
            return KindSchema::Custom(Arc::new(CustomSchema::of_kind(&Value::Null)));
        };
        let place = (resource, version.to_owned());
        if let Some((read_at, schema)) = self.schemas.get(&place)
            && *read_at == object.resource_version
        {
            return KindSchema::Custom(schema.clone());
        }
        let schema = Arc::new(read(&object.value(), version));
        // Clients may rename versions without end.
        self.schemas
            .retain(|(of, _), (read_at, _)| *of != place.0 || *read_at == object.resource_version);
        self.schemas
            .insert(place, (object.resource_version, schema.clone()));
        KindSchema::Custom(schema)
    }

    /// Forgets the schemas of a kind that is gone.
    pub(super) fn forget_schemas(&mut self, resource: &GroupResource) {
        self.schemas.retain(|(of, _), _| of != resource);
    }
}

/// The schema of a version. A version without one has an empty schema.
fn read(definition: &Value, version: &str) -> CustomSchema {
    let versions = definition["spec"]["versions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let found = versions.iter().find(|found| found["name"] == version);
    found.map_or_else(
        || CustomSchema::of_kind(&Value::Null),
        |found| CustomSchema::of_kind(&found["schema"]["openAPIV3Schema"]),
    )
}
