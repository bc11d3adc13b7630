//! What to do about a machine. Pure.

use std::time::Duration;

use nephele_api::{
    conditions::{self, reasons, types},
    finalizers,
    infrastructure::v1beta2::{ClaimedAddress, InMemoryMachine},
};
use nephele_cloud::MachineSpec;
use nephele_controller::Outcome;
use nephele_model::{MachineId, Role};

use super::validate::{Mistake, Simulated, Validated, Wanted};
use crate::{
    claims::{self, Claim, ClaimState, Unmet},
    finalizer::{Finalizer, is_held},
    machine_hooks::Answer,
    resolved_cloud,
};

/// What to do first.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// Ask the extensions whether the machine may be created: [`answered`] decides.
    Ask(Box<Wanted>),
    /// This, without a question.
    Decided(Decision),
}

/// What to do.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// Nothing.
    Leave(Outcome),
    /// Report that the object is paused, for this reason. A machine whose creation began before keeps running, and its
    /// deletion ends if it has begun.
    Pause {
        message: String,
        kept: Option<Box<MachineSpec>>,
    },
    /// Report that the object is not paused any more.
    Unpause,
    /// Report what the machine waits for, and create the missing claims.
    Wait {
        waiting: Waiting,
        role: Role,
        cluster: String,
        missing: Vec<Claim>,
    },
    /// Create or update the machine, with these addresses from pools.
    Provide {
        spec: Box<MachineSpec>,
        claimed: Vec<ClaimedAddress>,
    },
    /// Terminate its instance, as a user requested, and report that; `noted` tells whether the object records it
    /// already.
    Terminate { spec: Box<MachineSpec>, noted: bool },
    /// Delete the machine.
    Remove(Option<MachineId>),
    /// Restore the machine, which was there before a restart, and delete it.
    ResumeRemoval(Box<MachineSpec>),
}

impl Plan {
    /// What happens to our finalizer.
    pub(super) fn finalizer(&self) -> Finalizer {
        match self {
            // Extensions that are called before creation are called after deletion, too.
            Self::Ask(_) => Finalizer::Added,
            Self::Decided(decision) => decision.finalizer(),
        }
    }
}

impl Decision {
    /// What happens to our finalizer.
    pub(super) fn finalizer(&self) -> Finalizer {
        match self {
            Self::Leave(_) | Self::Pause { .. } | Self::Unpause | Self::Terminate { .. } => Finalizer::Kept,
            // During a wait, too, so that the machine can boot as soon as the wait is over.
            Self::Wait { .. } | Self::Provide { .. } => Finalizer::Added,
            Self::Remove(_) | Self::ResumeRemoval(_) => Finalizer::Released,
        }
    }
}

/// What a machine waits for before it boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The user has to correct a mistake.
    Correction(Mistake),
    ClusterInfrastructure,
    ControlPlaneInitialized,
    BootstrapData,
    /// Addresses from pools.
    Addresses(Unmet),
    /// The kind IPAddressClaim has to be installed.
    Ipam,
    /// The simulated cluster, after a restart.
    SimulatedCluster,
    Authorities,
    /// Usable certificate authorities; the message says what is wrong with the existing ones.
    ValidAuthorities(String),
    /// An extension, which is called again after that time.
    Hook {
        after: Duration,
        message: String,
    },
    /// An extension that could not be called, or failed; the message says how.
    FailedHook(String),
}

