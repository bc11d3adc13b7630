//! What to do about a pool. Pure.

use std::{collections::BTreeMap, sync::Arc};

use kube::ResourceExt as _;
use nephele_api::{
    conditions::{self, reasons, types},
    finalizers,
    infrastructure::v1beta2::{InMemoryMachine, InMemoryMachinePool},
};
use nephele_controller::Outcome;

use super::{
    members::{Link, Member},
    names,
    validate::{Members, Model, Validated, Wanted},
};
use crate::finalizer::{Finalizer, is_held};

/// The maximum number of machines created in one reconcile. The rest follows when those are in the cache.
const MADE_MAX: usize = 100;
/// How many machines more than wanted may exist while others are replaced.
const SURGE: usize = 1;
/// How many times the wanted machines may be left whose instance was terminated, before no other one is created: where each
/// new instance is terminated and none can be deleted, three times the wanted machines exist at most.
const TERMINATED_MAX: usize = 2;

/// What to do first.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// Ask the API which machines there are: [`answered`] decides. The caches may not have one that was created a moment ago.
    Ask,
    /// This, without a question.
    Decided(Decision),
}

/// What to do.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// Nothing.
    Leave(Outcome),
    /// Report that the object is paused, for this reason.
    Pause(String),
    /// Report that the object is not paused any more.
    Unpause,
    /// Create and delete machines until the wanted number exists.
    Scale(Box<Scale>),
    /// Delete these machines and then the pool; `left` counts the machines that still exist.
    Remove { victims: Vec<Victim>, left: usize },
}

/// The machines to create and to delete, and the values for the pool's spec and status.
#[derive(Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) model: Model,
    /// Machines of the pool that do not say so, or not in the version that is written now.
    pub(super) disowned: Vec<Arc<InMemoryMachine>>,
    pub(super) made: Vec<New>,
    pub(super) victims: Vec<Victim>,
    /// Why no machine is created.
    pub(super) waiting: Option<Waiting>,
    /// The provider IDs of the existing machines, in the order of their numbers.
    pub(super) provider_ids: Vec<String>,
    pub(super) replicas: Replicas,
    /// The number of the next machine after the created ones.
    pub(super) next_ordinal: i64,
}

/// How many machines are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Replicas {
    pub(super) wanted: usize,
    /// Machines that are not being deleted, including surplus ones.
    pub(super) staying: usize,
    /// Of the staying machines, those that are up.
    pub(super) ready: usize,
    /// Of the staying machines, those created from an older revision.
    pub(super) outdated: usize,
    /// Machines that are being deleted, or have to be.
    pub(super) leaving: usize,
    /// Of the leaving machines, those whose instance was terminated.
    pub(super) terminated: usize,
}

/// A machine to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct New {
    pub(super) name: String,
    pub(super) failure_domain: Option<String>,
}

/// An object to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    /// The Machine of this name: Cluster API drains its Node, and then deletes the InMemoryMachine.
    Machine(String),
    /// The InMemoryMachine of this name, which has no Machine.
    InMemoryMachine(String),
}

/// What a pool waits for before it creates machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    ClusterInfrastructure,
    BootstrapData,
}

impl Waiting {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::ClusterInfrastructure => reasons::WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY,
            Self::BootstrapData => reasons::WAITING_FOR_BOOTSTRAP_DATA,
        }
    }

    pub(super) fn message(self) -> &'static str {
        match self {
            Self::ClusterInfrastructure => "Waiting for the Cluster's infrastructure",
            Self::BootstrapData => "Waiting for the bootstrap provider to provide bootstrap data",
        }
    }
}

impl Decision {
    /// What happens to our finalizer.
    pub(super) fn finalizer(&self) -> Finalizer {
        match self {
            Self::Leave(_) | Self::Pause(_) | Self::Unpause => Finalizer::Kept,
            Self::Scale(_) => Finalizer::Added,
            Self::Remove { .. } => Finalizer::Released,
        }
    }

    /// Whether machines are created or deleted, or the pool goes because no machine is left.
    fn changes_machines(&self) -> bool {
        match self {
            Self::Scale(scale) => !scale.made.is_empty() || !scale.victims.is_empty(),
            Self::Remove { victims, left } => !victims.is_empty() || *left == 0,
            Self::Leave(_) | Self::Pause(_) | Self::Unpause => false,
        }
    }
}

