//! The state of each machine of a pool.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use nephele_api::{
    conditions::{self, types},
    core::Machine,
    infrastructure::{
        GROUP,
        v1beta2::{
            InMemoryMachine, InMemoryMachinePool,
            pool_machine::{
                DELETE_MACHINE_ANNOTATION, FAILURE_DOMAIN_ANNOTATION, POOL_NAME_LABEL, REVISION_ANNOTATION,
                annotation,
            },
        },
    },
    labels,
};
use nephele_controller::{names_another_version, owner_machine, owner_of_kind};

use super::names;

/// The kind of pools.
const KIND: &str = "InMemoryMachinePool";

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

/// How a machine belongs to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belonging {
    /// The pool owns it.
    Owned,
    /// The pool owns it, and its owner reference names another version of the pool's kind than the one that is written now.
    Outdated,
    /// It has the name and labels of a machine of the pool, and lost its owner, or has one of that name that is gone: objects of
    /// a backup return without owners, or with those of another time. Without it the pool would create others in its place.
    Lost,
    /// It is another's.
    Foreign,
}

impl Belonging {
    /// `label` is the value of the pool's label, if its MachinePool is known.
    pub(super) fn of(machine: &ObjectMeta, pool: &ObjectMeta, label: Option<&str>) -> Self {
        let name = pool.name.as_deref().unwrap_or_default();
        let owner = owner_of_kind(machine, GROUP, KIND);
        if let Some(owner) = owner.filter(|owner| pool.uid.as_ref() == Some(&owner.uid)) {
            return match names_another_version::<InMemoryMachinePool>(owner) {
                true => Self::Outdated,
                false => Self::Owned,
            };
        }
        let is_of_another = owner.is_some_and(|owner| owner.name != name);
        let labelled = labels::value(machine, POOL_NAME_LABEL);
        let is_labelled = labelled.is_some() && (label.is_none() || labelled == label);
        let is_named = machine
            .name
            .as_deref()
            .is_some_and(|machine| names::ordinal(name, machine).is_some());
        if !is_of_another && is_labelled && is_named {
            Self::Lost
        } else {
            Self::Foreign
        }
    }
}

/// The name of the InMemoryMachinePool that a machine belongs to, or belonged to before it lost its owner.
pub(crate) fn pool_of(machine: &ObjectMeta) -> Option<&str> {
    let named = || {
        labels::value(machine, POOL_NAME_LABEL)?;
        let (stem, _) = machine.name.as_deref()?.rsplit_once('-')?;
        Some(stem)
    };
    owner_pool(machine).map(|(name, _)| name).or_else(named)
}

/// The name and uid of the InMemoryMachinePool that an object belongs to.
pub(crate) fn owner_pool(metadata: &ObjectMeta) -> Option<(&str, &str)> {
    let owner = owner_of_kind(metadata, GROUP, KIND)?;
    Some((&owner.name, &owner.uid))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn machine_that_lost_its_owner_is_known_by_its_name_and_label() {
        let meta = |value| serde_json::from_value::<ObjectMeta>(value).expect("metadata");
        let pool = meta(json!({ "name": "workers", "uid": "new" }));
        let owner_in = |version: &str, name: &str, uid: &str| json!([{ "apiVersion": format!("{GROUP}/{version}"), "kind": KIND, "name": name, "uid": uid }]);
        let owner = |name: &str, uid: &str| owner_in("v1beta2", name, uid);
        for (name, label, owners, expected) in [
            ("workers-3", Some("mp"), owner("workers", "new"), Belonging::Owned),
            ("any", None, owner("workers", "new"), Belonging::Owned),
            (
                "any",
                None,
                owner_in("v1beta1", "workers", "new"),
                Belonging::Outdated,
            ),
            ("workers-3", Some("mp"), json!([]), Belonging::Lost),
            ("workers-3", Some("mp"), owner("workers", "old"), Belonging::Lost),
            (
                "workers-3",
                Some("mp"),
                owner("others", "old"),
                Belonging::Foreign,
            ),
            ("workers-3", Some("other"), json!([]), Belonging::Foreign),
            ("workers-3", None, json!([]), Belonging::Foreign),
            ("workers-a", Some("mp"), json!([]), Belonging::Foreign),
        ] {
            let labels = label.map(|label| json!({ POOL_NAME_LABEL: label }));
            let machine = meta(json!({ "name": name, "labels": labels, "ownerReferences": owners }));
            assert_eq!(
                Belonging::of(&machine, &pool, Some("mp")),
                expected,
                "{machine:?}"
            );
            let known = if expected == Belonging::Foreign {
                None
            } else {
                Some("workers")
            };
            assert!(known.is_none() || pool_of(&machine) == known, "{machine:?}");
        }
    }
}
