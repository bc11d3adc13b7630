//! MachineDeployments and their MachineSets: the parts of the topology controller and of core
//! (`core/reconcilers/machinedeployment`, `core/reconcilers/machineset`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt as _;
use nephele_api::{
    conditions,
    core::{Machine, MachineSpec},
    infrastructure::v1beta2::pool_machine::label_value,
    labels,
};
use nephele_controller::owner_of_kind;
use serde_json::json;

use super::{
    action::{Action, OwnerAction},
    condition::condition,
    paused::not_paused,
    replicas::{Group, count, set_all},
};
use crate::{
    kinds::{
        MachineDeployment, MachineDeploymentSpec, MachineSet, MachineSetSpec, MachineTemplate, ReplicaStatus,
        TemplateMetadata, rollout,
    },
    names::{self, DEPLOYMENT_FINALIZER, SET_FINALIZER, TEMPLATE_HASH_LABEL},
    observe::Observed,
    phases::AVAILABLE,
    plan::{ClusterPlan, DeploymentPlan},
    references::{owned, owner},
};

/// The next actions for the objects of all MachineDeployments, without their Machines.
pub(super) fn provide(plan: &ClusterPlan, observed: &Observed, now: Timestamp) -> Vec<Action> {
    let mut actions = Vec::new();
    for part in &plan.deployments {
        let wanted = wanted_deployment(plan, part, observed);
        match observed
            .deployments
            .iter()
            .find(|other| other.name_any() == part.name)
        {
            None => actions.push(Action::Owner(OwnerAction::CreateDeployment(Box::new(wanted)))),
            Some(known) if is_deleting(&known.metadata) => {}
            Some(known) => {
                let changed = MachineDeployment {
                    spec: wanted.spec,
                    ..known.clone()
                };
                if changed != *known {
                    actions.push(Action::Owner(OwnerAction::ChangeDeployment(Box::new(changed))));
                } else if current_set(part, plan, observed).is_none() {
                    let set = wanted_set(known, plan, observed);
                    actions.push(Action::Owner(OwnerAction::CreateSet(Box::new(set))));
                }
            }
        }
    }
    let is_planned = |known: &&MachineDeployment| {
        plan.deployments.iter().any(|part| part.name == known.name_any()) || is_deleting(&known.metadata)
    };
    let left = observed.deployments.iter().filter(|known| !is_planned(known));
    actions.extend(left.map(|known| Action::Owner(OwnerAction::DeleteDeployment(known.name_any()))));
    let is_old = |set: &&MachineSet| {
        let part = plan.deployments.iter().find(|part| is_set_of(set, &part.name));
        let is_current = part
            .and_then(|part| current_set(part, plan, observed))
            .is_some_and(|other| other == *set);
        !is_current && !is_deleting(&set.metadata) && machines_of(set, observed).next().is_none()
    };
    let old = observed.sets.iter().filter(is_old);
    actions.extend(old.map(|set| Action::Owner(OwnerAction::DeleteSet(set.name_any()))));
    actions.extend(go(observed));
    actions.extend(reports(plan, observed, now));
    actions
}

/// What a deletion takes with it: of a MachineDeployment its MachineSets, of a MachineSet its Machines.
pub(super) fn go(observed: &Observed) -> Vec<Action> {
    let mut actions = Vec::new();
    for deployment in observed
        .deployments
        .iter()
        .filter(|known| is_deleting(&known.metadata))
    {
        let name = deployment.name_any();
        let mut sets = observed
            .sets
            .iter()
            .filter(|set| is_set_of(set, &name))
            .peekable();
        if sets.peek().is_none()
            && deployment
                .finalizers()
                .iter()
                .any(|held| held == DEPLOYMENT_FINALIZER)
        {
            actions.push(Action::Owner(OwnerAction::ReleaseDeployment(name.clone())));
        }
        let sets = sets.filter(|set| !is_deleting(&set.metadata));
        actions.extend(sets.map(|set| Action::Owner(OwnerAction::DeleteSet(set.name_any()))));
    }
    for set in observed.sets.iter().filter(|set| is_deleting(&set.metadata)) {
        let mut machines = machines_of(set, observed).peekable();
        if machines.peek().is_none() && set.finalizers().iter().any(|held| held == SET_FINALIZER) {
            actions.push(Action::Owner(OwnerAction::ReleaseSet(set.name_any())));
        }
        let machines = machines.filter(|machine| !is_deleting(&machine.metadata));
        actions.extend(machines.map(|machine| Action::DeleteMachine(machine.name_any())));
    }
    actions
}

