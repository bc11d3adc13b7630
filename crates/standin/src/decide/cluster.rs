//! The Cluster while it is to be there: core's part and the control plane provider's.

use jiff::Timestamp;
use nephele_api::conditions::{self, types};
use nephele_api::core::{ClusterInitialization, ClusterStatus, Endpoint, Machine};
use nephele_api::labels;
use nephele_kit::owner_cluster;

use super::{Action, condition, machine, names};
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

/// Machines that are missing. Those of the control plane come one after the other, as kubeadm joins them; workers come at
/// once, and wait for their bootstrap data.
fn machines(plan: &ClusterPlan, observed: &Observed) -> Vec<Action> {
    let present = |control_plane: bool| -> Vec<&Machine> {
        let is_present = |machine: &&Machine| {
            !machine::is_deleting(machine) && labels::is_control_plane(&machine.metadata) == control_plane
        };
        observed.machines.iter().filter(is_present).collect()
    };
    let mut taken = names(&observed.machines);
    let mut create = |control_plane: bool| {
        let base = format!("{}-{}", plan.name, if control_plane { "control-plane" } else { "md-0" });
        let name = crate::names::machine(&base, &taken);
        taken.insert(name.clone());
        Action::CreateMachine { name, control_plane }
    };
    let mut actions = Vec::new();
    let control_plane = present(true);
    let settled = observed.cluster.is_control_plane_initialized()
        && control_plane.iter().all(|machine| machine::is_up(machine));
    if control_plane.len() < as_count(plan.control_plane) && (control_plane.is_empty() || settled) {
        actions.push(create(true));
    }
    let missing = as_count(plan.workers).saturating_sub(present(false).len());
    actions.extend((0..missing).map(|_| create(false)));
    actions
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

    let wanted = as_count(plan.control_plane) + as_count(plan.workers);
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
