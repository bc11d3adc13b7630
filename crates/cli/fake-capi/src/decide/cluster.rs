//! A Cluster that is not being deleted: the parts of core and of the control plane provider.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt};
use nephele_api::{
    conditions::{self, reasons, types},
    core::{ClusterInitialization, ClusterStatus, Endpoint, Machine, ReplicaCounts},
    infrastructure::v1beta2::InMemoryMachine,
    labels,
};
use nephele_controller::owner_cluster;

use super::{
    action::Action,
    condition::{condition, mirrored},
    control_plane,
    control_plane::is_initialized,
    deployment, machine_status as machine,
    paused::not_paused,
    pool,
    replicas::{Group, REMEDIATING, ROLLING_OUT, SCALING_DOWN, SCALING_UP, count, holds},
};
use crate::{
    certificates::Purpose,
    kinds::Counts,
    observe::Observed,
    phases::AVAILABLE,
    plan::{ClusterPlan, DeploymentPlan},
};

/// Marks a Machine that goes first when its owner has too many (`api/core/v1beta2/machine_types.go`).
const DELETE_MACHINE: &str = "cluster.x-k8s.io/delete-machine";
/// Whether the workload cluster answers.
const REMOTE_CONNECTION_PROBE: &str = "RemoteConnectionProbe";
/// For how long it may not answer (`--remote-connection-grace-period`).
const CONNECTION_GRACE: SignedDuration = SignedDuration::from_secs(50);
/// How often a probe may fail in a new process before the cluster counts as unreachable.
const FAILURES_MAX: u32 = 5;

/// The next actions for the cluster, without those for single Machines.
pub(super) fn provide(plan: &ClusterPlan, observed: &Observed) -> Vec<Action> {
    let Some(infrastructure) = &observed.infrastructure else {
        return Vec::new();
    };
    let metadata = &infrastructure.metadata;
    if owner_cluster(metadata).is_none() || labels::value(metadata, labels::CLUSTER_NAME).is_none() {
        return vec![Action::AdoptInfrastructure];
    }
    let mut actions = Vec::new();
    let Some(endpoint) = endpoint(observed) else {
        return actions;
    };
    if observed.cluster.spec.control_plane_endpoint.as_ref() != Some(&endpoint) {
        actions.push(Action::PublishEndpoint(endpoint.clone()));
    }
    let missing = Purpose::ALL
        .into_iter()
        .filter(|purpose| observed.secret(purpose.as_str()).is_none());
    actions.extend(missing.map(Action::CreateKeyPair));
    if observed.secret(Purpose::Cluster.as_str()).is_some() && observed.secret("kubeconfig").is_none() {
        actions.push(Action::CreateKubeconfig(endpoint));
    }
    if has_certificates(observed) {
        actions.extend(machines(plan, observed));
        actions.extend(remediate(observed));
        actions.extend(pool::provide(plan, observed));
    }
    actions
}

/// The endpoint, once the infrastructure has been provisioned.
fn endpoint(observed: &Observed) -> Option<Endpoint> {
    let infrastructure = observed
        .infrastructure
        .as_ref()
        .filter(|infrastructure| infrastructure.is_provisioned())?;
    let endpoint = infrastructure.spec.control_plane_endpoint.as_ref()?;
    Some(Endpoint {
        host: endpoint.host.clone(),
        port: endpoint.port,
    })
}

pub(super) fn has_certificates(observed: &Observed) -> bool {
    Purpose::ALL
        .iter()
        .all(|purpose| observed.secret(purpose.as_str()).is_some())
}

/// Creates missing Machines and deletes surplus ones. Control plane Machines are created and deleted one after the
/// other, as kubeadm joins them; workers are created at once, and wait for their bootstrap data. Machines of another
/// version than planned, and those whose instance was terminated, are replaced: first a new one is created, then an old
/// one is deleted.
fn machines(plan: &ClusterPlan, observed: &Observed) -> Vec<Action> {
    let mut taken = observed.machines.iter().map(ResourceExt::name_any).collect();
    let mut actions = Vec::new();
    for part in [None].into_iter().chain(plan.deployments.iter().map(Some)) {
        let set = Machines::of(plan, observed, part);
        // A Machine is made by its owner, which has to be there before.
        let owner = match part {
            None => observed
                .control_plane
                .as_ref()
                .filter(|known| !is_going(*known))
                .map(Resource::meta),
            Some(part) => deployment::current_set(part, plan, observed).map(Resource::meta),
        };
        let Some(owner) = owner.and_then(|owner| owner.name.clone()) else {
            continue;
        };
        for _ in 0..set.missing() {
            let name = crate::names::generated(&owner, &plan.name_salt, &taken);
            taken.insert(name.clone());
            let failure_domain = match part {
                Some(part) => part.failure_domain.clone(),
                None => fewest(observed, &set.machines),
            };
            let deployment = part.map(|part| Box::new((part.clone(), owner.clone())));
            actions.push(Action::CreateMachine {
                name,
                failure_domain,
                deployment,
            });
        }
        actions.extend(
            set.surplus()
                .map(|machine| Action::DeleteMachine(machine.name_any())),
        );
    }
    actions
}

