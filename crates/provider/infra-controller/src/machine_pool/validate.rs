//! Checks the objects and turns them into values to act on. Pure.

use std::sync::Arc;

use kube::ResourceExt as _;
use nephele_api::{
    core::MachinePool,
    infrastructure::v1beta2::{InMemoryMachine, InMemoryMachinePool, PoolMachine},
};
use nephele_controller::is_externally_managed;
use serde::Serialize;

use super::{fetch::Fetched, members::Member, names::digest};
use crate::rests::{why_rests, why_unreadable};

/// The result of the checks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Validated {
    /// The InMemoryMachinePool is externally managed.
    ExternallyManaged,
    /// The InMemoryMachinePool has no owner yet.
    WithoutOwner,
    /// Its MachinePool or its Cluster does not exist (yet).
    Orphaned,
    /// The object is paused; the message says why.
    Paused(String),
    /// The pool should run.
    Wanted(Box<Wanted>),
}

/// A pool that should run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) replicas: usize,
    /// What all of its machines are made from.
    pub(super) model: Model,
    /// The failure domains for its machines; empty when they can be placed anywhere.
    pub(super) failure_domains: Vec<String>,
    pub(super) infrastructure_provisioned: bool,
    pub(super) bootstrapped: bool,
}

/// What machines of a pool are made from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model {
    pub(super) cluster: String,
    pub(super) pool: String,
    pub(super) version: String,
    pub(super) machine: PoolMachine,
    /// A hash over the version, the name of the bootstrap data Secret and the template.
    pub(super) revision: String,
}

/// All machines of a pool, and Machines without an InMemoryMachine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Members {
    pub(super) all: Vec<Member>,
    /// Machines that are not being deleted although their InMemoryMachine is gone or being deleted.
    pub(super) dangling: Vec<String>,
    /// Those of them whose owner reference has to be written, and that are not being deleted.
    pub(super) disowned: Vec<Arc<InMemoryMachine>>,
}

pub(super) fn validate(object: &InMemoryMachinePool, fetched: Fetched) -> (Validated, Members) {
    let Fetched {
        owned,
        pool,
        id,
        cluster,
        members,
        machines,
        disowned,
    } = fetched;
    let dangling = machines.iter().filter(|(name, machine)| {
        let member = members.get(*name);
        let going = member.is_none_or(|member| member.metadata.deletion_timestamp.is_some());
        going && machine.metadata.deletion_timestamp.is_none()
    });
    let members = Members {
        dangling: dangling.map(|(_, machine)| machine.name_any()).collect(),
        all: (members.iter())
            .map(|(name, member)| Member::new(member, machines.get(name).map(|machine| &**machine)))
            .collect(),
        disowned,
    };
    if is_externally_managed(&object.metadata) {
        return (Validated::ExternallyManaged, members);
    }
    // One that has lost its owner and is being deleted rests while it is paused, like any other.
    if !owned && object.metadata.deletion_timestamp.is_none() {
        let validated = why_unreadable(&object.metadata).map_or(Validated::WithoutOwner, Validated::Paused);
        return (validated, members);
    }
    let paused = cluster.as_ref().is_some_and(|cluster| cluster.is_paused());
    if let Some(message) = why_rests("InMemoryMachinePool", &object.metadata, paused) {
        return (Validated::Paused(message), members);
    }
    let (Some(pool), Some(cluster), Some(id)) = (pool, cluster, id) else {
        return (Validated::Orphaned, members);
    };
    let wanted = Wanted {
        replicas: pool.wanted_replicas(),
        model: model(object, &pool, id.name),
        failure_domains: pool.spec.failure_domains.clone(),
        infrastructure_provisioned: cluster.is_infrastructure_provisioned(),
        bootstrapped: pool.data_secret_name().is_some(),
    };
    (Validated::Wanted(Box::new(wanted)), members)
}

fn model(object: &InMemoryMachinePool, pool: &MachinePool, cluster: String) -> Model {
    let machine = object.spec.template.clone().unwrap_or_default();
    let version = pool.spec.template.spec.version.clone();
    let revision = revision(&machine, &version, pool.data_secret_name().unwrap_or_default());
    Model {
        cluster,
        pool: pool.name_any(),
        version,
        machine,
        revision,
    }
}

/// The revision of a model. Absent fields do not change it, so that a new field of the kind replaces no machines before
/// it is used.
fn revision(machine: &PoolMachine, version: &str, data_secret_name: &str) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Source<'a> {
        template: &'a PoolMachine,
        version: &'a str,
        data_secret_name: &'a str,
    }
    let source = Source {
        template: machine,
        version,
        data_secret_name,
    };
    let text = serde_json::to_vec(&source).expect("a template is JSON");
    format!("{:016x}", digest(&text))
}

#[cfg(test)]
mod tests;
