//! Plans what to do for a claim. Pure, apart from reading the caches.

use std::{net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use nephele_api::{
    conditions::reasons as common,
    core::Cluster,
    ipam::{annotations, conditions as reasons, finalizers, v1beta2::IPAddressClaim},
};
use nephele_controller::{Outcome, unreadable};
use nephele_ipam::parse_address;
use tokio::time::Instant;

use super::report::{bound_status, waiting_status};
use crate::{
    context::{Context, why_paused},
    fault::{Hold, Why},
    pool::{Answer, Facts, Grant, Pool, PoolKey, remaining},
};

/// The shortest and the longest wait before a claim is tried again whose IPAddress the management API refused. With
/// the longest wait, a thousand such claims cost some 17 requests a second.
const DENIED_AGAIN: Duration = Duration::from_secs(2);
const DENIED_AGAIN_MAX: Duration = Duration::from_secs(60);

/// The objects that a plan needs; none for objects that do not exist.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// The pool that the claim refers to, if its kind is one of ours.
    pub(super) key: Option<PoolKey>,
    pub(super) pool: Option<Arc<Pool>>,
    pub(super) facts: Facts,
    /// The name of the Cluster that the claim belongs to, if any, and the Cluster if it exists.
    pub(super) cluster: Option<(String, Option<Arc<Cluster>>)>,
}

impl Fetched {
    pub(super) fn of(claim: &IPAddressClaim, context: &Context) -> Self {
        let key = PoolKey::of_claim(claim);
        let pool = key.as_ref().and_then(|key| context.pools.get(key));
        let facts = pool.as_ref().map(|pool| pool.facts()).unwrap_or_default();
        Self {
            key,
            pool,
            facts,
            cluster: context.cluster_of(claim),
        }
    }

    /// The objects of a claim on a pool that exists and is not paused.
    fn served(key: PoolKey, cluster: Option<(String, Option<Arc<Cluster>>)>) -> Self {
        Self {
            pool: Some(Pool::new(key.clone())),
            key: Some(key),
            facts: Facts::default(),
            cluster,
        }
    }
}

/// Whether a claim asks its pool for an address, if the pool serves claims. One that has an address does not.
pub(crate) fn asks(
    claim: &IPAddressClaim,
    key: PoolKey,
    cluster: Option<(String, Option<Arc<Cluster>>)>,
) -> bool {
    let need = plan(claim, &Fetched::served(key, cluster));
    claim.address_name().is_none() && matches!(need, Need::Address { .. })
}

/// Whether a claim gives its address back to its pool when it is deleted.
pub(crate) fn gives_back(
    claim: &IPAddressClaim,
    key: PoolKey,
    cluster: Option<(String, Option<Arc<Cluster>>)>,
    now: Timestamp,
) -> bool {
    let mut deleted = claim.clone();
    deleted.metadata.deletion_timestamp.get_or_insert(Time(now));
    let need = plan(&deleted, &Fetched::served(key, cluster));
    claim.address_name().is_some() && need == Need::Plan(Plan::Release)
}

/// The first part of planning.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// The claim wants an address: ask its pool.
    Address { wanted: Option<IpAddr> },
    /// The plan does not need the pool.
    Plan(Plan),
}

/// What to do for a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Do nothing, and write nothing.
    Leave(Outcome),
    /// Write why the claim waits, and add our finalizer if `protect` says so.
    Wait {
        reason: &'static str,
        message: String,
        protect: bool,
    },
    /// Write for which Fault the claim waits, and add our finalizer. It ends by itself after `again`, if there is one.
    Hold {
        reason: &'static str,
        message: String,
        again: Option<Duration>,
    },
    /// Create the IPAddress of the claim.
    Create { grant: Grant, first_asked: Instant },
    /// Take over the IPAddress of the claim's name.
    TakeOver,
    /// Write into the claim's status that it has its address.
    Publish,
    /// Release the claim's IPAddress and remove our finalizer.
    Release,
}

impl Plan {
    /// Whether the plan sends requests to the management API.
    pub(super) fn sends(&self, claim: &IPAddressClaim, now: Timestamp) -> bool {
        let says = |status| claim.status.as_ref() == Some(&status);
        match self {
            Self::Leave(_) => false,
            Self::Wait {
                reason,
                message,
                protect,
            } => (*protect && !is_protected(claim)) || !says(waiting_status(claim, reason, message, now)),
            Self::Hold { reason, message, .. } => {
                !is_protected(claim) || !says(waiting_status(claim, reason, message, now))
            }
            Self::Publish => !is_protected(claim) || !says(bound_status(claim, now)),
            Self::Create { .. } | Self::TakeOver | Self::Release => true,
        }
    }
}

fn is_protected(claim: &IPAddressClaim) -> bool {
    claim
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == finalizers::CLAIM)
}

