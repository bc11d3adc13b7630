//! A Machine that is not being deleted: the parts of core and of the bootstrap provider.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Node, NodeCondition},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::ResourceExt as _;
use nephele_api::{
    conditions::{self, types},
    core::{Machine, MachineInitialization, MachineStatus, NodeReference},
    infrastructure::v1beta2::InMemoryMachine,
    labels,
};

use super::{
    action::Action,
    cluster::has_certificates,
    condition::{condition, mirrored},
    control_plane, deployment,
    health_check::Finding,
    machine_status::{HEALTH_CHECK_SUCCEEDED, NODE_HEALTHY, NODE_NOT_READY, NODE_READY, OWNER_REMEDIATED},
    paused::not_paused,
    pool,
    replicas::UP_TO_DATE,
};
use crate::{
    observe::Observed,
    phases::{AVAILABLE, RUNNING},
    workload,
};

const UPDATING: &str = "Updating";
const BOOTSTRAP_CONFIG_READY: &str = "BootstrapConfigReady";
/// For how long a cluster may not answer before its Nodes count as unknown (`--remote-conditions-grace-period`).
const CONDITIONS_GRACE: SignedDuration = SignedDuration::from_mins(5);

/// The next actions for a Machine.
pub(super) fn provide(
    observed: &Observed,
    machine: &Machine,
    finding: Option<&Finding>,
    now: Timestamp,
) -> Vec<Action> {
    let name = machine.name_any();
    let mut actions = Vec::new();
    let infrastructure = observed.infrastructure_of(machine);
    // The InMemoryMachinePool creates its machines itself, and they boot with the pool's bootstrap data.
    let is_alone = !pool::is_member(machine);
    if infrastructure.is_none() && is_alone {
        actions.push(Action::CreateInfrastructureMachine(name.clone()));
    }
    if is_alone && machine.data_secret_name().is_none() && may_boot(observed, machine) {
        actions.push(Action::CreateBootstrapData(name.clone()));
    }
    if machine.spec.provider_id.is_empty()
        && let Some(infrastructure) = infrastructure.filter(|infrastructure| infrastructure.is_provisioned())
        && !infrastructure.spec.provider_id.is_empty()
    {
        let provider_id = infrastructure.spec.provider_id.clone();
        actions.push(Action::NameProvider {
            machine: name.clone(),
            provider_id,
        });
    }
    let node = found_node(observed, machine);
    if let Some(node) = node
        && !workload::is_marked(node, &observed.cluster, machine)
    {
        actions.push(Action::AdoptNode {
            machine: name.clone(),
            node: node.name_any(),
        });
    }
    let old = machine.status.clone().unwrap_or_default();
    let status = status(
        &Seen {
            observed,
            machine,
            infrastructure,
            node,
            finding,
        },
        old.clone(),
        now,
    );
    if status != old {
        actions.push(Action::ReportMachine {
            machine: name,
            status,
        });
    }
    actions
}

/// Whether a Machine may boot. The first control plane machine boots with `kubeadm init` as soon as the certificates
/// exist; all others join, and so wait for it.
fn may_boot(observed: &Observed, machine: &Machine) -> bool {
    let is_first = || {
        let mut control_plane = observed
            .machines
            .iter()
            .filter(|other| labels::is_control_plane(&other.metadata));
        labels::is_control_plane(&machine.metadata)
            && control_plane
                .all(|other| other.name_any() == machine.name_any() || other.data_secret_name().is_none())
    };
    observed.cluster.is_infrastructure_provisioned()
        && has_certificates(observed)
        && (observed.cluster.is_control_plane_initialized() || is_first())
}

/// The Node with the Machine's provider ID.
fn found_node<'a>(observed: &'a Observed, machine: &Machine) -> Option<&'a Node> {
    let wanted = Some(machine.spec.provider_id.as_str()).filter(|id| !id.is_empty())?;
    let provider_id = |node: &Node| node.spec.as_ref()?.provider_id.clone();
    observed
        .workload
        .as_ref()?
        .nodes
        .iter()
        .find(|node| provider_id(node).as_deref() == Some(wanted))
}

