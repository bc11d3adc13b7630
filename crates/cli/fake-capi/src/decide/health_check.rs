//! MachineHealthChecks: what they find about Machines, and their status
//! (`core/reconcilers/machinehealthcheck`). Remediation by a template of another provider stays out.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::Node,
    apimachinery::pkg::{
        apis::meta::v1::{Condition, LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use kube::{
    ResourceExt as _,
    core::{Selector, SelectorExt as _},
};
use nephele_api::{
    conditions::{self, types},
    core::Machine,
    infrastructure::v1beta2::pool_machine::label_value,
    labels,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    action::{Action, OwnerAction},
    machine_status as machine,
    paused::not_paused,
    replicas::count,
};
use crate::{
    kinds::{
        MachineHealthCheck, MachineHealthCheckSpec, MachineHealthCheckStatus, Trigger, UnhealthyCondition,
    },
    observe::Observed,
    plan::{ClusterPlan, HealthCheck},
    references::owned,
};

const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
const TOO_MANY_UNHEALTHY: &str = "TooManyUnhealthy";
/// A Machine with this annotation is unhealthy.
const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";
/// A Machine with this annotation is not looked at.
const SKIP_REMEDIATION: &str = "cluster.x-k8s.io/skip-remediation";
const PAUSED: &str = "cluster.x-k8s.io/paused";
/// How long a Node may take to appear if the health check does not say (`DefaultNodeStartupTimeoutSeconds`).
const NODE_STARTUP_TIMEOUT_SECONDS: i32 = 600;

/// What the health checks found about Machines, by name.
pub(super) type Findings = BTreeMap<String, Finding>;

/// What a health check found about a Machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) condition: Condition,
    /// Whether the owner should replace the Machine.
    pub(super) is_to_be_remediated: bool,
}

/// The objects of the health checks of a topology.
pub(super) fn provide(plan: &ClusterPlan, observed: &Observed) -> Vec<Action> {
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let of_control_plane = plan.control_plane_health_check.iter().map(|given| {
        (
            plan.control_plane_name.clone(),
            label(labels::CONTROL_PLANE, ""),
            given,
        )
    });
    let of_deployments = plan.deployments.iter().filter_map(|part| {
        let value = label_value(&part.topology_name);
        Some((
            part.name.clone(),
            (labels::TOPOLOGY_DEPLOYMENT_NAME.to_owned(), value),
            part.health_check.as_ref()?,
        ))
    });
    let of_topology = (labels::TOPOLOGY_OWNED.to_owned(), String::new());
    let mut actions = Vec::new();
    let mut planned = Vec::new();
    for (name, selected, given) in of_control_plane.chain(of_deployments) {
        let match_labels = BTreeMap::from([of_topology.clone(), selected]);
        let selector = LabelSelector {
            match_labels: Some(match_labels),
            ..LabelSelector::default()
        };
        let spec = wanted(plan, selector, given);
        match observed
            .health_checks
            .iter()
            .find(|check| check.name_any() == name)
        {
            Some(known) if known.spec != spec && is_of_topology(known) => {
                let check = MachineHealthCheck {
                    spec,
                    ..known.clone()
                };
                actions.push(Action::Owner(OwnerAction::ChangeHealthCheck(Box::new(check))));
            }
            Some(_) => {}
            None => {
                actions.push(Action::Owner(OwnerAction::CreateHealthCheck(Box::new(
                    MachineHealthCheck {
                        metadata: ObjectMeta {
                            name: Some(name.clone()),
                            namespace: Some(observed.namespace()),
                            labels: Some(
                                [label(labels::CLUSTER_NAME, &plan.name), of_topology.clone()].into(),
                            ),
                            owner_references: Some(vec![owned(&observed.cluster)]),
                            ..ObjectMeta::default()
                        },
                        spec,
                        status: None,
                    },
                ))));
            }
        }
        planned.push(name);
    }
    let left = observed.health_checks.iter();
    let left = left.filter(|check| is_of_topology(check) && !planned.contains(&check.name_any()));
    actions.extend(left.map(|check| Action::Owner(OwnerAction::DeleteHealthCheck(check.name_any()))));
    actions
}

fn is_of_topology(check: &MachineHealthCheck) -> bool {
    labels::value(&check.metadata, labels::TOPOLOGY_OWNED).is_some()
}

/// A part that cannot be read counts as absent.
fn wanted(plan: &ClusterPlan, selector: LabelSelector, given: &HealthCheck) -> MachineHealthCheckSpec {
    fn read<T: DeserializeOwned + Default>(given: &Value) -> T {
        T::deserialize(given).unwrap_or_default()
    }
    let mut spec = MachineHealthCheckSpec {
        cluster_name: plan.name.clone(),
        selector,
        checks: read(&given.checks),
        remediation: read(&given.remediation),
    };
    spec.checks
        .node_startup_timeout_seconds
        .get_or_insert(NODE_STARTUP_TIMEOUT_SECONDS);
    spec
}

/// Looks at all Machines that health checks select. Returns what was found, and the writes to the health checks.
pub(super) fn look(observed: &Observed, now: Timestamp) -> (Findings, Vec<Action>) {
    let mut findings = Findings::new();
    let mut actions = Vec::new();
    for check in &observed.health_checks {
        let adopted = adopted(check, observed);
        if adopted != *check {
            actions.push(Action::Owner(OwnerAction::ChangeHealthCheck(Box::new(adopted))));
            continue;
        }
        let old = check.status.clone().unwrap_or_default();
        let mut status = old.clone();
        look_with(check, observed, now, &mut status, &mut findings);
        if status != old {
            let check = check.name_any();
            actions.push(Action::Owner(OwnerAction::ReportHealthCheck {
                check,
                status: Box::new(status),
            }));
        }
    }
    (findings, actions)
}

/// With the label and the owner that core adds.
fn adopted(check: &MachineHealthCheck, observed: &Observed) -> MachineHealthCheck {
    let mut adopted = check.clone();
    let uid = observed.cluster.uid();
    if !check
        .owner_references()
        .iter()
        .any(|known| Some(&known.uid) == uid.as_ref())
    {
        adopted.owner_references_mut().push(owned(&observed.cluster));
    }
    adopted
        .labels_mut()
        .insert(labels::CLUSTER_NAME.to_owned(), observed.name());
    adopted
}

fn look_with(
    check: &MachineHealthCheck,
    observed: &Observed,
    now: Timestamp,
    status: &mut MachineHealthCheckStatus,
    findings: &mut Findings,
) {
    // A selector that cannot be read selects nothing.
    let selector = Selector::try_from(check.spec.selector.clone()).ok();
    let has = |machine: &&Machine, annotation: &str| machine.annotations().contains_key(annotation);
    let targets: Vec<_> = observed
        .machines
        .iter()
        .filter(|machine| {
            selector
                .as_ref()
                .is_some_and(|selector| selector.matches(machine.labels()))
        })
        .filter(|machine| !has(machine, SKIP_REMEDIATION) && !has(machine, PAUSED))
        .collect();
    let mut healthy = Vec::new();
    let mut unhealthy = Vec::new();
    for machine in &targets {
        match health(check, observed, machine, now) {
            Health::Healthy => healthy.push(*machine),
            Health::Unhealthy { reason, message } => unhealthy.push((*machine, reason, message)),
            Health::Waiting => {}
        }
    }
    let expected = count(targets.len());
    let not_healthy = expected - count(healthy.len());
    let allowed = allowed(&check.spec.remediation.trigger_if, expected, not_healthy);
    status.observed_generation = check.metadata.generation;
    status.expected_machines = Some(expected);
    status.current_healthy = Some(count(healthy.len()));
    status.targets = targets.iter().map(|machine| machine.name_any()).collect();
    status.targets.sort();
    let condition = match &allowed {
        Ok(_) => conditions::condition(REMEDIATION_ALLOWED, conditions::TRUE, REMEDIATION_ALLOWED, ""),
        Err(limit) => {
            let message = format!(
                "Remediation is not allowed, the number of not started or unhealthy machines {limit} (total: {expected}, unhealthy: {})",
                unhealthy.len()
            );
            conditions::condition(
                REMEDIATION_ALLOWED,
                conditions::FALSE,
                TOO_MANY_UNHEALTHY,
                message,
            )
        }
    };
    status.remediations_allowed = Some(*allowed.as_ref().unwrap_or(&0));
    conditions::set(&mut status.conditions, condition, now);
    conditions::set(&mut status.conditions, not_paused(), now);
    for machine in healthy {
        let condition = conditions::condition(
            machine::HEALTH_CHECK_SUCCEEDED,
            conditions::TRUE,
            machine::HEALTH_CHECK_SUCCEEDED,
            "",
        );
        // Another health check may have found more.
        findings.entry(machine.name_any()).or_insert(Finding {
            condition,
            is_to_be_remediated: false,
        });
    }
    for (machine, reason, message) in unhealthy {
        let condition = conditions::condition(
            machine::HEALTH_CHECK_SUCCEEDED,
            conditions::FALSE,
            reason,
            format!("Health check failed:\n{message}"),
        );
        let finding = Finding {
            condition,
            is_to_be_remediated: allowed.is_ok(),
        };
        findings.insert(machine.name_any(), finding);
    }
}

/// What a health check says about a Machine.
enum Health {
    Healthy,
    Unhealthy {
        reason: &'static str,
        message: String,
    },
    /// Nothing is wrong, but something may become so, or there is no Node yet.
    Waiting,
}

fn health(check: &MachineHealthCheck, observed: &Observed, machine: &Machine, now: Timestamp) -> Health {
    if machine.annotations().contains_key(REMEDIATE) {
        let message = format!("  * marked for remediation with the annotation {REMEDIATE}");
        return Health::Unhealthy {
            reason: "HasRemediateAnnotation",
            message,
        };
    }
    let is_initialized = observed.cluster.is_control_plane_initialized();
    if !observed.cluster.is_infrastructure_provisioned()
        || (!is_initialized && !labels::is_control_plane(&machine.metadata))
    {
        return Health::Waiting;
    }
    let checks = &check.spec.checks;
    let list = machine
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let mut signs = Signs::default();
    signs.look_at_machine(list, &checks.unhealthy_machine_conditions, now);
    let is_of_machine = !signs.messages.is_empty();
    let mut reason = "UnhealthyNode";
    match node(observed, machine) {
        Found::Node(node) => signs.look_at_node(node, &checks.unhealthy_node_conditions, now),
        Found::Deleted(name) => {
            signs.messages.push(format!("  * Node {name} has been deleted"));
            reason = "NodeDeleted";
        }
        Found::Nothing if machine::node(machine).is_none() => {
            let timeout = checks
                .node_startup_timeout_seconds
                .unwrap_or(NODE_STARTUP_TIMEOUT_SECONDS);
            signs.may_come = true;
            if timeout > 0 && now > started(observed, machine) + SignedDuration::from_secs(timeout.into()) {
                signs
                    .messages
                    .push(format!("  * Node failed to report startup in {timeout}s"));
                reason = "NodeStartupTimeout";
            }
        }
        // The cluster does not answer: what was found before stays.
        Found::Nothing => return known_health(list),
    }
    let waits = signs.may_come || machine::is_deleting(machine);
    match (signs.messages.is_empty(), waits) {
        (true, true) => Health::Waiting,
        (true, false) => Health::Healthy,
        (false, _) => Health::Unhealthy {
            reason: if is_of_machine { "UnhealthyMachine" } else { reason },
            message: signs.messages.join("\n"),
        },
    }
}

/// The signs that a Machine is unhealthy.
#[derive(Default)]
struct Signs {
    messages: Vec<String>,
    /// Whether there may be one later.
    may_come: bool,
}

impl Signs {
    fn look_at_machine(&mut self, list: &[Condition], unhealthy: &[UnhealthyCondition], now: Timestamp) {
        for unhealthy in unhealthy {
            let known = conditions::find(list, &unhealthy.kind);
            let Some(known) = known.filter(|known| known.status == unhealthy.status) else {
                continue;
            };
            let since = known.last_transition_time.0;
            self.note("Machine", unhealthy, &known.reason, since, now);
        }
    }

    fn look_at_node(&mut self, node: &Node, unhealthy: &[UnhealthyCondition], now: Timestamp) {
        let status = node.status.as_ref();
        let list = status.and_then(|status| status.conditions.as_deref());
        for unhealthy in unhealthy {
            let mut list = list.unwrap_or_default().iter();
            let known = list.find(|known| known.type_ == unhealthy.kind);
            let Some(known) = known.filter(|known| known.status == unhealthy.status) else {
                continue;
            };
            let since = known
                .last_transition_time
                .as_ref()
                .map_or(Timestamp::UNIX_EPOCH, |time| time.0);
            let reason = known.reason.as_deref().unwrap_or_default();
            self.note("Node", unhealthy, reason, since, now);
        }
    }

    /// A condition that should not be is a sign once it has lasted.
    fn note(
        &mut self,
        of: &str,
        unhealthy: &UnhealthyCondition,
        reason: &str,
        since: Timestamp,
        now: Timestamp,
    ) {
        match lasts(unhealthy, since, now) {
            true => self.messages.push(said(of, unhealthy, reason)),
            false => self.may_come = true,
        }
    }
}

/// What the last look found, when the Node cannot be read.
fn known_health(list: &[Condition]) -> Health {
    match conditions::is_true(list, machine::HEALTH_CHECK_SUCCEEDED) {
        true => Health::Healthy,
        false => Health::Waiting,
    }
}

enum Found<'a> {
    Node(&'a Node),
    Deleted(&'a str),
    Nothing,
}

fn node<'a>(observed: &'a Observed, machine: &'a Machine) -> Found<'a> {
    let (Some(name), Some(workload)) = (machine::node(machine), &observed.workload) else {
        return Found::Nothing;
    };
    let node = workload.nodes.iter().find(|node| node.name_any() == name);
    node.map_or(Found::Deleted(name), Found::Node)
}

/// From when the time counts in which the Node should appear.
fn started(observed: &Observed, machine: &Machine) -> Timestamp {
    let of_cluster = observed
        .cluster
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice());
    let of_machine = machine.status.as_ref().map(|status| status.conditions.as_slice());
    let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
    [
        created,
        conditions::true_since(of_cluster.unwrap_or_default(), types::CONTROL_PLANE_INITIALIZED),
        conditions::true_since(of_cluster.unwrap_or_default(), "InfrastructureReady"),
        conditions::true_since(of_machine.unwrap_or_default(), "InfrastructureReady"),
    ]
    .into_iter()
    .flatten()
    .max()
    .unwrap_or(Timestamp::UNIX_EPOCH)
}

fn lasts(unhealthy: &UnhealthyCondition, since: Timestamp, now: Timestamp) -> bool {
    let timeout = SignedDuration::from_secs(unhealthy.timeout_seconds.unwrap_or_default().into());
    now.duration_since(since) > timeout
}

fn said(of: &str, unhealthy: &UnhealthyCondition, reason: &str) -> String {
    let UnhealthyCondition {
        kind,
        status,
        timeout_seconds,
    } = unhealthy;
    let timeout = timeout_seconds.unwrap_or_default();
    format!(
        "  * Condition {kind} on {of} is reporting status {status} with reason {reason} for more than {timeout}s"
    )
}

/// How many more Machines may be unhealthy; or the limit that does not allow any remediation.
fn allowed(trigger: &Trigger, expected: i32, unhealthy: i32) -> Result<i32, String> {
    if !trigger.unhealthy_in_range.is_empty() {
        let range = &trigger.unhealthy_in_range;
        let inner = range.strip_prefix('[').and_then(|range| range.strip_suffix(']'));
        let limits = inner.and_then(|range| range.split_once('-'));
        let limits = limits.and_then(|(from, to)| Some((from.parse::<i32>().ok()?, to.parse::<i32>().ok()?)));
        return match limits {
            Some((from, to)) if from <= unhealthy && unhealthy <= to => Ok(to - unhealthy),
            _ => Err(format!("does not fall within the range {range}")),
        };
    }
    let limit = trigger.unhealthy_less_than_or_equal_to.clone();
    let (number, text) = match limit.unwrap_or_else(|| IntOrString::String("100%".to_owned())) {
        IntOrString::Int(number) => (Some(number), number.to_string()),
        IntOrString::String(text) => {
            let percent = text
                .strip_suffix('%')
                .and_then(|percent| percent.parse::<i64>().ok());
            // Rounded down, as in core.
            let number = percent.map(|percent| i64::from(expected).saturating_mul(percent) / 100);
            (number.and_then(|number| i32::try_from(number).ok()), text)
        }
    };
    match number {
        Some(number) if unhealthy <= number => Ok(number - unhealthy),
        _ => Err(format!("exceeds maxUnhealthy {text}")),
    }
}