fn is_deleting(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

/// Whether a MachineSet is one of the MachineDeployment with this name.
fn is_set_of(set: &MachineSet, deployment: &str) -> bool {
    owner_of_kind(&set.metadata, nephele_api::core::GROUP, "MachineDeployment")
        .is_some_and(|owner| owner.name == deployment)
}

/// The Machines of a MachineSet.
fn machines_of<'a>(set: &MachineSet, observed: &'a Observed) -> impl Iterator<Item = &'a Machine> {
    let name = label_value(&set.name_any());
    let has =
        move |machine: &&Machine| labels::value(&machine.metadata, labels::SET_NAME) == Some(name.as_str());
    observed.machines.iter().filter(has)
}

/// The MachineSet with the template that a MachineDeployment has now.
pub(super) fn current_set<'a>(
    part: &DeploymentPlan,
    plan: &ClusterPlan,
    observed: &'a Observed,
) -> Option<&'a MachineSet> {
    let is_current = |set: &&MachineSet| {
        let spec = &set.spec.template.spec;
        is_set_of(set, &part.name)
            && !is_deleting(&set.metadata)
            && (&spec.version, &spec.failure_domain) == (&plan.version, &part.failure_domain)
    };
    observed.sets.iter().find(is_current)
}

/// Whether a Machine is of that MachineSet.
pub(super) fn is_of(machine: &Machine, set: &MachineSet) -> bool {
    labels::value(&machine.metadata, labels::SET_NAME) == Some(label_value(&set.name_any()).as_str())
}

/// Why a worker machine is not up to date, as the lines of a message; none when it is of no MachineDeployment.
pub(super) fn outdated(observed: &Observed, machine: &Machine) -> Option<Vec<String>> {
    let set = observed.sets.iter().find(|set| is_of(machine, set))?;
    let deployment = observed
        .deployments
        .iter()
        .find(|known| is_set_of(set, &known.name_any()))?;
    let has = &set.spec.template.spec;
    let wants = &deployment.spec.template.spec;
    let pairs = [
        ("Version", &has.version, &wants.version),
        ("Failure domain", &has.failure_domain, &wants.failure_domain),
    ];
    let differs = pairs.into_iter().filter(|(_, has, wants)| has != wants);
    Some(
        differs
            .map(|(what, has, wants)| format!("* {what} {has}, {wants} required"))
            .collect(),
    )
}

/// The labels of a MachineDeployment, and those by which it selects its Machines.
fn selected(plan: &ClusterPlan, part: &DeploymentPlan) -> BTreeMap<String, String> {
    [
        (labels::CLUSTER_NAME.to_owned(), plan.name.clone()),
        (labels::TOPOLOGY_OWNED.to_owned(), String::new()),
        (
            labels::TOPOLOGY_DEPLOYMENT_NAME.to_owned(),
            label_value(&part.topology_name),
        ),
    ]
    .into()
}

