//! Failure domains: the list of `v1beta2`, and the map of `v1beta1` (cluster-api 1.10, api/v1beta1).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// A part of the simulated world that fails independently.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FailureDomain {
    pub name: String,
    /// Whether control plane machines may be placed there; Cluster API takes absence for no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
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
pub(super) fn list_or_map<'de, D: Deserializer<'de>>(
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