impl Waiting {
    /// The reason of the condition: one of this provider, or the one of an IPAM provider.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Addresses(unmet) => unmet.reason(),
            other => other.own_reason(),
        }
    }

    /// The reason of this provider.
    fn own_reason(&self) -> &'static str {
        match self {
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

    /// When to reconcile again.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Addresses(unmet) => unmet.outcome(),
            Self::Ipam => Outcome::After(claims::NOT_INSTALLED),
            Self::Hook { after, .. } => Outcome::After(*after),
            other => Outcome::WaitingOn(other.own_reason()),
        }
    }

    /// Whether the machine's addresses are claimed during the wait, so that it has them when it may boot. A worker that
    /// waits for the control plane claims none: in a small pool it would take the address that the control plane needs,
    /// and both would wait for ever.
    fn claims_meanwhile(&self) -> bool {
        !matches!(
            self,
            Self::Correction(_) | Self::ClusterInfrastructure | Self::ControlPlaneInitialized
        )
    }

    /// The message of the condition.
    pub(super) fn message(&self) -> String {
        match self {
            Self::ValidAuthorities(message) | Self::Hook { message, .. } | Self::FailedHook(message) => {
                message.clone()
            }
            Self::Correction(Mistake::FailureDomain { wanted, known }) => {
                format!(
                    "The Machine asks for failure domain {wanted}, but the cluster has only {}",
                    known.join(", ")
                )
            }
            Self::Correction(Mistake::Unknown(unknown)) => resolved_cloud::message(unknown),
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

/// What to do about a machine.
pub(super) fn first(object: &InMemoryMachine, validated: Validated) -> Plan {
    let deleting = object.metadata.deletion_timestamp.is_some();
    let held = is_held(&object.metadata, finalizers::MACHINE);
    Plan::Decided(match validated {
        Validated::ExternallyManaged => Decision::Leave(Outcome::WaitingOn("external manager")),
        // Nothing was created for it.
        _ if deleting && !held => Decision::Leave(Outcome::Done),
        // A paused object that is being deleted may be on its way to another management cluster.
        Validated::Paused { message, begun } => {
            let kept = begun.filter(|wanted| waits_for(wanted).is_none());
            Decision::Pause {
                message,
                kept: kept.map(|wanted| Box::new(wanted.spec)),
            }
        }
        Validated::WithoutOwner(id) | Validated::Orphaned(id) if deleting => Decision::Remove(id),
        Validated::WithoutOwner(_) => Decision::Leave(Outcome::WaitingOn("owner")),
        Validated::Orphaned(_) => Decision::Leave(Outcome::WaitingOn("machine and cluster")),
        Validated::Wanted(wanted) if deleting && is_to_restore(object, &wanted) => {
            // While the cluster itself is not back, neither is its Node.
            Decision::ResumeRemoval(Box::new(wanted.spec))
        }
        Validated::Wanted(wanted) if deleting => Decision::Remove(Some(wanted.spec.id)),
        Validated::Wanted(_) if was_paused(object) => Decision::Unpause,
        Validated::Wanted(wanted) if is_terminated(object, &wanted) => Decision::Terminate {
            spec: Box::new(wanted.spec),
            noted: object.termination().is_some(),
        },
        Validated::Wanted(wanted) => match waits_for(&wanted) {
            Some(waiting) => wait(*wanted, waiting),
            None if wanted.is_asked_about() => return Plan::Ask(wanted),
            None => provide(*wanted),
        },
    })
}

/// What to do about a machine that may be created but for the extensions, by their answer.
pub(super) fn answered(wanted: Wanted, answer: Answered) -> Decision {
    match answer {
        Answered::Said(Answer::Continue) => provide(wanted),
        Answered::Said(Answer::Wait { after, message }) => wait(wanted, Waiting::Hook { after, message }),
        Answered::Failed(message) => wait(wanted, Waiting::FailedHook(message)),
    }
}

fn wait(wanted: Wanted, waiting: Waiting) -> Decision {
    let missing = |claim: &Claim| claim.state == ClaimState::Missing && waiting.claims_meanwhile();
    let missing = wanted.claims.into_iter().filter(missing).collect();
    let MachineSpec { role, id, .. } = wanted.spec;
    Decision::Wait {
        waiting,
        role,
        cluster: id.cluster.name,
        missing,
    }
}

fn provide(wanted: Wanted) -> Decision {
    let claimed = wanted.claims.iter().filter_map(Claim::address).cloned().collect();
    Decision::Provide {
        spec: Box::new(wanted.spec),
        claimed,
    }
}

/// The answer of the extensions before the creation of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Said(Answer),
    /// They could not be called, or failed; the message says how.
    Failed(String),
}

/// Whether the cloud does not have the machine although it had one before a restart. Then nothing may be asked of it
/// before it is restored.
fn is_to_restore(object: &InMemoryMachine, wanted: &Wanted) -> bool {
    !wanted.exists && wanted.has_begun() && !object.has_ended()
}

/// Whether the instance of a machine was terminated, a fault made it vanish, or a user requests its termination. Without
/// an instance there is nothing to terminate.
fn is_terminated(object: &InMemoryMachine, wanted: &Wanted) -> bool {
    object.termination().is_some()
        || wanted.has_vanished
        || (wanted.spec.started_at.is_some() && object.is_to_terminate())
}

/// The first reason to wait. Mistakes that users have to correct come before waits that end by themselves.
fn waits_for(wanted: &Wanted) -> Option<Waiting> {
    let control_plane = wanted.spec.role == Role::ControlPlane;
    if !wanted.provisioned {
        if let Some(mistake) = &wanted.mistake {
            return Some(Waiting::Correction(mistake.clone()));
        }
        // A machine that has begun to boot does not wait for its owners again.
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
        // A worker joins only through an API server that is up, and then the authorities exist.
        Simulated::WithoutAuthorities => control_plane.then_some(Waiting::Authorities),
        Simulated::WithBadAuthorities(fault) => {
            control_plane.then(|| Waiting::ValidAuthorities(fault.clone()))
        }
        Simulated::Yes => None,
    }
}

fn was_paused(object: &InMemoryMachine) -> bool {
    object
        .status
        .as_ref()
        .is_some_and(|status| conditions::is_true(&status.conditions, types::PAUSED))
}

#[cfg(test)]
mod tests;
