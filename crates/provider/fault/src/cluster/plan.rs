//! Which Faults a ClusterFault makes, restores and deletes. Pure.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt as _};
use nephele_api::cloud::{
    CLUSTER_FAULT_LABEL, GROUP,
    v1alpha1::{ClusterFault, Fault, RefusedNamespace},
};
use nephele_controller::{unreadable, watch_filter_label};
use nephele_model::Selector;

use super::selection::is_selected;

/// The begin of the names of all Faults that ClusterFaults make. A user's Fault hardly has such a name by accident.
const PREFIX: &str = "cluster-fault-";

/// A namespace, and its Fault that has the name of the ClusterFault's.
pub(super) struct Place<'a> {
    pub(super) namespace: &'a str,
    pub(super) labels: &'a BTreeMap<String, String>,
    pub(super) is_going: bool,
    pub(super) fault: Option<Arc<Fault>>,
    /// Why the Fault was refused here, if that was lately. Then it is not tried again.
    pub(super) refusal: Option<&'a str>,
}

/// Something to do in one namespace.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// In this namespace.
    Create(String),
    /// A tenant has changed the Fault.
    Restore {
        known: Arc<Fault>,
        wanted: Box<Fault>,
    },
    Delete(Arc<Fault>),
}

/// What is to be done for a ClusterFault, and how it is.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// In the order of the places.
    pub(super) acts: Vec<Act>,
    /// How many namespaces are selected.
    pub(super) selected: usize,
    /// The Faults that are where they should be.
    pub(super) standing: Vec<Arc<Fault>>,
    /// The namespaces that refused the Fault lately, or in which there is another Fault of this name.
    pub(super) refused: Vec<RefusedNamespace>,
}

/// The name of the Faults of a ClusterFault.
pub(super) fn fault_name(cluster_fault: &str) -> String {
    format!("{PREFIX}{cluster_fault}")
}

/// The ClusterFault whose Faults have this name.
pub(super) fn cluster_fault_of(fault: &str) -> Option<&str> {
    fault.strip_prefix(PREFIX)
}

/// What is to be done. Without a selector, no namespace is selected.
pub(super) fn plan<'a>(
    object: &ClusterFault,
    selector: Option<&Selector>,
    places: impl IntoIterator<Item = Place<'a>>,
) -> Plan {
    let mut plan = Plan::default();
    for Place {
        namespace,
        labels,
        is_going,
        fault,
        refusal,
    } in places
    {
        let is_selected = selector.is_some_and(|selector| is_selected(selector, labels, is_going));
        plan.selected += usize::from(is_selected);
        let refused = |message: &str| RefusedNamespace {
            namespace: namespace.to_owned(),
            message: message.to_owned(),
        };
        match (is_selected, fault) {
            (true, None) => match refusal {
                Some(message) => plan.refused.push(refused(message)),
                None => plan.acts.push(Act::Create(namespace.to_owned())),
            },
            (true, Some(fault)) if !is_of(&fault, object) => {
                let name = fault.name_any();
                let message = format!("another Fault has the name {name}; rename it, or delete it");
                plan.refused.push(refused(&message));
            }
            // It is created again when it is gone.
            (true, Some(fault)) if fault.metadata.deletion_timestamp.is_some() => {}
            // Its spec is not known, so no change of it leads to the wanted one. No schema takes such a Fault.
            (true, Some(fault)) if unreadable(&fault.metadata).is_some() => {
                plan.acts.push(Act::Delete(fault));
            }
            (true, Some(fault)) => {
                let restored = restored(object, &fault);
                match refusal {
                    _ if restored == *fault => {}
                    Some(message) => plan.refused.push(refused(message)),
                    None => {
                        let wanted = Box::new(restored);
                        plan.acts.push(Act::Restore {
                            known: Arc::clone(&fault),
                            wanted,
                        });
                    }
                }
                plan.standing.push(fault);
            }
            (false, Some(fault)) if is_of(&fault, object) && fault.metadata.deletion_timestamp.is_none() => {
                plan.acts.push(Act::Delete(fault));
            }
            (false, _) => {}
        }
    }
    plan
}

/// Whether a ClusterFault has made a Fault.
fn is_of(fault: &Fault, object: &ClusterFault) -> bool {
    fault
        .owner_references()
        .iter()
        .any(|owner| is_reference_to(owner, object))
}

fn is_reference_to(owner: &OwnerReference, object: &ClusterFault) -> bool {
    let group = owner.api_version.split_once('/').map(|(group, _)| group);
    let is_cluster_fault = owner.kind == ClusterFault::kind(&()) && group == Some(GROUP);
    is_cluster_fault && Some(&owner.uid) == object.metadata.uid.as_ref()
}

/// The Fault of a ClusterFault in a namespace.
pub(super) fn wanted(object: &ClusterFault, namespace: &str) -> Fault {
    let mut fault = Fault::new(&fault_name(&object.name_any()), object.spec.fault.clone());
    fault.metadata.namespace = Some(namespace.to_owned());
    restored(object, &fault)
}

/// A Fault with everything that a ClusterFault gives it. The rest is as it was.
fn restored(object: &ClusterFault, fault: &Fault) -> Fault {
    let mut restored = fault.clone();
    restored.spec = object.spec.fault.clone();
    let labels = restored.metadata.labels.get_or_insert_default();
    labels.insert(CLUSTER_FAULT_LABEL.to_owned(), object.name_any());
    labels.extend(watch_filter_label(&object.metadata));
    let owner = OwnerReference {
        api_version: ClusterFault::api_version(&()).into_owned(),
        kind: ClusterFault::kind(&()).into_owned(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    let owners = restored.metadata.owner_references.get_or_insert_default();
    match owners.iter_mut().find(|known| is_reference_to(known, object)) {
        Some(known) => {
            known.controller = owner.controller;
            known.api_version = owner.api_version;
        }
        None => owners.push(owner),
    }
    restored
}

#[cfg(test)]
mod tests;
