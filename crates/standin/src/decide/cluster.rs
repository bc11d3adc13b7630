//! A Cluster that is not being deleted: the parts of core and of the control plane provider.

use jiff::Timestamp;
use kube::ResourceExt as _;
use nephele_api::conditions::{self, reasons, types};
use nephele_api::core::{ClusterInitialization, ClusterStatus, Endpoint, Machine};
use nephele_api::infrastructure::v1beta2::InMemoryMachine;
use nephele_api::labels;
use nephele_kit::owner_cluster;

use super::{Action, condition, machine, names, pool};
use crate::AVAILABLE;
use crate::certificates::Purpose;
use crate::observe::Observed;
use crate::plan::{ClusterPlan, DeploymentPlan};

/// The next actions for the cluster, without those for single Machines.
pub(super) fn provide(plan: &ClusterPlan, observed: &Observed) -> Vec<Action> {
    let Some(infrastructure) = &observed.infrastructure else { return Vec::new() };
    let metadata = &infrastructure.metadata;
    if owner_cluster(metadata).is_none() || labels::value(metadata, labels::CLUSTER_NAME).is_none() {
        return vec![Action::AdoptInfrastructure];
    }
    let mut actions = Vec::new();
    let Some(endpoint) = endpoint(observed) else { return actions };
    if observed.cluster.spec.control_plane_endpoint.as_ref() != Some(&endpoint) {
        actions.push(Action::PublishEndpoint(endpoint.clone()));
    }
    let missing = Purpose::ALL.into_iter().filter(|purpose| observed.secret(purpose.as_str()).is_none());
    actions.extend(missing.map(Action::CreateKeyPair));
    if observed.secret(Purpose::Cluster.as_str()).is_some() && observed.secret("kubeconfig").is_none() {
        actions.push(Action::CreateKubeconfig(endpoint));
    }
    if has_certificates(observed) {
        actions.extend(machines(plan, observed));
        actions.extend(pool::provide(plan, observed));
    }
    actions
}

/// The endpoint, once the infrastructure has been provisioned.
fn endpoint(observed: &Observed) -> Option<Endpoint> {
    let infrastructure =
        observed.infrastructure.as_ref().filter(|infrastructure| infrastructure.is_provisioned())?;
    let endpoint = infrastructure.spec.control_plane_endpoint.as_ref()?;
    Some(Endpoint { host: endpoint.host.clone(), port: endpoint.port })
}

pub(super) fn has_certificates(observed: &Observed) -> bool {
    Purpose::ALL.iter().all(|purpose| observed.secret(purpose.as_str()).is_some())
}

/// Whether the first control plane machine is up, according to the Cluster or to the workload cluster.
fn is_initialized(observed: &Observed) -> bool {
    observed.cluster.is_control_plane_initialized()
        || observed.workload.as_ref().is_some_and(|workload| workload.initialized)
}

/// Creates missing Machines and deletes surplus ones, those of MachineDeployments that are not planned any more as well. Control plane Machines are created and deleted one after the
/// other, as kubeadm joins them; workers are created at once, and wait for their bootstrap data. Machines of another
/// version than planned, and those whose instance was terminated, are replaced: first a new one is created, then an old
/// one is deleted.
fn machines(plan: &ClusterPlan, observed: &Observed) -> Vec<Action> {
    let mut taken = names(&observed.machines);
    let mut actions = Vec::new();
    for part in [None].into_iter().chain(plan.deployments.iter().map(Some)) {
        let set = MachineSet::of(plan, observed, part);
        for _ in 0..set.missing() {
            let base = part.map_or_else(|| format!("{}-control-plane", plan.name), |part| part.name.clone());
            let name = crate::names::machine(&base, &plan.name_salt, &taken);
            taken.insert(name.clone());
            let deployment = part.cloned().map(Box::new);
            actions.push(Action::CreateMachine { name, deployment });
        }
        actions.extend(set.surplus().map(|machine| Action::DeleteMachine(machine.name_any())));
    }
    let is_left = |machine: &&Machine| {
        !labels::is_control_plane(&machine.metadata)
            && !pool::is_member(machine)
            && !machine::is_deleting(machine)
            && plan.deployment_of(machine).is_none()
    };
    let left = observed.machines.iter().filter(is_left);
    actions.extend(left.map(|machine| Action::DeleteMachine(machine.name_any())));
    actions
}

/// The Machines of the control plane or of a MachineDeployment that are not being deleted, and their wanted number.
struct MachineSet<'a> {
    is_control_plane: bool,
    wanted: usize,
    machines: Vec<&'a Machine>,
    /// The Machines to replace.
    old: Vec<&'a Machine>,
    /// The old Machines whose instance was terminated.
    dead: Vec<&'a Machine>,
    /// Whether all Machines except the dead ones are up, and none is being deleted.
    is_settled: bool,
}

