//! What the owner of a group of Machines reports about them (`core/reconcilers/machinedeployment/machinedeployment_status.go`
//! and its neighbours for MachineSets and control planes).

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use nephele_api::{
    conditions::{self, types},
    core::Machine,
};

use super::machine_status as machine;
use crate::{kinds::Counts, phases::AVAILABLE};

pub(super) const UP_TO_DATE: &str = "UpToDate";
pub(super) const ROLLING_OUT: &str = "RollingOut";
pub(super) const SCALING_UP: &str = "ScalingUp";
pub(super) const SCALING_DOWN: &str = "ScalingDown";
pub(super) const REMEDIATING: &str = "Remediating";
/// How many Machines a message names.
const NAMED_MAX: usize = 3;

/// The Machines of an owner, those that are being deleted as well, and their wanted number.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    pub(super) wanted: i32,
    pub(super) is_deleting: bool,
    pub(super) machines: Vec<&'a Machine>,
}

impl<'a> Group<'a> {
    fn number(&self, kind: &str) -> i32 {
        count(
            self.machines
                .iter()
                .filter(|machine| machine::holds(machine, kind))
                .count(),
        )
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            replicas: Some(count(self.machines.len())),
            ready_replicas: Some(self.number(types::READY)),
            available_replicas: Some(self.number(AVAILABLE)),
            up_to_date_replicas: Some(self.number(UP_TO_DATE)),
        }
    }

    /// The conditions that MachineDeployments, MachineSets and control planes have in common.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        let current = count(self.machines.len());
        let wanted = if self.is_deleting { 0 } else { self.wanted };
        let scaling = |direction: &str| format!("Scaling {direction} from {current} to {wanted} replicas");
        let deleting = format!("Deleting {current} Machines");
        vec![
            holds(SCALING_UP, current < wanted, scaling("up")),
            holds(SCALING_DOWN, current > wanted, scaling("down")),
            self.all("MachinesReady", types::READY, "Ready"),
            self.all("MachinesUpToDate", UP_TO_DATE, UP_TO_DATE),
            self.remediating(),
            holds(
                types::DELETING,
                self.is_deleting,
                if current > 0 { deleting } else { String::new() },
            ),
        ]
    }

    /// Whether Machines are of an earlier template.
    pub(super) fn rolling_out(&self) -> Condition {
        let old: Vec<&Condition> = self
            .machines
            .iter()
            .filter_map(|machine| not(machine, UP_TO_DATE))
            .collect();
        let reasons: BTreeSet<&str> = old
            .iter()
            .flat_map(|condition| condition.message.lines())
            .collect();
        let first = format!("Rolling out {} not up-to-date replicas", old.len());
        let lines: Vec<&str> = [first.as_str()].into_iter().chain(reasons).collect();
        holds(ROLLING_OUT, !old.is_empty(), lines.join("\n"))
    }

    /// A condition that says whether another one holds for all Machines.
    pub(super) fn all(&self, kind: &str, of_machines: &str, reason: &str) -> Condition {
        if self.machines.is_empty() {
            return conditions::condition(kind, conditions::TRUE, "NoReplicas", "");
        }
        let lacks = |machine: &&&'a Machine| !machine::holds(machine, of_machines);
        let lacking: Vec<_> = self.machines.iter().filter(lacks).copied().collect();
        if lacking.is_empty() {
            return conditions::condition(kind, conditions::TRUE, reason, "");
        }
        conditions::condition(
            kind,
            conditions::FALSE,
            &format!("Not{reason}"),
            named(&lacking, of_machines),
        )
    }

    /// Whether unhealthy Machines are replaced.
    fn remediating(&self) -> Condition {
        let waiting: Vec<_> = self
            .machines
            .iter()
            .filter(|machine| machine::is_to_be_remediated(machine))
            .copied()
            .collect();
        holds(
            REMEDIATING,
            !waiting.is_empty(),
            named(&waiting, machine::OWNER_REMEDIATED),
        )
    }
}

/// A number as the fields of Kubernetes have it.
pub(super) fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The Machines by name, and what the first one says.
fn named(machines: &[&Machine], kind: &str) -> String {
    let mut names: Vec<_> = machines.iter().map(|machine| machine.name_any()).collect();
    names.sort();
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let mut text = format!(
        "* Machine{} {}",
        if names.len() > 1 { "s" } else { "" },
        names.join(", ")
    );
    if more > 0 {
        text.push_str(&format!(", ... ({more} more)"));
    }
    let messages = machines.iter().filter_map(|machine| not(machine, kind));
    let first = messages
        .map(|condition| condition.message.as_str())
        .find(|message| !message.is_empty());
    match first {
        Some(message) => format!("{text}:\n{}", indented(message)),
        None => text,
    }
}

fn indented(message: &str) -> String {
    message
        .lines()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The condition of a Machine, if it says that something does not hold.
fn not<'a>(machine: &'a Machine, kind: &str) -> Option<&'a Condition> {
    let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice());
    conditions::find(conditions.unwrap_or_default(), kind)
        .filter(|condition| condition.status != conditions::TRUE)
}

/// A condition that is true while something is under way; then it has a message.
pub(super) fn holds(kind: &str, is_true: bool, message: String) -> Condition {
    match is_true {
        true => conditions::condition(kind, conditions::TRUE, kind, message),
        false => conditions::condition(kind, conditions::FALSE, &format!("Not{kind}"), ""),
    }
}

/// Sets conditions.
pub(super) fn set_all(list: &mut Vec<Condition>, new: impl IntoIterator<Item = Condition>, now: Timestamp) {
    for condition in new {
        conditions::set(list, condition, now);
    }
}