pub(super) fn plan(claim: &IPAddressClaim, fetched: &Fetched) -> Need {
    let leave = |outcome| Need::Plan(Plan::Leave(outcome));
    let wait = |reason, message, protect| {
        Need::Plan(Plan::Wait {
            reason,
            message,
            protect,
        })
    };
    let Some(key) = &fetched.key else {
        return leave(Outcome::Done);
    };
    let deleting = claim.metadata.deletion_timestamp.is_some();
    let cluster = match &fetched.cluster {
        None => None,
        Some((_, Some(cluster))) => Some(cluster),
        // A claim can be deleted after its Cluster.
        Some((_, None)) if deleting => None,
        Some((_, None)) => return leave(Outcome::WaitingOn("Cluster")),
    };
    let paused = why_paused(claim, cluster.map(|cluster| &**cluster))
        .or_else(|| fetched.facts.paused.then(|| format!("{key} is paused")));
    if let Some(message) = paused {
        // A paused claim that has an address, or is being deleted, is not written at all.
        return if deleting || claim.address_name().is_some() {
            leave(Outcome::WaitingOn(common::PAUSED))
        } else {
            wait(common::PAUSED, message, false)
        };
    }
    if deleting {
        // Without our finalizer there is nothing to release, and it cannot be added any more.
        return if is_protected(claim) {
            Need::Plan(Plan::Release)
        } else {
            leave(Outcome::Done)
        };
    }
    if fetched.pool.is_none() {
        if claim.address_name().is_some() {
            return leave(Outcome::WaitingOn(reasons::POOL_NOT_READY));
        }
        return wait(reasons::POOL_NOT_READY, format!("{key} does not exist"), true);
    }
    if let Some(mistake) = unreadable(&claim.metadata).filter(|_| claim.address_name().is_none()) {
        return wait(common::INVALID_CONFIGURATION, mistake.to_owned(), true);
    }
    match claim.annotations().get(annotations::WANTED_ADDRESS) {
        None => Need::Address { wanted: None },
        Some(text) => match parse_address(text) {
            Ok(wanted) => Need::Address { wanted: Some(wanted) },
            // The annotation may have changed after the claim got its address.
            Err(_) if claim.address_name().is_some() => Need::Address { wanted: None },
            Err(error) => wait(
                reasons::ALLOCATION_FAILED,
                format!(
                    "the annotation {} is not an address: {error}",
                    annotations::WANTED_ADDRESS
                ),
                true,
            ),
        },
    }
}

/// The plan that follows from the answer of the pool.
pub(super) fn answered(claim: &IPAddressClaim, pool: &PoolKey, answer: Answer, now: Timestamp) -> Plan {
    let wait = |reason, message| Plan::Wait {
        reason,
        message,
        protect: true,
    };
    match answer {
        Answer::Granted { grant, first_asked } => Plan::Create { grant, first_asked },
        Answer::Bound => Plan::Publish,
        Answer::TakeOver => Plan::TakeOver,
        Answer::Queued => Plan::Leave(Outcome::WaitingOn("pool")),
        Answer::Exhausted => wait(reasons::POOL_EXHAUSTED, exhausted(pool)),
        Answer::Held(hold) => held(pool, hold, now),
        Answer::Unrecorded => Plan::Leave(Outcome::WaitingOn("fault")),
        Answer::Refused { message } => wait(reasons::ALLOCATION_FAILED, message),
        // An address stays valid whatever happens to the pool.
        Answer::Unavailable { reason, .. } if claim.address_name().is_some() => {
            Plan::Leave(Outcome::WaitingOn(reason))
        }
        Answer::Unavailable { reason, message } => wait(reason, message),
    }
}

fn exhausted(pool: &PoolKey) -> String {
    format!("{pool} has no address left")
}

/// The plan for a claim that a Fault holds.
fn held(pool: &PoolKey, Hold { fault, why, until }: Hold, now: Timestamp) -> Plan {
    let (reason, message) = match why {
        Why::Exhausted => (reasons::POOL_EXHAUSTED, exhausted(pool)),
        Why::Slow => {
            let at = until.unwrap_or(now);
            (
                reasons::ALLOCATION_DELAYED,
                format!("{pool} hands out the address at {at}"),
            )
        }
        Why::Conflict(block) => {
            let address = block.address();
            (
                reasons::ALLOCATION_FAILED,
                format!("address {address} is in use outside of {pool}"),
            )
        }
    };
    let again = until.map(|until| remaining(until, 0, now));
    Plan::Hold {
        reason,
        message: format!("{message} (Fault {fault})"),
        again,
    }
}

/// The wait before a claim is tried again whose IPAddress the management API refused: the age of the claim, so each
/// wait is about twice the one before. An admission webhook or a quota may change at any time. And for some seconds
/// the API server does not know the kind of a pool whose definition is new, and refuses owners of that kind.
pub(super) fn after_denial(claim: &IPAddressClaim, now: Timestamp) -> Duration {
    let created = claim
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(now, |time| time.0);
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    age.clamp(DENIED_AGAIN, DENIED_AGAIN_MAX)
}

#[cfg(test)]
mod tests;
