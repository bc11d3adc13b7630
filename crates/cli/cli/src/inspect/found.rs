//! Objects that were read.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use nephele_api::cloud::v1alpha1::Fault;
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

/// The names of Faults by the namespace, the cluster and the InMemoryMachine that misbehave because of them. A cluster itself has an
/// empty name of a machine.
pub(super) struct Affected(BTreeMap<(String, String, String), Vec<String>>);

impl Surroundings {
    /// What misbehaves because of a Fault now.
    pub(super) fn affected(&self) -> Affected {
        let mut all = BTreeMap::<_, Vec<_>>::new();
        for fault in parsed::<Fault>(&self.faults) {
            let name = fault.name_any();
            let namespace = fault.metadata.namespace.unwrap_or_default();
            for affected in fault.status.unwrap_or_default().affected {
                let key = (namespace.clone(), affected.cluster, affected.machine);
                all.entry(key).or_default().push(name.clone());
            }
        }
        Affected(all)
    }
}

impl Affected {
    /// The Faults that affect a cluster itself.
    pub(super) fn cluster(&self, namespace: Option<&str>, cluster: &str) -> String {
        self.names(namespace, cluster, "")
    }

    /// The Faults that affect an InMemoryMachine of a cluster.
    pub(super) fn machine(&self, namespace: Option<&str>, cluster: &str, machine: &str) -> String {
        match machine {
            "" => String::new(),
            machine => self.names(namespace, cluster, machine),
        }
    }

    fn names(&self, namespace: Option<&str>, cluster: &str, machine: &str) -> String {
        let key = [namespace.unwrap_or_default(), cluster, machine].map(str::to_owned);
        let names = self.0.get(&key.into());
        names.map(|names| names.join(",")).unwrap_or_default()
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