fn wanted_deployment(plan: &ClusterPlan, part: &DeploymentPlan, observed: &Observed) -> MachineDeployment {
    let match_labels = selected(plan, part);
    let mut all = plan.labels.clone();
    all.extend(part.metadata.labels.clone());
    all.extend(match_labels.clone());
    let template = MachineTemplate {
        metadata: TemplateMetadata {
            labels: all.clone(),
            annotations: part.metadata.annotations.clone(),
        },
        spec: MachineSpec {
            cluster_name: plan.name.clone(),
            version: plan.version.clone(),
            failure_domain: part.failure_domain.clone(),
            ..MachineSpec::default()
        },
    };
    MachineDeployment {
        metadata: ObjectMeta {
            name: Some(part.name.clone()),
            namespace: Some(observed.namespace()),
            labels: Some(all),
            annotations: Some(part.metadata.annotations.clone()).filter(|given| !given.is_empty()),
            finalizers: Some(vec![DEPLOYMENT_FINALIZER.to_owned()]),
            owner_references: Some(vec![owned(&observed.cluster)]),
            ..ObjectMeta::default()
        },
        spec: MachineDeploymentSpec {
            cluster_name: plan.name.clone(),
            replicas: i32::try_from(part.replicas).ok(),
            selector: LabelSelector {
                match_labels: Some(match_labels),
                ..LabelSelector::default()
            },
            template,
            rollout: rollout(&json!({ "maxSurge": 1, "maxUnavailable": 0 })),
        },
        status: None,
    }
}

/// The MachineSet for the template that a MachineDeployment has now.
fn wanted_set(deployment: &MachineDeployment, plan: &ClusterPlan, observed: &Observed) -> MachineSet {
    let taken: BTreeSet<String> = observed.sets.iter().map(MachineSet::name_any).collect();
    let spec = &deployment.spec.template.spec;
    let salt = format!("{}{}{}", plan.name_salt, spec.version, spec.failure_domain);
    let name = names::generated(&deployment.name_any(), &salt, &taken);
    let mut template = deployment.spec.template.clone();
    let hash = (TEMPLATE_HASH_LABEL.to_owned(), names::template_hash(&name, &salt));
    template.metadata.labels.extend([hash.clone()]);
    let mut match_labels = deployment.spec.selector.match_labels.clone().unwrap_or_default();
    match_labels.extend([hash]);
    let mut all = template.metadata.labels.clone();
    all.insert(
        labels::DEPLOYMENT_NAME.to_owned(),
        label_value(&deployment.name_any()),
    );
    MachineSet {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(observed.namespace()),
            labels: Some(all),
            annotations: deployment.metadata.annotations.clone(),
            finalizers: Some(vec![SET_FINALIZER.to_owned()]),
            owner_references: Some(vec![owner(deployment)]),
            ..ObjectMeta::default()
        },
        spec: MachineSetSpec {
            cluster_name: deployment.spec.cluster_name.clone(),
            replicas: Some(0),
            selector: LabelSelector {
                match_labels: Some(match_labels),
                ..LabelSelector::default()
            },
            template,
        },
        status: None,
    }
}

/// The new statuses of MachineSets and MachineDeployments.
fn reports(plan: &ClusterPlan, observed: &Observed, now: Timestamp) -> Vec<Action> {
    let sets = observed.sets.iter();
    let of_sets = sets.filter_map(|set| report_of_set(set, plan, observed, now));
    let deployments = observed.deployments.iter();
    let of_deployments = deployments.filter_map(|deployment| report_of_deployment(deployment, observed, now));
    of_sets.chain(of_deployments).map(Action::Owner).collect()
}

/// The new number of Machines of a MachineSet, or else its new status.
fn report_of_set(
    set: &MachineSet,
    plan: &ClusterPlan,
    observed: &Observed,
    now: Timestamp,
) -> Option<OwnerAction> {
    let machines: Vec<_> = machines_of(set, observed).collect();
    if machines.is_empty() && is_deleting(&set.metadata) {
        // It goes in this round.
        return None;
    }
    let wanted = wanted_machines(set, &machines, plan, observed);
    if !is_deleting(&set.metadata) && set.spec.replicas != Some(wanted) {
        let spec = MachineSetSpec {
            replicas: Some(wanted),
            ..set.spec.clone()
        };
        return Some(OwnerAction::ScaleSet(Box::new(MachineSet {
            spec,
            ..set.clone()
        })));
    }
    let group = Group {
        wanted,
        is_deleting: is_deleting(&set.metadata),
        machines,
    };
    let old = set.status.clone().unwrap_or_default();
    let mut status = status(&group, &old, set.spec.selector.match_labels.as_ref());
    status.observed_generation = set.metadata.generation;
    conditions::set(&mut status.conditions, not_paused(), now);
    set_all(&mut status.conditions, group.conditions(), now);
    (status != old).then(|| OwnerAction::ReportSet {
        set: set.name_any(),
        status: Box::new(status),
    })
}