/// The failure domain with the fewest control plane machines, the first by name of several; empty when the cluster has none for
/// them (`util/failuredomains`).
fn fewest(observed: &Observed, machines: &[&Machine]) -> String {
    let domains = observed
        .cluster
        .status
        .iter()
        .flat_map(|status| &status.failure_domains);
    let domains = domains.filter(|domain| domain.control_plane == Some(true));
    let number = |name: &str| {
        machines
            .iter()
            .filter(|machine| machine.spec.failure_domain == name)
            .count()
    };
    let fewest = domains.min_by_key(|domain| (number(&domain.name), &domain.name));
    fewest.map(|domain| domain.name.clone()).unwrap_or_default()
}

fn is_going<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Deletes the Machines that a health check found unhealthy, so that they are replaced: workers at once, control plane
/// machines one after the other.
fn remediate(observed: &Observed) -> Vec<Action> {
    let waiting = observed.machines.iter().filter(|machine| {
        machine::is_to_be_remediated(machine) && !machine::is_deleting(machine) && !pool::is_member(machine)
    });
    let (control_plane, workers): (Vec<_>, Vec<_>) =
        waiting.partition(|machine| labels::is_control_plane(&machine.metadata));
    let is_free = |machine: &&&Machine| control_plane::may_remediate(observed, machine).is_ok();
    let next = control_plane.iter().filter(is_free).take(1).copied();
    workers
        .into_iter()
        .chain(next)
        .map(|machine| Action::DeleteMachine(machine.name_any()))
        .collect()
}

/// The Machines of the control plane or of a MachineDeployment that are not being deleted, and their wanted number.
struct Machines<'a> {
    is_control_plane: bool,
    wanted: usize,
    machines: Vec<&'a Machine>,
    old: Vec<&'a Machine>,
    /// The old Machines whose instance was terminated.
    dead: Vec<&'a Machine>,
    /// Whether all Machines except the dead ones are up, and none is being deleted.
    is_settled: bool,
}

impl<'a> Machines<'a> {
    /// Those of a MachineDeployment, or without one those of the control plane.
    fn of(plan: &ClusterPlan, observed: &'a Observed, deployment: Option<&DeploymentPlan>) -> Self {
        let is_member = |machine: &&Machine| match deployment {
            None => labels::is_control_plane(&machine.metadata),
            Some(deployment) => deployment.has(machine),
        };
        let all: Vec<&Machine> = observed.machines.iter().filter(is_member).collect();
        let wanted = as_count(deployment.map_or(plan.control_plane, |deployment| deployment.replicas));
        let machines: Vec<_> = all
            .iter()
            .copied()
            .filter(|machine| !machine::is_deleting(machine))
            .collect();
        let is_dead = |machine: &&&Machine| observed.infrastructure_of(machine).is_some_and(is_terminated);
        let dead: Vec<_> = machines.iter().filter(is_dead).copied().collect();
        let current = deployment.and_then(|part| deployment::current_set(part, plan, observed));
        let outdated = |machine: &&&Machine| match deployment {
            None => machine.spec.version != plan.version,
            Some(_) => current.is_none_or(|set| !deployment::is_of(machine, set)),
        };
        let old = machines
            .iter()
            .filter(|machine| outdated(machine) || is_dead(machine))
            .copied()
            .collect();
        let is_up = |machine: &&Machine| {
            machine::is_up(machine) || dead.iter().any(|dead| dead.name_any() == machine.name_any())
        };
        let is_settled = observed.cluster.is_control_plane_initialized() && all.iter().all(is_up);
        Self {
            is_control_plane: deployment.is_none(),
            wanted,
            machines,
            old,
            dead,
            is_settled,
        }
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

    /// The next Machine to delete: one that a user or an autoscaler marked, then old ones, then those that are not up. Workers that are
    /// too many go at once, unless they are replaced (`machineset_deletion_order.go` in `core/reconcilers/machineset`).
    fn surplus(&self) -> impl Iterator<Item = &'a Machine> {
        let goes_at_once = !self.is_control_plane && self.old.is_empty();
        let has_surplus = self.machines.len() > self.wanted && (self.is_settled || goes_at_once);
        let is_marked = |machine: &&&Machine| machine.annotations().contains_key(DELETE_MACHINE);
        let marked = self.machines.iter().filter(is_marked);
        let candidates = marked
            .chain(&self.dead)
            .chain(&self.old)
            .chain(self.machines.iter().filter(|machine| !machine::is_up(machine)))
            .chain(self.machines.iter().rev());
        candidates.copied().take(usize::from(has_surplus))
    }
}