impl Scale {
    /// When to reconcile again: everything that the pool waits for is watched.
    pub(super) fn outcome(&self) -> Outcome {
        match self.waiting {
            Some(waiting) => Outcome::WaitingOn(waiting.reason()),
            None if self.is_settled() => Outcome::Done,
            None => Outcome::WaitingOn("machines"),
        }
    }

    /// Whether no machine is left to create or to delete.
    pub(super) fn is_settled(&self) -> bool {
        let Replicas {
            wanted,
            staying,
            ready,
            outdated,
            leaving,
            terminated: _,
        } = self.replicas;
        self.waiting.is_none() && staying == wanted && ready == wanted && outdated == 0 && leaving == 0
    }
}

/// What to do about a pool, by what the caches have.
pub(super) fn first(object: &InMemoryMachinePool, validated: Validated, members: Members) -> Plan {
    let decision = answered(object, validated, members);
    if decision.changes_machines() {
        Plan::Ask
    } else {
        Plan::Decided(decision)
    }
}

/// What to do about a pool, by what the API has.
pub(super) fn answered(object: &InMemoryMachinePool, validated: Validated, members: Members) -> Decision {
    let deleting = object.metadata.deletion_timestamp.is_some();
    let held = is_held(&object.metadata, finalizers::MACHINE_POOL);
    match validated {
        Validated::ExternallyManaged => Decision::Leave(Outcome::WaitingOn("external manager")),
        // Nothing was created for it.
        _ if deleting && !held => Decision::Leave(Outcome::Done),
        // A paused object that is being deleted may be on its way to another management cluster.
        Validated::Paused(message) => Decision::Pause(message),
        Validated::WithoutOwner | Validated::Orphaned | Validated::Wanted(_) if deleting => remove(members),
        Validated::WithoutOwner => Decision::Leave(Outcome::WaitingOn("owner")),
        Validated::Orphaned => Decision::Leave(Outcome::WaitingOn("machine pool and cluster")),
        Validated::Wanted(_) if was_paused(object) => Decision::Unpause,
        Validated::Wanted(wanted) => Decision::Scale(Box::new(scale(object, *wanted, members))),
    }
}

fn remove(members: Members) -> Decision {
    let Members {
        all,
        dangling,
        disowned: _,
    } = members;
    let left = all.len() + dangling.len();
    let victims = all
        .iter()
        .filter_map(victim)
        .chain(dangling.into_iter().map(Victim::Machine));
    Decision::Remove {
        victims: victims.collect(),
        left,
    }
}

/// The object to delete so that a machine is removed; none if it is already being deleted.
fn victim(member: &Member) -> Option<Victim> {
    match member.machine {
        Link::Present { going: true, .. } => None,
        // A Machine whose InMemoryMachine was deleted by another client is in `dangling`.
        Link::Present { .. } => (!member.going).then(|| Victim::Machine(member.name.clone())),
        Link::None | Link::Lost => (!member.going).then(|| Victim::InMemoryMachine(member.name.clone())),
    }
}

