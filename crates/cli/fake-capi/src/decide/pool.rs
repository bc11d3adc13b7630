//! A MachinePool: the parts of the user and of core (`core/reconcilers/machinepool/machinepool_controller_phases.go`).

use kube::ResourceExt as _;
use nephele_api::{
    core::{Bootstrap, Machine, MachinePoolSpec, MachinePoolTemplate, MachineSpec},
    infrastructure::v1beta2::{InMemoryMachine, pool_machine::POOL_NAME_LABEL},
    labels,
};
use nephele_controller::owner_machine;

use super::action::{Action, PoolAction};
use crate::{
    names::{self, POOL_FINALIZER},
    observe::Observed,
    plan::ClusterPlan,
    references::reference,
};

/// Whether a Machine is one of a MachinePool.
pub(super) fn is_member(machine: &Machine) -> bool {
    labels::value(&machine.metadata, POOL_NAME_LABEL).is_some()
}

/// The next actions for the MachinePool, without those for single Machines. A MachinePool that is not planned any more
/// is deleted.
pub(super) fn provide(plan: &ClusterPlan, observed: &Observed) -> Vec<Action> {
    let Some(replicas) = plan.pool else {
        return delete(observed).into_iter().collect();
    };
    let spec = spec(plan, observed, replicas);
    let Some(pool) = &observed.pool else {
        return vec![Action::Pool(PoolAction::Plan(Box::new(spec)))];
    };
    let mut actions = Vec::new();
    if pool.spec != spec {
        actions.push(Action::Pool(PoolAction::Plan(Box::new(spec))));
    }
    if observed.infrastructure_pool.is_none() {
        actions.push(Action::Pool(PoolAction::CreateInfrastructure));
    }
    actions.extend(
        observed
            .infrastructure_machines
            .iter()
            .filter_map(|instance| member(observed, instance)),
    );
    actions
}

/// The next action for a machine of the pool.
fn member(observed: &Observed, instance: &InMemoryMachine) -> Option<Action> {
    labels::value(&instance.metadata, POOL_NAME_LABEL)?;
    let name = instance.name_any();
    let is_going = instance.metadata.deletion_timestamp.is_some();
    let is_owned = owner_machine(&instance.metadata).is_some();
    match observed
        .machines
        .iter()
        .find(|machine| machine.name_any() == name)
    {
        None if !is_owned && !is_going => Some(Action::Pool(PoolAction::CreateMachine(name))),
        Some(_) if !is_owned && !is_going => Some(Action::Pool(PoolAction::AdoptInstance(name))),
        _ => None,
    }
}

/// The machines of a pool join the cluster, so there is no bootstrap data before the control plane is initialized.
fn spec(plan: &ClusterPlan, observed: &Observed, replicas: u32) -> MachinePoolSpec {
    let name = names::pool(&plan.name);
    let initialized = observed.cluster.is_control_plane_initialized();
    let template = MachineSpec {
        cluster_name: plan.name.clone(),
        version: plan.version.clone(),
        bootstrap: initialized.then(|| Bootstrap {
            config_ref: None,
            data_secret_name: Some(name.clone()),
        }),
        infrastructure_ref: Some(reference("InMemoryMachinePool", &name)),
        ..MachineSpec::default()
    };
    MachinePoolSpec {
        cluster_name: plan.name.clone(),
        replicas: i32::try_from(replicas).ok(),
        template: MachinePoolTemplate { spec: template },
        ..MachinePoolSpec::default()
    }
}

/// The next step of a MachinePool that goes away, with its cluster or alone.
pub(super) fn delete(observed: &Observed) -> Option<Action> {
    let pool = observed.pool.as_ref()?;
    let action = match &observed.infrastructure_pool {
        _ if pool.metadata.deletion_timestamp.is_none() => PoolAction::Delete,
        Some(infrastructure) if infrastructure.metadata.deletion_timestamp.is_none() => {
            PoolAction::DeleteInfrastructure
        }
        Some(_) => return None,
        None if pool.finalizers().iter().any(|held| held == POOL_FINALIZER) => PoolAction::Release,
        None => return None,
    };
    Some(Action::Pool(action))
}