/// Whether the provider reports that the instance was terminated, in the condition that a MachineHealthCheck would
/// check.
pub(super) fn is_terminated(infrastructure: &InMemoryMachine) -> bool {
    let conditions = infrastructure.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|condition| condition.reason == reasons::INSTANCE_TERMINATED)
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
    let infrastructure = mirrored(
        "InfrastructureReady",
        types::READY,
        provisioned,
        waits_for_infrastructure,
    );
    conditions::set(&mut status.conditions, infrastructure, now);
    let first = mirrored(
        types::CONTROL_PLANE_INITIALIZED,
        control_plane::INITIALIZED,
        initialized,
        "Waiting for the first control plane machine",
    );
    conditions::set(&mut status.conditions, first, now);

    if let Some(reported) = observed
        .infrastructure
        .as_ref()
        .and_then(|known| known.status.as_ref())
    {
        status.failure_domains.clone_from(&reported.failure_domains);
    }
    conditions::set(&mut status.conditions, condition(types::DELETING, false, ""), now);
    conditions::set(&mut status.conditions, not_paused(), now);
    for condition in parts(observed, &status.conditions, now) {
        conditions::set(&mut status.conditions, condition, now);
    }
    (status.control_plane, status.workers) = (of_control_plane(observed), of_workers(observed));

    let wanted =
        as_count(plan.control_plane) + as_count(plan.workers()) + as_count(plan.pool.unwrap_or_default());
    let up = observed
        .machines
        .iter()
        .filter(|machine| machine::is_up(machine))
        .count();
    let is_reachable = conditions::is_true(&status.conditions, REMOTE_CONNECTION_PROBE);
    let available = provisioned && initialized && is_reachable && up >= wanted;
    let message = match (provisioned, initialized, is_reachable) {
        (false, _, _) => waits_for_infrastructure.to_owned(),
        (true, false, _) => "Waiting for the first control plane machine".to_owned(),
        (true, true, false) => "The cluster does not answer".to_owned(),
        (true, true, true) => format!("{up} of {wanted} machines are up"),
    };
    conditions::set(
        &mut status.conditions,
        condition(AVAILABLE, available, &message),
        now,
    );
    status.phase = if provisioned {
        "Provisioned"
    } else {
        "Provisioning"
    }
    .to_owned();
    status
}

/// The conditions that follow from the objects of the cluster and from its connection
/// (`core/reconcilers/cluster/cluster_controller_status.go`).
fn parts(observed: &Observed, known: &[Condition], now: Timestamp) -> Vec<Condition> {
    let control_plane = observed
        .control_plane
        .as_ref()
        .and_then(|known| known.status.as_ref());
    let control_plane = control_plane
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let deployments: Vec<(String, &[Condition])> = observed
        .deployments
        .iter()
        .map(|known| {
            let list = known.status.as_ref().map(|status| status.conditions.as_slice());
            (
                format!("MachineDeployment {}", known.name_any()),
                list.unwrap_or_default(),
            )
        })
        .collect();
    let mut all = deployments.clone();
    all.insert(0, ("KubeadmControlPlane".to_owned(), control_plane));
    let is_control_plane = |machine: &&Machine| labels::is_control_plane(&machine.metadata);
    let (of_control_plane, workers): (Vec<_>, Vec<_>) = observed
        .machines
        .iter()
        .filter(|machine| !pool::is_member(machine))
        .partition(is_control_plane);
    let everything = observed.machines.iter().collect();
    let [of_control_plane, workers, everything] =
        [of_control_plane, workers, everything].map(|machines: Vec<&Machine>| Group {
            wanted: 0,
            is_deleting: false,
            machines,
        });
    let remediated = everything.conditions();
    let remediating = remediated
        .into_iter()
        .filter(|condition| condition.type_ == REMEDIATING);
    let available = conditions::find(control_plane, AVAILABLE);
    let message = available.map_or("Waiting for the control plane", |known| known.message.as_str());
    let is_available = available.is_some_and(|known| known.status == conditions::TRUE);
    let mut new = vec![
        mirrored("ControlPlaneAvailable", AVAILABLE, is_available, message),
        workers_available(&deployments),
        of_control_plane.all("ControlPlaneMachinesReady", types::READY, "Ready"),
        workers.all("WorkerMachinesReady", types::READY, "Ready"),
        of_control_plane.all("ControlPlaneMachinesUpToDate", "UpToDate", "UpToDate"),
        workers.all("WorkerMachinesUpToDate", "UpToDate", "UpToDate"),
    ];
    for kind in [ROLLING_OUT, SCALING_UP, SCALING_DOWN] {
        let under_way: Vec<_> = all
            .iter()
            .filter_map(|(name, list)| Some((name, conditions::find(list, kind)?)))
            .filter(|(_, condition)| condition.status == conditions::TRUE)
            .map(|(name, condition)| format!("* {name}: {}", condition.message.replace('\n', "\n  ")))
            .collect();
        new.push(holds(kind, !under_way.is_empty(), under_way.join("\n")));
    }
    new.extend(remediating);
    new.extend(probe(observed, known, now));
    new
}

