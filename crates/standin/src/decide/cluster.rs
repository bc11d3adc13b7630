//! The Cluster while it is to be there: core's part and the control plane provider's.

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
use crate::plan::ClusterPlan;

/// What brings the cluster on, its machines' own matters aside.
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

/// Whether the first control plane machine is up: said before, or seen now.
fn is_initialized(observed: &Observed) -> bool {
    observed.cluster.is_control_plane_initialized()
        || observed.workload.as_ref().is_some_and(|workload| workload.initialized)
}

/// Machines that are missing or too many. Those of the control plane come and go one after the other, as kubeadm joins
/// them; workers come at once, and wait for their bootstrap data. Machines of another version than planned, and those
/// whose instance was terminated, are replaced: first comes a new one, then an old one goes.
fn machines(plan: &ClusterPlan, observed: &Observed) -> Vec<Action> {
    let mut taken = names(&observed.machines);
    let mut actions = Vec::new();
    for (control_plane, wanted) in [(true, plan.control_plane), (false, plan.workers)] {
        let set = MachineSet::of(plan, observed, control_plane, as_count(wanted));
        for _ in 0..set.missing() {
            let base = format!("{}-{}", plan.name, if control_plane { "control-plane" } else { "md-0" });
            let name = crate::names::machine(&base, &plan.name_salt, &taken);
            taken.insert(name.clone());
            actions.push(Action::CreateMachine { name, control_plane });
        }
        actions.extend(set.surplus().map(|machine| Action::DeleteMachine(machine.name_any())));
    }
    actions
}

/// The Machines of one kind that are to stay, and how many of them there are to be.
struct MachineSet<'a> {
    is_control_plane: bool,
    wanted: usize,
    machines: Vec<&'a Machine>,
    /// Those of them that are to be replaced.
    old: Vec<&'a Machine>,
    /// Those of the old ones that nothing runs on any more.
    dead: Vec<&'a Machine>,
    /// All that are there are up, but for the dead, and none is going.
    is_settled: bool,
}

impl<'a> MachineSet<'a> {
    fn of(plan: &ClusterPlan, observed: &'a Observed, control_plane: bool, wanted: usize) -> Self {
        let all: Vec<&Machine> = observed
            .machines
            .iter()
            .filter(|machine| labels::is_control_plane(&machine.metadata) == control_plane)
            .filter(|machine| !pool::is_member(machine))
            .collect();
        let machines: Vec<_> = all.iter().copied().filter(|machine| !machine::is_deleting(machine)).collect();
        let is_dead = |machine: &&&Machine| observed.infrastructure_of(machine).is_some_and(is_terminated);
        let dead: Vec<_> = machines.iter().filter(is_dead).copied().collect();
        let outdated = |machine: &&&Machine| machine.spec.version != plan.version;
        let old = machines.iter().filter(|machine| outdated(machine) || is_dead(machine)).copied().collect();
        let is_up = |machine: &&Machine| {
            machine::is_up(machine) || dead.iter().any(|dead| dead.name_any() == machine.name_any())
        };
        let is_settled = observed.cluster.is_control_plane_initialized() && all.iter().all(is_up);
        Self { is_control_plane: control_plane, wanted, machines, old, dead, is_settled }
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

    /// The next one to go, old ones first.
    fn surplus(&self) -> impl Iterator<Item = &'a Machine> {
        let has_surplus = self.machines.len() > self.wanted && self.is_settled;
        let candidates = self.dead.iter().chain(&self.old).chain(self.machines.iter().rev());
        candidates.copied().take(usize::from(has_surplus))
    }
}

/// Whether the provider says that the instance is gone for good, as a MachineHealthCheck would be told to look for.
pub(super) fn is_terminated(infrastructure: &InMemoryMachine) -> bool {
    let conditions = infrastructure.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.reason == reasons::INSTANCE_TERMINATED)
}

fn as_count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// How the Cluster is, when that is news.
pub(super) fn report(plan: &ClusterPlan, observed: &Observed, now: Timestamp) -> Option<Action> {
    let old = observed.cluster.status.clone().unwrap_or_default();
    let status = status(plan, observed, old.clone(), now);
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
        as_count(plan.control_plane) + as_count(plan.workers) + as_count(plan.pool.unwrap_or_default());
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
