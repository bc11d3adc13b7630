//! Reads the shapes of fields in `v1beta1` (cluster-api 1.10, api/v1beta1) into those of `v1beta2`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::infrastructure::v1beta2::FailureDomain;

/// A reference of either version: the older one has group and version in one field.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ObjectReference {
    api_group: Option<String>,
    api_version: String,
    kind: String,
    name: String,
}

impl From<ObjectReference> for super::ObjectReference {
    fn from(reference: ObjectReference) -> Self {
        let ObjectReference {
            api_group,
            api_version,
            kind,
            name,
        } = reference;
        // The core group has no slash and an empty name.
        let older = || {
            api_version
                .split_once('/')
                .map_or("", |(group, _)| group)
                .to_owned()
        };
        Self {
            api_group: api_group.unwrap_or_else(older),
            kind,
            name,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FailureDomains {
    List(Vec<FailureDomain>),
    Map(BTreeMap<String, FailureDomain>),
    /// As Go writes an empty list or map.
    Null,
}

/// A list, or the older map by name.
pub(super) fn failure_domains<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<FailureDomain>, D::Error> {
    Ok(match FailureDomains::deserialize(deserializer)? {
        FailureDomains::List(list) => list,
        FailureDomains::Map(map) => map
            .into_iter()
            .map(|(name, domain)| FailureDomain { name, ..domain })
            .collect(),
        FailureDomains::Null => Vec::new(),
    })
}
