//! What to do about a machine. Pure.

use std::time::Duration;

use nephele_api::conditions::{self, reasons, types};
use nephele_api::finalizers;
use nephele_api::infrastructure::v1beta2::{ClaimedAddress, InMemoryMachine};
use nephele_cloud::{MachineId, MachineSpec, Role};
use nephele_kit::Outcome;

use super::validate::{Mistake, Simulated, Validated, Wanted};
use crate::claims::{self, Claim, Standing, Unmet};
use crate::context::is_held;
use crate::hooks::Answer;
use crate::offer;

/// Longest name of a control plane machine: clients of its etcd member ask TLS for `etcd-<name>`, one DNS label of at
/// most 63 characters (RFC 1035, section 2.3.4).
const CONTROL_PLANE_NAME_MAX: usize = 58;

/// What to do.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// Nothing.
    Leave(Outcome),
    /// Say that it is paused, for this reason, and have the machine that had begun before go on.
    Pause { message: String, kept: Option<Box<MachineSpec>> },
    /// Say that it is not paused any more.
    Unpause,
    /// Say what it waits for, and make the claims that are missing.
    Wait { waiting: Waiting, role: Role, cluster: String, missing: Vec<Claim> },
    /// Find out whether it may begin, and plan again with the answer.
    Ask(Box<Wanted>),
    /// Bring it about, with these addresses from pools.
    Provide { spec: Box<MachineSpec>, claimed: Vec<ClaimedAddress> },
    /// Have its instance vanish, as somebody wants, and say so; `noted` tells whether the object says so already.
    Terminate { id: MachineId, role: Role, noted: bool },
    /// Let it go.
    Remove(Option<MachineId>),
}

/// What a machine waits for before it boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// A name that fits; it has this many characters.
    ShorterName(usize),
    /// That the user mends something.
    Correction(Mistake),
    ClusterInfrastructure,
    ControlPlaneInitialized,
    BootstrapData,
    /// Addresses from pools.
    Addresses(Unmet),
    /// Somebody who makes it possible to claim addresses.
    Ipam,
    /// The simulated cluster, after a restart.
    SimulatedCluster,
    Authorities,
    /// Authorities that can be used; the message says what is wrong with those that are there.
    ValidAuthorities(String),
    /// Somebody who has a say in it, and is asked again then.
    Hook {
        after: Duration,
        message: String,
    },
    /// Somebody who has a say in it, and could not be asked or failed; the message says how.
    FailedHook(String),
}

impl Waiting {
    /// The reason of the condition: one of ours, or what an IPAM provider says.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Addresses(unmet) => unmet.reason(),
            other => other.own_reason(),
        }
    }

    /// The reason as far as it is one of ours.
    fn own_reason(&self) -> &'static str {
        match self {
            Self::ShorterName(_) => reasons::NAME_TOO_LONG,
            Self::Correction(Mistake::Behaviour(_)) => reasons::INVALID_CONFIGURATION,
            Self::Correction(Mistake::FailureDomain { .. }) => reasons::UNKNOWN_FAILURE_DOMAIN,
            Self::Correction(Mistake::Unknown(unknown)) => unknown.category(),
            Self::ClusterInfrastructure | Self::SimulatedCluster => {
                reasons::WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY
            }
            Self::ControlPlaneInitialized => reasons::WAITING_FOR_CONTROL_PLANE_INITIALIZED,
            Self::BootstrapData => reasons::WAITING_FOR_BOOTSTRAP_DATA,
            Self::Addresses(_) => reasons::WAITING_FOR_IP_ADDRESS,
            Self::Ipam => reasons::IPAM_NOT_INSTALLED,
            Self::Authorities => reasons::WAITING_FOR_CERTIFICATE_AUTHORITIES,
            Self::ValidAuthorities(_) => reasons::INVALID_CERTIFICATE_AUTHORITY,
            Self::Hook { .. } => reasons::WAITING_FOR_HOOK,
            Self::FailedHook(_) => reasons::HOOK_FAILED,
        }
    }

    /// When to look again.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Addresses(unmet) => unmet.outcome(),
            Self::Ipam => Outcome::After(claims::NOT_INSTALLED),
            Self::Hook { after, .. } => Outcome::After(*after),
            other => Outcome::WaitingOn(other.own_reason()),
        }
    }

    /// Whether its addresses are claimed meanwhile, so that they are there when it may boot.
    fn claims_meanwhile(&self) -> bool {
        !matches!(self, Self::ShorterName(_) | Self::Correction(_) | Self::ClusterInfrastructure)
    }

    /// The message of the condition.
    pub(super) fn message(&self) -> String {
        match self {
            Self::ShorterName(length) => format!(
                "The name has {length} characters; a control plane machine's may have {CONTROL_PLANE_NAME_MAX}, \
                 because clients of its etcd member ask TLS for etcd-<name>"
            ),
            Self::Correction(Mistake::Behaviour(message))
            | Self::ValidAuthorities(message)
            | Self::Hook { message, .. }
            | Self::FailedHook(message) => message.clone(),
            Self::Correction(Mistake::FailureDomain { wanted, known }) => {
                format!("The Machine asks for failure domain {wanted}; the cluster has {}", known.join(", "))
            }
            Self::Correction(Mistake::Unknown(unknown)) => offer::message(unknown),
            Self::Addresses(unmet) => unmet.message(),
            Self::Ipam => claims::NOT_INSTALLED_MESSAGE.to_owned(),
            Self::ClusterInfrastructure => "Waiting for the Cluster's infrastructure".to_owned(),
            Self::SimulatedCluster => "Waiting for the simulated cluster".to_owned(),
            Self::ControlPlaneInitialized => "Waiting for the control plane to be initialized".to_owned(),
            Self::BootstrapData => "Waiting for the bootstrap provider to provide bootstrap data".to_owned(),
            Self::Authorities => {
                "Waiting for the Secrets with the cluster's certificate authorities".to_owned()
            }
        }
    }
}

