//! The KubeadmControlPlane: the parts of the topology controller and of its provider
//! (`controlplane/kubeadm/reconcilers/kubeadmcontrolplane`).

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::ResourceExt as _;
use nephele_api::{conditions, core::Machine, labels};
use nephele_pki::KeyAlgorithm;
use serde_json::{Value, json};

use super::{
    action::{Action, OwnerAction},
    condition::condition,
    machine_status as machine,
    paused::not_paused,
    replicas::{Group, set_all},
};
use crate::{
    kinds::{
        ControlPlaneInitialization, ControlPlaneTemplate, KubeadmControlPlane, KubeadmControlPlaneSpec,
        KubeadmControlPlaneStatus, TemplateMetadata, rollout,
    },
    names::CONTROL_PLANE_FINALIZER,
    observe::Observed,
    phases::AVAILABLE,
    plan::ClusterPlan,
    references::owner,
};

pub(super) const INITIALIZED: &str = "Initialized";

/// Whether the first control plane machine is up, according to the Cluster or to the workload cluster.
pub(super) fn is_initialized(observed: &Observed) -> bool {
    observed.cluster.is_control_plane_initialized()
        || observed
            .workload
            .as_ref()
            .is_some_and(|workload| workload.initialized)
}

/// The next actions for the object of the control plane, without its Machines.
pub(super) fn provide(plan: &ClusterPlan, observed: &Observed, now: Timestamp) -> Vec<Action> {
    let wanted = wanted(plan, observed);
    let Some(known) = &observed.control_plane else {
        return vec![Action::Owner(OwnerAction::CreateControlPlane(Box::new(wanted)))];
    };
    let mut actions = go(observed);
    if known.metadata.deletion_timestamp.is_none() {
        let changed = KubeadmControlPlane {
            spec: wanted.spec,
            ..known.clone()
        };
        if changed != *known {
            return vec![Action::Owner(OwnerAction::ChangeControlPlane(Box::new(changed)))];
        }
    }
    if !actions.contains(&Action::Owner(OwnerAction::ReleaseControlPlane)) {
        actions.extend(report(known, observed, now));
    }
    actions
}

/// What a deletion takes with it: the Machines.
pub(super) fn go(observed: &Observed) -> Vec<Action> {
    let is_going = |known: &&KubeadmControlPlane| known.metadata.deletion_timestamp.is_some();
    let Some(known) = observed.control_plane.as_ref().filter(is_going) else {
        return Vec::new();
    };
    let mut machines = machines(observed).peekable();
    if machines.peek().is_none()
        && known
            .finalizers()
            .iter()
            .any(|held| held == CONTROL_PLANE_FINALIZER)
    {
        return vec![Action::Owner(OwnerAction::ReleaseControlPlane)];
    }
    let machines = machines.filter(|machine| !machine::is_deleting(machine));
    machines
        .map(|machine| Action::DeleteMachine(machine.name_any()))
        .collect()
}

/// Its Machines.
pub(super) fn machines(observed: &Observed) -> impl Iterator<Item = &Machine> {
    observed
        .machines
        .iter()
        .filter(|machine| labels::is_control_plane(&machine.metadata))
}

/// Why a Machine is not up to date, as the lines of a message; none without a control plane.
pub(super) fn outdated(observed: &Observed, machine: &Machine) -> Option<Vec<String>> {
    let wants = &observed.control_plane.as_ref()?.spec.version;
    let has = &machine.spec.version;
    Some(
        (has != wants)
            .then(|| format!("* Version {has}, {wants} required"))
            .into_iter()
            .collect(),
    )
}

fn wanted(plan: &ClusterPlan, observed: &Observed) -> KubeadmControlPlane {
    let mut all = plan.labels.clone();
    all.extend(plan.control_plane_metadata.labels.clone());
    all.insert(labels::CLUSTER_NAME.to_owned(), plan.name.clone());
    all.insert(labels::TOPOLOGY_OWNED.to_owned(), String::new());
    let annotations = plan.control_plane_metadata.annotations.clone();
    KubeadmControlPlane {
        metadata: ObjectMeta {
            name: Some(plan.control_plane_name.clone()),
            namespace: Some(observed.namespace()),
            labels: Some(all.clone()),
            annotations: Some(annotations.clone()).filter(|given| !given.is_empty()),
            finalizers: Some(vec![CONTROL_PLANE_FINALIZER.to_owned()]),
            owner_references: Some(vec![owner(&observed.cluster)]),
            ..ObjectMeta::default()
        },
        spec: KubeadmControlPlaneSpec {
            replicas: i32::try_from(plan.control_plane).ok(),
            version: plan.version.clone(),
            machine_template: ControlPlaneTemplate {
                metadata: TemplateMetadata {
                    labels: all,
                    annotations,
                },
            },
            kubeadm_config_spec: kubeadm(plan.key_algorithm),
            rollout: rollout(&json!({ "maxSurge": 1 })),
        },
        status: None,
    }
}

