//! Objects that were read.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::resource::Resource;

/// Objects of a resource, as the API server has them.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) resource: Resource,
    pub(super) objects: Vec<Value>,
}

/// The objects that are shown together with others.
#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    pub(super) machines: Vec<Value>,
    pub(super) simulated_machines: Vec<Value>,
    pub(super) simulated_clusters: Vec<Value>,
    pub(super) claims: Vec<Value>,
    pub(super) addresses: Vec<Value>,
}

impl Found {
    /// The objects as a type. One that is of another shape is left out.
    pub(super) fn parsed<T: DeserializeOwned>(&self) -> Vec<T> {
        parsed(&self.objects)
    }
}

pub(super) fn parsed<T: DeserializeOwned>(objects: &[Value]) -> Vec<T> {
    objects
        .iter()
        .filter_map(|object| serde_json::from_value(object.clone()).ok())
        .collect()
}