impl<'a> MachineSet<'a> {
    /// Those of a MachineDeployment, or without one those of the control plane.
    fn of(plan: &ClusterPlan, observed: &'a Observed, deployment: Option<&DeploymentPlan>) -> Self {
        let is_member = |machine: &&Machine| match deployment {
            None => labels::is_control_plane(&machine.metadata),
            Some(deployment) => deployment.has(machine),
        };
        let all: Vec<&Machine> = observed.machines.iter().filter(is_member).collect();
        let wanted = as_count(deployment.map_or(plan.control_plane, |deployment| deployment.replicas));
        let machines: Vec<_> = all.iter().copied().filter(|machine| !machine::is_deleting(machine)).collect();
        let is_dead = |machine: &&&Machine| observed.infrastructure_of(machine).is_some_and(is_terminated);
        let dead: Vec<_> = machines.iter().filter(is_dead).copied().collect();
        let outdated = |machine: &&&Machine| machine.spec.version != plan.version;
        let old = machines.iter().filter(|machine| outdated(machine) || is_dead(machine)).copied().collect();
        let is_up = |machine: &&Machine| {
            machine::is_up(machine) || dead.iter().any(|dead| dead.name_any() == machine.name_any())
        };
        let is_settled = observed.cluster.is_control_plane_initialized() && all.iter().all(is_up);
        Self { is_control_plane: deployment.is_none(), wanted, machines, old, dead, is_settled }
    }

    fn missing(&self) -> usize {
        let surge = usize::from(!self.old.is_empty() && self.wanted > 0 && self.is_settled);
        let missing = (self.wanted + surge).saturating_sub(self.machines.len());
        match (self.is_control_plane, self.machines.is_empty(), self.is_settled) {
            (false, _, _) => missing,
            (true, true, _) | (true, _, true) => missing.min(1),
            (true, false, false) => 0,
        }
    }

    /// The next Machine to delete, old ones first.
    fn surplus(&self) -> impl Iterator<Item = &'a Machine> {
        let has_surplus = self.machines.len() > self.wanted && self.is_settled;
        let candidates = self.dead.iter().chain(&self.old).chain(self.machines.iter().rev());
        candidates.copied().take(usize::from(has_surplus))
    }
}

/// Whether the provider reports that the instance was terminated, in the condition that a MachineHealthCheck would
/// check.
pub(super) fn is_terminated(infrastructure: &InMemoryMachine) -> bool {
    let conditions = infrastructure.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.reason == reasons::INSTANCE_TERMINATED)
}

fn as_count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The new status of the Cluster, if it changed.
pub(super) fn report(
    plan: &ClusterPlan,
    observed: &Observed,
    is_topology: bool,
    now: Timestamp,
) -> Option<Action> {
    let old = observed.cluster.status.clone().unwrap_or_default();
    let mut status = status(plan, observed, old.clone(), now);
    if is_topology {
        conditions::set(&mut status.conditions, crate::topology::condition(None), now);
    }
    (status != old).then_some(Action::ReportCluster(status))
}

fn status(plan: &ClusterPlan, observed: &Observed, old: ClusterStatus, now: Timestamp) -> ClusterStatus {
    let mut status = old;
    let provisioned = endpoint(observed).is_some() || observed.cluster.is_infrastructure_provisioned();
    let initialized = is_initialized(observed);
    status.initialization = Some(ClusterInitialization {
        infrastructure_provisioned: provisioned.then_some(true),
        control_plane_initialized: initialized.then_some(true),
    });
    let waits_for_infrastructure = "Waiting for the infrastructure to be provisioned";
    let infrastructure = condition("InfrastructureReady", provisioned, waits_for_infrastructure);
    conditions::set(&mut status.conditions, infrastructure, now);
    let first = condition(
        types::CONTROL_PLANE_INITIALIZED,
        initialized,
        "Waiting for the first control plane machine",
    );
    conditions::set(&mut status.conditions, first, now);

    let wanted =
        as_count(plan.control_plane) + as_count(plan.workers()) + as_count(plan.pool.unwrap_or_default());
    let up = observed.machines.iter().filter(|machine| machine::is_up(machine)).count();
    let available = provisioned && initialized && up >= wanted;
    let message = match (provisioned, initialized) {
        (false, _) => waits_for_infrastructure.to_owned(),
        (true, false) => "Waiting for the first control plane machine".to_owned(),
        (true, true) => format!("{up} of {wanted} machines are up"),
    };
    conditions::set(&mut status.conditions, condition(AVAILABLE, available, &message), now);
    status.phase = if provisioned { "Provisioned" } else { "Provisioning" }.to_owned();
    status
}
