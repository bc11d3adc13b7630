//! The names of Faults.

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use nephele_api::cloud::v1alpha1::Fault;
use nephele_model::FaultId;

/// The name of an object.
#[must_use]
pub fn id_of(object: &Fault) -> FaultId {
    FaultId {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}

/// The key of the object of this name in a store.
#[must_use]
pub fn reference_to(id: &FaultId) -> ObjectRef<Fault> {
    ObjectRef::new(&id.name).within(&id.namespace)
}