/// Everything that the status of a Machine follows from.
struct Seen<'a> {
    observed: &'a Observed,
    machine: &'a Machine,
    infrastructure: Option<&'a InMemoryMachine>,
    node: Option<&'a Node>,
    finding: Option<&'a Finding>,
}

fn status(seen: &Seen<'_>, old: MachineStatus, now: Timestamp) -> MachineStatus {
    let Seen {
        observed,
        machine,
        infrastructure,
        node,
        finding,
    } = *seen;
    let mut status = old;
    let reported = infrastructure.and_then(|infrastructure| infrastructure.status.as_ref());
    let bootstrapped = machine.data_secret_name().is_some();
    let provisioned =
        infrastructure.is_some_and(InMemoryMachine::is_provisioned) && !machine.spec.provider_id.is_empty();
    status.initialization = Some(MachineInitialization {
        infrastructure_provisioned: provisioned.then_some(true),
        bootstrap_data_secret_created: bootstrapped.then_some(true),
    });
    if let Some(reported) = reported {
        status.addresses.clone_from(&reported.addresses);
        status.failure_domain.clone_from(&reported.failure_domain);
    }
    if let Some(node) = node {
        status.node_ref = Some(NodeReference {
            name: node.name_any(),
        });
    }
    let ready = reported.and_then(|reported| conditions::find(&reported.conditions, types::READY));
    let infrastructure_ready = ready.is_some_and(|ready| ready.status == conditions::TRUE);
    let message = ready.map_or("Waiting for the infrastructure", |ready| ready.message.as_str());
    let mut new = vec![
        condition(types::DELETING, false, ""),
        condition(UPDATING, false, ""),
        not_paused(),
        mirrored(
            BOOTSTRAP_CONFIG_READY,
            types::READY,
            bootstrapped,
            "Waiting for the bootstrap data",
        ),
        mirrored("InfrastructureReady", types::READY, infrastructure_ready, message),
    ];
    new.extend(of_node(observed, machine, node, status.node_ref.as_ref(), now));
    let outdated = match labels::is_control_plane(&machine.metadata) {
        true => control_plane::outdated(observed, machine),
        false => deployment::outdated(observed, machine),
    };
    new.extend(outdated.map(|lines| condition(UP_TO_DATE, lines.is_empty(), &lines.join("\n"))));
    if let Some(Finding {
        condition,
        is_to_be_remediated,
    }) = finding
    {
        new.push(condition.clone());
        if *is_to_be_remediated {
            let is_waiting = conditions::find(&status.conditions, OWNER_REMEDIATED)
                .is_some_and(|known| known.status == conditions::FALSE);
            if !is_waiting {
                new.push(conditions::condition(
                    OWNER_REMEDIATED,
                    conditions::FALSE,
                    "WaitingForRemediation",
                    "Waiting for remediation",
                ));
            }
        }
    }
    for condition in new {
        conditions::set(&mut status.conditions, condition, now);
    }
    summarize(&mut status, now);
    status.phase = match (bootstrapped, provisioned, &status.node_ref) {
        (_, true, Some(_)) => RUNNING,
        (_, true, None) => "Provisioned",
        (true, false, _) => "Provisioning",
        (false, false, _) => "Pending",
    }
    .to_owned();
    status
}

/// Sets the conditions that follow from the others.
fn summarize(status: &mut MachineStatus, now: Timestamp) {
    let parts = [
        BOOTSTRAP_CONFIG_READY,
        "InfrastructureReady",
        NODE_HEALTHY,
        HEALTH_CHECK_SUCCEEDED,
    ];
    let missing: Vec<_> = parts
        .into_iter()
        .filter_map(|kind| conditions::find(&status.conditions, kind))
        .filter(|part| part.status != conditions::TRUE)
        .map(|part| format!("* {}: {}", part.type_, part.message.replace('\n', "\n  ")))
        .collect();
    let is_ready = missing.is_empty();
    let ready = condition(types::READY, is_ready, &missing.join("\n"));
    let available = match is_ready {
        true => condition(AVAILABLE, true, ""),
        false => conditions::condition(AVAILABLE, conditions::FALSE, "NotReady", ""),
    };
    conditions::set(&mut status.conditions, ready, now);
    conditions::set(&mut status.conditions, available, now);
}