/// The provider reads the algorithm, and makes keys of some algorithms itself.
fn kubeadm(algorithm: KeyAlgorithm) -> Value {
    json!({ "clusterConfiguration": { "encryptionAlgorithm": algorithm.as_str() } })
}

fn report(known: &KubeadmControlPlane, observed: &Observed, now: Timestamp) -> Option<Action> {
    let old = known.status.clone().unwrap_or_default();
    let group = Group {
        wanted: known.spec.replicas.unwrap_or(1),
        is_deleting: known.metadata.deletion_timestamp.is_some(),
        machines: machines(observed).collect(),
    };
    let is_initialized =
        old.initialization.control_plane_initialized == Some(true) || is_initialized(observed);
    let mut status = KubeadmControlPlaneStatus {
        observed_generation: known.metadata.generation,
        initialization: ControlPlaneInitialization {
            control_plane_initialized: is_initialized.then_some(true),
        },
        selector: format!(
            "{}={},{}",
            labels::CLUSTER_NAME,
            observed.name(),
            labels::CONTROL_PLANE
        ),
        counts: group.counts(),
        version: lowest_version(&group.machines),
        conditions: old.conditions.clone(),
    };
    let initialized = condition(INITIALIZED, is_initialized, "");
    conditions::set(&mut status.conditions, available(&group, is_initialized), now);
    conditions::set(&mut status.conditions, initialized, now);
    conditions::set(&mut status.conditions, not_paused(), now);
    conditions::set(&mut status.conditions, group.rolling_out(), now);
    set_all(&mut status.conditions, group.conditions(), now);
    (status != old).then(|| Action::Owner(OwnerAction::ReportControlPlane(Box::new(status))))
}

/// Available while enough machines for a quorum of etcd are. Etcd itself is not asked.
fn available(group: &Group<'_>, is_initialized: bool) -> Condition {
    if !is_initialized {
        return condition(AVAILABLE, false, "Control plane not yet initialized");
    }
    let members = group
        .machines
        .iter()
        .filter(|machine| machine::node(machine).is_some())
        .count();
    let healthy = group
        .machines
        .iter()
        .filter(|machine| machine::has_healthy_node(machine))
        .count();
    let quorum = members / 2 + 1;
    let message = format!("{healthy} of {members} machines are healthy, at least {quorum} are required");
    condition(AVAILABLE, healthy >= quorum, &message)
}

/// Whether a Machine may be removed without a loss of etcd's quorum, and without another one under way
/// (`controlplane/kubeadm/reconcilers/kubeadmcontrolplane/remediation.go`).
pub(super) fn may_remediate(observed: &Observed, machine: &Machine) -> Result<(), String> {
    let all: Vec<_> = machines(observed).collect();
    if all.len() <= 1 {
        return Err("KCP can't remediate if current replicas are less or equal to 1".to_owned());
    }
    if all.iter().any(|other| machine::is_deleting(other)) {
        return Err(
            "KCP waiting for control plane Machine deletion to complete before triggering remediation"
                .to_owned(),
        );
    }
    let others: Vec<_> = all
        .iter()
        .filter(|other| other.name_any() != machine.name_any())
        .collect();
    if others
        .iter()
        .any(|other| machine::node(other).is_none() && !machine::is_to_be_remediated(other))
    {
        return Err(
            "KCP waiting for control plane Machine provisioning to complete before triggering remediation"
                .to_owned(),
        );
    }
    let healthy = others
        .iter()
        .filter(|other| machine::has_healthy_node(other))
        .count();
    if healthy < others.len() / 2 + 1 {
        return Err(
            "KCP can't remediate this Machine because this could result in etcd loosing quorum".to_owned(),
        );
    }
    Ok(())
}

fn lowest_version(machines: &[&Machine]) -> String {
    let number = |version: &str| {
        let parts = version
            .trim_start_matches('v')
            .split(['.', '-', '+'])
            .map(str::parse::<u64>);
        parts.map_while(Result::ok).collect::<Vec<_>>()
    };
    let versions = machines.iter().map(|machine| machine.spec.version.clone());
    versions.min_by_key(|version| number(version)).unwrap_or_default()
}