/// How many of its Machines a MachineSet should have: those that stay. The current one grows at once, unless it grows one
/// by one in place of an old one.
fn wanted_machines(set: &MachineSet, machines: &[&Machine], plan: &ClusterPlan, observed: &Observed) -> i32 {
    let stays = |machine: &&&Machine| !is_deleting(&machine.metadata);
    let stay = count(machines.iter().filter(stays).count());
    let part = plan.deployments.iter().find(|part| is_set_of(set, &part.name));
    let is_current = part
        .and_then(|part| current_set(part, plan, observed))
        .is_some_and(|other| other == set);
    let others = part.map_or(0, |part| {
        let all = observed.machines.iter().filter(|machine| part.has(machine));
        count(all.filter(|machine| !is_deleting(&machine.metadata)).count()) - stay
    });
    match part.filter(|_| is_current && others == 0) {
        Some(part) => i32::try_from(part.replicas).unwrap_or(i32::MAX),
        None => stay,
    }
}

/// The new status of a MachineDeployment.
fn report_of_deployment(
    deployment: &MachineDeployment,
    observed: &Observed,
    now: Timestamp,
) -> Option<OwnerAction> {
    let name = deployment.name_any();
    let of: Vec<_> = observed.sets.iter().filter(|set| is_set_of(set, &name)).collect();
    if of.is_empty() && is_deleting(&deployment.metadata) {
        return None;
    }
    let machines: Vec<_> = of
        .into_iter()
        .flat_map(|set| machines_of(set, observed))
        .collect();
    let group = Group {
        wanted: deployment.spec.replicas.unwrap_or(1),
        is_deleting: is_deleting(&deployment.metadata),
        machines,
    };
    let old = deployment.status.clone().unwrap_or_default();
    let mut status = status(&group, &old, deployment.spec.selector.match_labels.as_ref());
    status.observed_generation = deployment.metadata.generation;
    let counts = &status.counts;
    let [current, available] = [counts.replicas, counts.available_replicas].map(Option::unwrap_or_default);
    status.phase = match current.cmp(&group.wanted) {
        _ if group.is_deleting => "ScalingDown",
        std::cmp::Ordering::Less => "ScalingUp",
        std::cmp::Ordering::Equal => "Running",
        std::cmp::Ordering::Greater => "ScalingDown",
    }
    .to_owned();
    let message = match group.is_deleting {
        true => "Deletion in progress".to_owned(),
        false => format!(
            "{available} available replicas, at least {} required",
            group.wanted
        ),
    };
    let is_available = condition(AVAILABLE, available >= group.wanted, &message);
    conditions::set(&mut status.conditions, is_available, now);
    conditions::set(&mut status.conditions, not_paused(), now);
    conditions::set(&mut status.conditions, group.rolling_out(), now);
    set_all(&mut status.conditions, group.conditions(), now);
    (status != old).then(|| OwnerAction::ReportDeployment {
        deployment: name,
        status: Box::new(status),
    })
}

fn status(
    group: &Group<'_>,
    old: &ReplicaStatus,
    match_labels: Option<&BTreeMap<String, String>>,
) -> ReplicaStatus {
    let pairs = match_labels
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name}={value}"));
    ReplicaStatus {
        selector: pairs.collect::<Vec<_>>().join(","),
        counts: group.counts(),
        ..old.clone()
    }
}