/// What to do about a machine. `answer` is what extensions said about its beginning, once they were asked.
pub(super) fn plan(object: &InMemoryMachine, validated: Validated, answer: Option<&Answered>) -> Plan {
    let deleting = object.metadata.deletion_timestamp.is_some();
    let held = is_held(&object.metadata, finalizers::MACHINE);
    match validated {
        Validated::ExternallyManaged => Plan::Leave(Outcome::WaitingOn("external manager")),
        // Nothing was made for it.
        _ if deleting && !held => Plan::Leave(Outcome::Done),
        // A paused object that is being deleted may be on its way to another management cluster.
        Validated::Paused { message, begun } => {
            let kept = begun.filter(|wanted| waits_for(wanted).is_none());
            Plan::Pause { message, kept: kept.map(|wanted| Box::new(wanted.spec)) }
        }
        Validated::WithoutOwner(id) | Validated::Orphaned(id) if deleting => Plan::Remove(id),
        Validated::WithoutOwner(_) => Plan::Leave(Outcome::WaitingOn("owner")),
        Validated::Orphaned(_) => Plan::Leave(Outcome::WaitingOn("machine and cluster")),
        Validated::Wanted(wanted) if deleting => Plan::Remove(Some(wanted.spec.id)),
        Validated::Wanted(_) if was_paused(object) => Plan::Unpause,
        Validated::Wanted(wanted) if is_terminated(object, &wanted) => {
            let MachineSpec { id, role, .. } = wanted.spec;
            Plan::Terminate { id, role, noted: object.termination().is_some() }
        }
        Validated::Wanted(wanted) => match waits_for(&wanted).or_else(|| waits_for_answer(&wanted, answer)) {
            Some(waiting) => {
                let missing =
                    |claim: &Claim| claim.standing == Standing::Missing && waiting.claims_meanwhile();
                let missing = wanted.claims.into_iter().filter(missing).collect();
                let MachineSpec { role, id, .. } = wanted.spec;
                Plan::Wait { waiting, role, cluster: id.cluster.name, missing }
            }
            None if answer.is_none() && wanted.is_asked_about() => Plan::Ask(wanted),
            None => {
                let claimed = wanted.claims.iter().filter_map(Claim::address).cloned().collect();
                Plan::Provide { spec: Box::new(wanted.spec), claimed }
            }
        },
    }
}

/// What extensions said about the beginning of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Said(Answer),
    /// They could not be asked, or failed; the message says how.
    Failed(String),
}

/// Whether the instance of a machine is gone, or has to go because somebody wants it to. Before there is one nobody can.
fn is_terminated(object: &InMemoryMachine, wanted: &Wanted) -> bool {
    object.termination().is_some() || (wanted.spec.started_at.is_some() && object.is_to_terminate())
}

/// Whether an extension has the machine wait before it begins.
fn waits_for_answer(wanted: &Wanted, answer: Option<&Answered>) -> Option<Waiting> {
    match answer.filter(|_| wanted.is_asked_about())? {
        Answered::Said(Answer::GoOn) => None,
        Answered::Said(Answer::Wait { after, message }) => {
            Some(Waiting::Hook { after: *after, message: message.clone() })
        }
        Answered::Failed(message) => Some(Waiting::FailedHook(message.clone())),
    }
}

/// What comes first. What users have to mend comes before what passes by itself.
fn waits_for(wanted: &Wanted) -> Option<Waiting> {
    let control_plane = wanted.spec.role == Role::ControlPlane;
    if !wanted.provisioned {
        let length = wanted.spec.id.name.len();
        if control_plane && length > CONTROL_PLANE_NAME_MAX {
            return Some(Waiting::ShorterName(length));
        }
        if let Some(mistake) = &wanted.mistake {
            return Some(Waiting::Correction(mistake.clone()));
        }
        // What has begun to boot does not wait for its owners again.
        let started = wanted.spec.started_at.is_some();
        if !started && !wanted.infrastructure_provisioned {
            return Some(Waiting::ClusterInfrastructure);
        }
        if !started && !wanted.bootstrapped {
            return Some(if control_plane || wanted.control_plane_initialized {
                Waiting::BootstrapData
            } else {
                Waiting::ControlPlaneInitialized
            });
        }
        if let Some(unmet) = Unmet::of(&wanted.claims) {
            return Some(Waiting::Addresses(unmet));
        }
    }
    match &wanted.simulated {
        Simulated::No => Some(Waiting::SimulatedCluster),
        // A worker joins through an API server that is up, so the authorities are there when it does.
        Simulated::WithoutAuthorities => control_plane.then_some(Waiting::Authorities),
        Simulated::WithBadAuthorities(fault) => {
            control_plane.then(|| Waiting::ValidAuthorities(fault.clone()))
        }
        Simulated::Yes => None,
    }
}

fn was_paused(object: &InMemoryMachine) -> bool {
    object.status.as_ref().is_some_and(|status| conditions::is_true(&status.conditions, types::PAUSED))
}

#[cfg(test)]
mod tests;
