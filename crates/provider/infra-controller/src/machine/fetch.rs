//! Reads everything that a decision about a machine needs. Missing objects are `None`.

use std::sync::Arc;

use kube::{Api, ResourceExt as _};
use nephele_api::{
    core::{Cluster, Machine},
    infrastructure::v1beta2::InMemoryMachine,
};
use nephele_cloud::{ClusterObservation, Hardware, MachineObservation, Software};
use nephele_controller::owner_machine;
use nephele_model::{CloudError, ClusterId, MachineId};

use super::{Error, recorded::has_booted, software};
use crate::{
    claims::{self, Claim, Claimant as _},
    context::{Context, cluster_of_machine},
    resolved_cloud::{ResolvedCloud, model},
};

/// The Machine of an object, and the cluster that it belongs to.
#[derive(Default)]
pub(super) struct Owner {
    /// Whether a Machine owns the object.
    is_there: bool,
    machine: Option<Arc<Machine>>,
    /// The Cluster that the Machine names, or else the label, or else the one that it had until now.
    pub(super) cluster: Option<ClusterId>,
}

/// The objects and the state that were read.
#[derive(Default)]
pub(super) struct Fetched {
    /// Whether a Machine owns the object.
    pub(super) owned: bool,
    pub(super) machine: Option<Arc<Machine>>,
    /// The Cluster that the Machine names, or else the label, or else the one that it had until now.
    pub(super) id: Option<ClusterId>,
    pub(super) cluster: Option<Arc<Cluster>>,
    /// Whether the cloud has the machine.
    pub(super) exists: bool,
    /// Whether its instance is gone for good.
    pub(super) has_vanished: bool,
    /// The state of the cluster in the cloud.
    pub(super) observed: Option<ClusterObservation>,
    /// The offer of the cluster's SimulatedCloud; none before the cluster was reconciled.
    pub(super) resolved_cloud: Option<Arc<ResolvedCloud>>,
    /// The hardware that the cloud would give to the machine. None once the machine has booted, and before the
    /// SimulatedCloud of its cluster is known.
    pub(super) described: Option<Result<Hardware, CloudError>>,
    /// The claims that it waits for, with their states; empty once its addresses are known.
    pub(super) claims: Vec<Claim>,
    /// Why the cluster's certificate authorities cannot be used, if they were tried.
    pub(super) authorities_fault: Option<String>,
}

/// Reads which cluster a machine belongs to.
pub(super) async fn owner(object: &InMemoryMachine, context: &Context) -> Result<Owner, Error> {
    let namespace = object.namespace().unwrap_or_default();
    let owner = owner_machine(&object.metadata);
    let mut machine = owner.and_then(|owner| context.machines.get(&namespace, &owner.name));
    if let Some(cached) = machine
        .as_deref()
        .filter(|cached| software::follows(object, cached))
    {
        let api = Api::<Machine>::namespaced(context.client.clone(), &namespace);
        let name = cached.name_any();
        let found = api.get_opt(&name).await.map_err(|source| Error::Read {
            kind: "Machine",
            name,
            source,
        })?;
        machine = found.map(Arc::new);
    }
    let known = || context.machine_index.cluster_of(&namespace, &object.name_any());
    let cluster = cluster_of_machine(&object.metadata, machine.as_deref()).or_else(known);
    Ok(Owner {
        is_there: owner.is_some(),
        machine,
        cluster,
    })
}

/// Reads the rest.
pub(super) async fn fetch(
    object: &InMemoryMachine,
    context: &Context,
    owner: Owner,
) -> Result<Fetched, Error> {
    let Owner {
        is_there: owned,
        machine,
        cluster,
    } = owner;
    let Some(id) = cluster else {
        return Ok(Fetched {
            owned,
            machine,
            ..Fetched::default()
        });
    };
    let living = owned && object.metadata.deletion_timestamp.is_none();
    let machine_id = MachineId {
        cluster: id.clone(),
        name: object.name_any(),
    };
    let wanted = if living && !has_addresses(object) {
        object.wanted()
    } else {
        Vec::new()
    };
    // The cluster reconciler stores the offer before it creates the cluster. So read the cluster first: if it exists,
    // its offer does too.
    let observed = context.cloud.observe_cluster(&id);
    let resolved_cloud = context.resolved_clouds.of(&id);
    let made = machine.as_deref().filter(|_| !has_booted(object));
    let described = made.and_then(|machine| {
        let Software { version, image, .. } = software::software(object, machine);
        let model = model(
            &object.spec.instance_type,
            image.as_deref().unwrap_or_default(),
            &version,
        );
        context.describe(&id.namespace, resolved_cloud.as_deref(), &model)
    });
    let existing = context.cloud.observe_machine(&machine_id);
    Ok(Fetched {
        owned,
        machine,
        claims: claims::look(object, wanted, context)
            .await
            .map_err(Error::Claims)?,
        cluster: context.cluster(&id),
        observed,
        has_vanished: existing.as_ref().is_some_and(MachineObservation::has_vanished),
        exists: existing.is_some(),
        resolved_cloud,
        described,
        authorities_fault: context.authorities.fault(&id),
        id: Some(id),
    })
}

/// Whether the object lists the addresses from its pools: then the claims are not read again.
fn has_addresses(object: &InMemoryMachine) -> bool {
    let known = claims::given(object).len() == object.address_pools().len();
    known || object.is_provisioned()
}