/// The conditions about the Node (`core/reconcilers/machine/machine_controller_status.go`). None when the cluster does not
/// answer, but only for a while: then they stay as they are.
fn of_node(
    observed: &Observed,
    machine: &Machine,
    node: Option<&Node>,
    known: Option<&NodeReference>,
    now: Timestamp,
) -> Vec<Condition> {
    let both = |status: &str, reason: &str, message: &str| {
        let kinds = [NODE_READY, NODE_HEALTHY];
        kinds
            .map(|kind| conditions::condition(kind, status, reason, message))
            .to_vec()
    };
    if let Some(node) = node {
        return vec![node_ready(node), node_healthy(node)];
    }
    if let Some(known) = known {
        if observed.workload.is_some() {
            let message = format!(
                "Node {} has been deleted while the Machine still exists",
                known.name
            );
            return both(conditions::FALSE, "NodeDeleted", &message);
        }
        return match observed.probe.last_success {
            Some(last) if now.duration_since(last) > CONDITIONS_GRACE => both(
                conditions::UNKNOWN,
                "ConnectionDown",
                &format!("Last successful probe at {last:.0}"),
            ),
            _ => Vec::new(),
        };
    }
    let message = match machine.spec.provider_id.as_str() {
        "" => "Waiting for InMemoryMachine to report spec.providerID".to_owned(),
        id => format!("Waiting for a Node with spec.providerID {id} to exist"),
    };
    both(conditions::UNKNOWN, "InspectionFailed", &message)
}

fn node_condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    let known = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    known.iter().find(|condition| condition.type_ == kind)
}

fn node_ready(node: &Node) -> Condition {
    let Some(ready) = node_condition(node, types::READY) else {
        let message = "* Node.Ready: Condition not yet reported";
        return conditions::condition(NODE_READY, conditions::UNKNOWN, "NodeReadyUnknown", message);
    };
    let (reason, status) = match ready.status.as_str() {
        conditions::TRUE => (NODE_READY, conditions::TRUE),
        conditions::FALSE => (NODE_NOT_READY, conditions::FALSE),
        _ => ("NodeReadyUnknown", conditions::UNKNOWN),
    };
    let message = ready.message.as_deref().filter(|_| status != conditions::TRUE);
    let message = message.map(|message| format!("* Node.Ready: {message}"));
    conditions::condition(NODE_READY, status, reason, message.unwrap_or_default())
}

/// The summary of what the kubelet reports.
fn node_healthy(node: &Node) -> Condition {
    let mut is_false = false;
    let mut messages = Vec::new();
    for (kind, good) in [
        (types::READY, conditions::TRUE),
        ("MemoryPressure", conditions::FALSE),
        ("DiskPressure", conditions::FALSE),
        ("PIDPressure", conditions::FALSE),
    ] {
        let Some(known) = node_condition(node, kind) else {
            messages.push(format!("* Node.{kind}: Condition not yet reported"));
            continue;
        };
        if known.status != good {
            is_false |= known.status != conditions::UNKNOWN;
            let message = known.message.clone().filter(|message| !message.is_empty());
            let message = message.unwrap_or_else(|| format!("Condition is {}", known.status));
            messages.push(format!("* Node.{kind}: {message}"));
        }
    }
    let (status, reason) = match (messages.is_empty(), is_false) {
        (true, _) => (conditions::TRUE, NODE_HEALTHY),
        (false, true) => (conditions::FALSE, "NodeNotHealthy"),
        (false, false) => (conditions::UNKNOWN, "NodeHealthyUnknown"),
    };
    conditions::condition(NODE_HEALTHY, status, reason, messages.join("\n"))
}
