//! What is to be done about a claim. Pure but for the look into memory.

use std::net::IpAddr;
use std::sync::Arc;

use kube::ResourceExt as _;
use nephele_api::conditions::reasons as common;
use nephele_api::core::Cluster;
use nephele_api::ipam::v1beta2::IPAddressClaim;
use nephele_api::ipam::{annotations, conditions as reasons, finalizers};
use nephele_ipam::parse_address;
use nephele_kit::Outcome;

use crate::context::{Context, why_paused};
use crate::pool::{Facts, Pool, PoolKey};

/// What was found. What is not there is none.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// The pool that the claim refers to, when its kind is one of ours.
    pub(super) key: Option<PoolKey>,
    pub(super) pool: Option<Arc<Pool>>,
    pub(super) facts: Facts,
    /// The Cluster it belongs to, when it belongs to one, and whether that is there.
    pub(super) cluster: Option<(String, Option<Arc<Cluster>>)>,
}

impl Fetched {
    pub(super) fn of(claim: &IPAddressClaim, context: &Context) -> Self {
        let key = PoolKey::of_claim(claim);
        let pool = key.as_ref().and_then(|key| context.pools.get(key));
        let facts = pool.as_ref().map(|pool| pool.facts()).unwrap_or_default();
        Self { key, pool, facts, cluster: context.cluster_of(claim) }
    }
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing, and nothing is said.
    Leave(Outcome),
    /// Nothing but to say why, and to hold the claim if `protect` says so.
    Wait { reason: &'static str, message: String, protect: bool },
    /// Get it an address of the pool.
    Bind { wanted: Option<IpAddr> },
    /// Give back what it has and let it go.
    Release,
}

pub(super) fn plan(claim: &IPAddressClaim, fetched: &Fetched) -> Plan {
    let Some(key) = &fetched.key else { return Plan::Leave(Outcome::Done) };
    let deleting = claim.metadata.deletion_timestamp.is_some();
    let held = claim.finalizers().iter().any(|finalizer| finalizer == finalizers::CLAIM);
    let cluster = match &fetched.cluster {
        None => None,
        Some((_, Some(cluster))) => Some(cluster),
        // A Cluster that went before its claims does not keep them.
        Some((_, None)) if deleting => None,
        Some((_, None)) => return Plan::Leave(Outcome::WaitingOn("Cluster")),
    };
    let paused = why_paused(claim, cluster.map(|cluster| &**cluster))
        .or_else(|| fetched.facts.paused.then(|| format!("{key} is paused")));
    if let Some(message) = paused {
        // One that has an address, or is on its way out, is left exactly as it is.
        return if deleting || claim.address_name().is_some() {
            Plan::Leave(Outcome::WaitingOn(common::PAUSED))
        } else {
            Plan::Wait { reason: common::PAUSED, message, protect: false }
        };
    }
    if deleting {
        // Without the finalizer there is nothing to wait for, and it could not be added any more.
        return if held { Plan::Release } else { Plan::Leave(Outcome::Done) };
    }
    if fetched.pool.is_none() {
        if claim.address_name().is_some() {
            return Plan::Leave(Outcome::WaitingOn(reasons::POOL_NOT_READY));
        }
        let message = format!("{key} is not there");
        return Plan::Wait { reason: reasons::POOL_NOT_READY, message, protect: true };
    }
    match claim.annotations().get(annotations::WANTED_ADDRESS) {
        None => Plan::Bind { wanted: None },
        Some(text) => match parse_address(text) {
            Ok(wanted) => Plan::Bind { wanted: Some(wanted) },
            // Its IPAddress may be there all the same.
            Err(_) if claim.address_name().is_some() => Plan::Bind { wanted: None },
            Err(error) => Plan::Wait {
                reason: reasons::ALLOCATION_FAILED,
                message: format!("the annotation {} is no address: {error}", annotations::WANTED_ADDRESS),
                protect: true,
            },
        },
    }
}

#[cfg(test)]
mod tests;
