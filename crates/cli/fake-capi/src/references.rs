//! References from one object to another.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt as _};
use nephele_api::{core::ObjectReference, infrastructure};

/// A reference to an object of the infrastructure provider.
pub(crate) fn reference(kind: &str, name: &str) -> ObjectReference {
    ObjectReference {
        api_group: infrastructure::GROUP.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

pub(crate) fn owner<K: Resource<DynamicType = ()>>(object: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// A reference to an owner that is not the controller, as MachineDeployments and MachineHealthChecks have.
pub(crate) fn owned<K: Resource<DynamicType = ()>>(object: &K) -> OwnerReference {
    OwnerReference {
        controller: None,
        block_owner_deletion: None,
        ..owner(object)
    }
}