fn scale(object: &InMemoryMachinePool, wanted: Wanted, members: Members) -> Scale {
    let Wanted {
        replicas,
        model,
        failure_domains,
        infrastructure_provisioned,
        bootstrapped,
    } = wanted;
    let name = object.name_any();
    let Members {
        mut all,
        dangling,
        disowned,
    } = members;
    all.sort_by_key(|member| (names::ordinal(&name, &member.name), member.name.clone()));
    let provider_ids = all
        .iter()
        .filter_map(|member| member.provider_id.clone())
        .collect();
    let numbers = all
        .iter()
        .filter_map(|member| names::ordinal(&name, &member.name));
    let last_known = object
        .status
        .as_ref()
        .and_then(|status| status.next_ordinal)
        .unwrap_or_default();
    let next_ordinal = numbers
        .map(|number| number.saturating_add(1))
        .fold(last_known, i64::max);

    let (leaving, staying): (Vec<_>, Vec<_>) = all.iter().partition(|member| member.is_leaving());
    let is_outdated = |member: &Member| member.revision.as_deref() != Some(&model.revision);
    let counted = Replicas {
        wanted: replicas,
        staying: staying.len(),
        ready: staying.iter().filter(|member| member.ready).count(),
        outdated: staying.iter().filter(|member| is_outdated(member)).count(),
        leaving: leaving.len(),
        terminated: leaving.iter().filter(|member| member.terminated).count(),
    };
    let waiting = if !infrastructure_provisioned {
        Some(Waiting::ClusterInfrastructure)
    } else if !bootstrapped {
        Some(Waiting::BootstrapData)
    } else {
        None
    };
    let missing = if waiting.is_some() {
        0
    } else {
        missing(counted).min(MADE_MAX)
    };
    let made = made(&name, next_ordinal, missing, &failure_domains, &staying);
    let mut victims: Vec<_> = leaving.iter().filter_map(|member| victim(member)).collect();
    victims.extend(surplus(staying, counted, is_outdated).filter_map(victim));
    victims.extend(dangling.into_iter().map(Victim::Machine));
    let next_ordinal = next_ordinal.saturating_add(i64::try_from(made.len()).unwrap_or(i64::MAX));
    Scale {
        model,
        disowned,
        made,
        victims,
        waiting,
        provider_ids,
        replicas: counted,
        next_ordinal,
    }
}

/// How many machines to create: all missing ones at once, and one more while machines are replaced, after the last
/// replaced one is gone. A machine whose instance was terminated is replaced at once, as in an instance group.
fn missing(replicas: Replicas) -> usize {
    let Replicas {
        wanted,
        staying,
        ready: _,
        outdated,
        leaving,
        terminated,
    } = replicas;
    let surge = if outdated > 0 && staying + leaving < wanted + SURGE {
        SURGE
    } else {
        0
    };
    let allowed = wanted.saturating_mul(TERMINATED_MAX).saturating_sub(terminated);
    if staying < wanted {
        (wanted - staying).min(allowed)
    } else {
        surge.min((wanted + SURGE).saturating_sub(staying))
    }
}

fn made(pool: &str, first: i64, count: usize, failure_domains: &[String], staying: &[&Member]) -> Vec<New> {
    let mut in_domain: BTreeMap<&str, usize> = failure_domains
        .iter()
        .map(|domain| (domain.as_str(), 0))
        .collect();
    for domain in staying
        .iter()
        .filter_map(|member| member.failure_domain.as_deref())
    {
        if let Some(count) = in_domain.get_mut(domain) {
            *count += 1;
        }
    }
    let mut place = || {
        // The failure domain with the fewest machines, and of those the first by name.
        let (domain, count) = in_domain.iter_mut().min_by_key(|(_, count)| **count)?;
        *count += 1;
        Some((*domain).to_owned())
    };
    let one = |ordinal| New {
        name: names::name(pool, ordinal),
        failure_domain: place(),
    };
    // A pool whose numbers are used up makes none: two machines would have one name.
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    (first..first.saturating_add(count)).map(one).collect()
}

/// The surplus machines, in the order of their deletion: first marked machines, then outdated ones, then those that are
/// not up yet, and of each group the youngest first. A ready machine is deleted for a replacement only when the wanted
/// number of machines is up without it.
fn surplus(
    mut staying: Vec<&Member>,
    replicas: Replicas,
    is_outdated: impl Fn(&Member) -> bool,
) -> impl Iterator<Item = &Member> {
    // Youngest first: the list is sorted by number.
    staying.reverse();
    staying.sort_by_key(|member| (!member.is_marked(), !is_outdated(member), member.ready));
    let mut ready = replicas.ready;
    let rolling = replicas.outdated > 0;
    let mut count = replicas.staying.saturating_sub(replicas.wanted);
    staying.into_iter().take_while(move |member| {
        let spared = member.ready && rolling && !member.is_marked() && ready <= replicas.wanted;
        if count == 0 || spared {
            return false;
        }
        count -= 1;
        ready -= usize::from(member.ready);
        true
    })
}

fn was_paused(object: &InMemoryMachinePool) -> bool {
    object
        .status
        .as_ref()
        .is_some_and(|status| conditions::is_true(&status.conditions, types::PAUSED))
}

#[cfg(test)]
mod tests;
