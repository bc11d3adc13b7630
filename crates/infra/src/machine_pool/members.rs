//! The state of each machine of a pool.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use nephele_api::conditions::{self, types};
use nephele_api::core::Machine;
use nephele_api::infrastructure::GROUP;
use nephele_api::infrastructure::v1beta2::InMemoryMachine;
use nephele_api::infrastructure::v1beta2::pool_machine::{
    DELETE_MACHINE_ANNOTATION, FAILURE_DOMAIN_ANNOTATION, REVISION_ANNOTATION, annotation,
};
use nephele_kit::{owner_machine, owner_of_kind};

/// A machine of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) name: String,
    /// None before it is up.
    pub(super) provider_id: Option<String>,
    /// The revision that it was created from, see [`super::validate::Model`].
    pub(super) revision: Option<String>,
    /// The failure domain that it was created for.
    pub(super) failure_domain: Option<String>,
    /// Whether everything on it is up.
    pub(super) ready: bool,
    /// Whether it is being deleted.
    pub(super) going: bool,
    /// Whether its instance is gone for good.
    pub(super) terminated: bool,
    pub(super) machine: Link,
}

/// The Machine of a machine of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Cluster API has not created the Machine yet.
    None,
    /// The Machine existed and is gone.
    Lost,
    /// The Machine exists.
    Present {
        /// Whether it is being deleted.
        going: bool,
        /// Whether it is marked to be deleted before others.
        marked: bool,
    },
}

impl Member {
    pub(super) fn new(object: &InMemoryMachine, machine: Option<&Machine>) -> Self {
        let status = object.status.clone().unwrap_or_default();
        let text = |name| annotation(&object.metadata, name).map(str::to_owned);
        Self {
            name: object.name_any(),
            provider_id: Some(object.spec.provider_id.clone()).filter(|id| !id.is_empty()),
            revision: text(REVISION_ANNOTATION),
            failure_domain: text(FAILURE_DOMAIN_ANNOTATION),
            ready: object.is_provisioned() && conditions::is_true(&status.conditions, types::READY),
            going: object.metadata.deletion_timestamp.is_some(),
            terminated: object.termination().is_some(),
            machine: Link::new(object, machine),
        }
    }

    /// Whether it or its Machine is being deleted, or nothing is left of its Machine or of its instance.
    pub(super) fn is_leaving(&self) -> bool {
        self.going
            || self.terminated
            || matches!(self.machine, Link::Lost | Link::Present { going: true, .. })
    }

    pub(super) fn is_marked(&self) -> bool {
        matches!(self.machine, Link::Present { marked: true, .. })
    }
}

impl Link {
    fn new(object: &InMemoryMachine, machine: Option<&Machine>) -> Self {
        match (machine, owner_machine(&object.metadata)) {
            (Some(machine), _) => Self::Present {
                going: machine.metadata.deletion_timestamp.is_some(),
                marked: annotation(&machine.metadata, DELETE_MACHINE_ANNOTATION).is_some(),
            },
            (None, Some(_)) => Self::Lost,
            (None, None) => Self::None,
        }
    }
}

/// The name and uid of the InMemoryMachinePool that an object belongs to.
pub(crate) fn owner_pool(metadata: &ObjectMeta) -> Option<(&str, &str)> {
    let owner = owner_of_kind(metadata, GROUP, "InMemoryMachinePool")?;
    Some((&owner.name, &owner.uid))
}