fn workers_available(deployments: &[(String, &[Condition])]) -> Condition {
    const KIND: &str = "WorkersAvailable";
    if deployments.is_empty() {
        return conditions::condition(KIND, conditions::TRUE, "NoWorkers", "");
    }
    let missing: Vec<_> = deployments
        .iter()
        .filter(|(_, list)| !conditions::is_true(list, AVAILABLE))
        .map(|(name, list)| {
            let message = conditions::find(list, AVAILABLE).map(|known| known.message.as_str());
            format!(
                "* {name}: {}",
                message.unwrap_or("Condition Available not yet reported")
            )
        })
        .collect();
    mirrored(KIND, AVAILABLE, missing.is_empty(), &missing.join("\n"))
}

/// Whether the workload cluster answers. None when that is not known, because no request was sent yet or too few failed
/// since the process began: then it stays as it is.
fn probe(observed: &Observed, known: &[Condition], now: Timestamp) -> Option<Condition> {
    let failed = |message: String| {
        conditions::condition(REMOTE_CONNECTION_PROBE, conditions::FALSE, "ProbeFailed", message)
    };
    match observed.probe.last_success {
        Some(last) if now.duration_since(last) <= CONNECTION_GRACE => Some(conditions::condition(
            REMOTE_CONNECTION_PROBE,
            conditions::TRUE,
            "ProbeSucceeded",
            "",
        )),
        Some(last) => Some(failed(format!(
            "Remote connection probe failed, probe last succeeded at {last:.0}"
        ))),
        None if observed.probe.failures >= FAILURES_MAX
            && observed.cluster.is_control_plane_initialized() =>
        {
            Some(failed("Remote connection probe failed".to_owned()))
        }
        None => match conditions::find(known, REMOTE_CONNECTION_PROBE) {
            None => Some(failed("Remote connection not established yet".to_owned())),
            Some(_) => None,
        },
    }
}

fn of_control_plane(observed: &Observed) -> Option<ReplicaCounts> {
    let known = observed.control_plane.as_ref()?;
    let counts = known
        .status
        .as_ref()
        .map(|status| status.counts)
        .unwrap_or_default();
    Some(counted(known.spec.replicas, counts))
}

fn of_workers(observed: &Observed) -> Option<ReplicaCounts> {
    let pool = observed.pool.as_ref().map(|pool| {
        let members = observed
            .machines
            .iter()
            .filter(|machine| pool::is_member(machine))
            .collect();
        let group = Group {
            wanted: 0,
            is_deleting: false,
            machines: members,
        };
        // Core sets no UpToDate on Machines of a pool.
        let counts = Counts {
            up_to_date_replicas: Some(count(group.machines.len())),
            ..group.counts()
        };
        counted(pool.spec.replicas, counts)
    });
    let deployments = observed.deployments.iter().map(|known| {
        counted(
            known.spec.replicas,
            known
                .status
                .as_ref()
                .map(|status| status.counts)
                .unwrap_or_default(),
        )
    });
    deployments.chain(pool).reduce(|one, other| {
        let sum = |one: Option<i32>, other: Option<i32>| {
            Some(one.unwrap_or_default().saturating_add(other.unwrap_or_default()))
        };
        ReplicaCounts {
            desired_replicas: sum(one.desired_replicas, other.desired_replicas),
            replicas: sum(one.replicas, other.replicas),
            ready_replicas: sum(one.ready_replicas, other.ready_replicas),
            available_replicas: sum(one.available_replicas, other.available_replicas),
            up_to_date_replicas: sum(one.up_to_date_replicas, other.up_to_date_replicas),
        }
    })
}

fn counted(desired_replicas: Option<i32>, counts: Counts) -> ReplicaCounts {
    let Counts {
        replicas,
        ready_replicas,
        available_replicas,
        up_to_date_replicas,
    } = counts;
    ReplicaCounts {
        desired_replicas,
        replicas,
        ready_replicas,
        available_replicas,
        up_to_date_replicas,
    }
}
