//! Objects that were read.

use std::collections::BTreeMap;

use nephele_api::cloud::v1alpha1::Fault;
use nephele_page::effect_name;
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
    pub(super) faults: Vec<Value>,
}

/// The effects of Faults by the namespace, the cluster and the InMemoryMachine that they have hit. A cluster itself has an empty
/// name of a machine.
pub(super) struct Hits(BTreeMap<(String, String, String), Vec<String>>);

impl Surroundings {
    /// What misbehaves because of a Fault now.
    pub(super) fn hits(&self) -> Hits {
        let mut hits = BTreeMap::<_, Vec<_>>::new();
        for fault in parsed::<Fault>(&self.faults) {
            let namespace = fault.metadata.namespace.unwrap_or_default();
            let effect = fault.spec.effect.as_ref().map(effect_name).unwrap_or_default();
            for affected in fault.status.unwrap_or_default().affected {
                let key = (namespace.clone(), affected.cluster, affected.machine);
                hits.entry(key).or_default().push(effect.clone());
            }
        }
        Hits(hits)
    }
}

impl Hits {
    /// The effects that have hit a cluster, or one of its InMemoryMachines.
    pub(super) fn on(&self, namespace: Option<&str>, cluster: &str, machine: &str) -> String {
        let key = [namespace.unwrap_or_default(), cluster, machine].map(str::to_owned);
        let effects = self.0.get(&key.into());
        effects.map(|effects| effects.join(",")).unwrap_or_default()
    }
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
