//! Addresses from IPAM pools: claiming them for a machine or a load balancer, waiting for them, releasing them.
//!
//! Any IPAM provider may serve the claims (`docs/book/src/developer/providers/contracts/ipam.md` in cluster-api). It
//! sees the claim, creates an IPAddress and names it in the claim's status. A claim is named after its owner, so that a
//! second create request is for the same claim. An IPAddress never changes, so it is not watched, but read once its
//! name is known.
//!
//! ```text
//!  owner.spec ─▶ Wanted ─▶ look ─▶ ClaimState ─▶ plan ─▶ make | wait | boot
//!                            ▲                  └─ deletion: release, until none is left
//!        ClaimCache (watched from the first claim on) ─▶ own_again: an owner that was removed
//! ```

mod cache;
mod error;
mod owners;
mod state;

use std::{collections::BTreeMap, time::Duration};

pub(crate) use cache::ClaimCache;
pub(crate) use error::Error;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource, ResourceExt as _,
    api::{Api, PostParams},
};
use nephele_api::{
    conditions::reasons,
    infrastructure::v1beta2::{ClaimedAddress, InMemoryMachine, PoolReference},
    ipam::v1beta2::{IPAddress, IPAddressClaim, IPAddressClaimSpec},
    labels,
};
use nephele_controller::{Deleted, Outcome, patch, watch_filter_label};
pub(crate) use owners::{Claimant, claimant, own_again};
pub(crate) use state::ClaimState;

use crate::context::Context;

/// A claim that an object wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) pool: PoolReference,
}

/// A wanted claim and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) wanted: Wanted,
    pub(crate) state: ClaimState,
}

impl Claim {
    /// The address, once the claim has it.
    pub(crate) fn address(&self) -> Option<&ClaimedAddress> {
        match &self.state {
            ClaimState::Bound(address) => Some(address),
            ClaimState::Missing
            | ClaimState::Taken
            | ClaimState::Waiting { .. }
            | ClaimState::Late(_)
            | ClaimState::Invalid(_) => None,
        }
    }

    /// The message about what the claim waits for.
    fn message(&self) -> String {
        let Self {
            wanted: Wanted { name, pool },
            state,
        } = self;
        let mut message = format!("Waiting for IPAddressClaim {name} of {} {}", pool.kind, pool.name);
        let reason = state
            .reason()
            .filter(|reason| *reason != reasons::WAITING_FOR_IP_ADDRESS);
        for said in reason
            .into_iter()
            .chain([state.message()])
            .filter(|said| !said.is_empty())
        {
            message.push_str(": ");
            message.push_str(said);
        }
        message
    }
}

/// The claims that have to be bound before the object can continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unmet(Vec<Claim>);

impl Unmet {
    /// The claims that are not bound; none when all are.
    pub(crate) fn of<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Option<Self> {
        let unmet: Vec<Claim> = claims
            .into_iter()
            .filter(|claim| claim.address().is_none())
            .cloned()
            .collect();
        (!unmet.is_empty()).then_some(Self(unmet))
    }

    /// The reason of the condition: a reason from the IPAM provider comes before a claim that only waits.
    pub(crate) fn reason(&self) -> &str {
        let reasons = || self.0.iter().filter_map(|claim| claim.state.reason());
        reasons()
            .find(|reason| *reason != reasons::WAITING_FOR_IP_ADDRESS)
            .or_else(|| reasons().next())
            .unwrap_or(reasons::WAITING_FOR_IP_ADDRESS)
    }

    /// The message of a condition.
    pub(crate) fn message(&self) -> String {
        self.0.iter().map(Claim::message).collect::<Vec<_>>().join("; ")
    }

    /// When to reconcile again: changes of claims trigger a reconcile, but no watch shows that a late IPAddress arrived
    /// or that an invalid one was replaced.
    pub(crate) fn outcome(&self) -> Outcome {
        let told = |claim: &Claim| match &claim.state {
            ClaimState::Missing | ClaimState::Taken | ClaimState::Waiting { .. } | ClaimState::Bound(_) => {
                true
            }
            ClaimState::Late(_) | ClaimState::Invalid(_) => false,
        };
        if self.0.iter().all(told) {
            Outcome::WaitingOn(reasons::WAITING_FOR_IP_ADDRESS)
        } else {
            Outcome::After(LATE_ADDRESS)
        }
    }
}

/// The time until the next try to read an IPAddress that should exist.
const LATE_ADDRESS: Duration = Duration::from_secs(5);

/// The time until the next try when the kind IPAddressClaim is not installed: users may install it.
pub(crate) const NOT_INSTALLED: Duration = Duration::from_secs(30);

/// The message when the kind IPAddressClaim is not installed.
pub(crate) const NOT_INSTALLED_MESSAGE: &str =
    "The management cluster does not serve IPAddressClaims: Cluster API's CRDs for them are not installed";

/// The time until claims that are being released are read again. The watch shows their deletion, except while it is
/// broken or has not begun.
pub(crate) const RELEASE: Duration = Duration::from_secs(5);

/// The message while claims are being released.
pub(crate) fn release_message(left: &[String]) -> String {
    format!("Waiting for the release of {}", left.join(", "))
}

/// The addresses that a machine got from its pools, as its status lists them.
pub(crate) fn given(object: &InMemoryMachine) -> &[ClaimedAddress] {
    let network = object.status.as_ref().and_then(|status| status.network.as_ref());
    network
        .map(|network| network.addresses.as_slice())
        .unwrap_or_default()
}

/// Reads the state of the wanted claims: claims from the cache, IPAddresses from the API.
pub(crate) async fn look<Owner>(
    owner: &Owner,
    wanted: Vec<Wanted>,
    context: &Context,
) -> Result<Vec<Claim>, Error>
where
    Owner: Resource<DynamicType = ()>,
{
    let namespace = owner.namespace().unwrap_or_default();
    let addresses: Api<IPAddress> = Api::namespaced(context.client.clone(), &namespace);
    let mut claims = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let claim = context
            .claims
            .get(&context.client, &namespace, &wanted.name)
            .await?;
        let address = match claim.as_deref().and_then(IPAddressClaim::address_name) {
            None => None,
            Some(name) => addresses.get_opt(name).await.map_err(|source| Error::Read {
                kind: "IPAddress",
                name: name.to_owned(),
                source,
            })?,
        };
        let state = state::state(owner.meta(), claim.as_deref(), address.as_ref());
        claims.push(Claim { wanted, state });
    }
    Ok(claims)
}

/// The result of creating claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// They exist, created now or before.
    All,
    /// The management API does not serve the kind IPAddressClaim.
    NotInstalled,
}

/// Creates the missing claims.
pub(crate) async fn make<Owner>(
    owner: &Owner,
    cluster: &str,
    claims: &[Claim],
    context: &Context,
) -> Result<Made, Error>
where
    Owner: Resource<DynamicType = ()>,
{
    let namespace = owner.namespace().unwrap_or_default();
    let api: Api<IPAddressClaim> = Api::namespaced(context.client.clone(), &namespace);
    for claim in claims.iter().filter(|claim| claim.state == ClaimState::Missing) {
        let object = object(owner, cluster, &claim.wanted);
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            // The namespace exists, because the owner is in it: so the kind is missing.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Made::NotInstalled),
            Err(source) => {
                return Err(Error::Create {
                    name: claim.wanted.name.clone(),
                    source,
                });
            }
        }
    }
    Ok(Made::All)
}

/// The IPAddressClaim for a wanted claim.
fn object<Owner>(owner: &Owner, cluster: &str, wanted: &Wanted) -> IPAddressClaim
where
    Owner: Resource<DynamicType = ()>,
{
    // For IPAM providers from before claims had `spec.clusterName`.
    let mut own_labels = BTreeMap::from([(labels::CLUSTER_NAME.to_owned(), cluster.to_owned())]);
    own_labels.extend(watch_filter_label(owner.meta()));
    IPAddressClaim {
        metadata: ObjectMeta {
            name: Some(wanted.name.clone()),
            namespace: owner.namespace(),
            labels: Some(own_labels),
            owner_references: Some(vec![owners::reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: IPAddressClaimSpec {
            cluster_name: cluster.to_owned(),
            pool_ref: (&wanted.pool).into(),
        },
        status: None,
    }
}

/// Deletes the claims of an object, and returns the names of claims that still exist because the IPAM provider has not
/// removed its finalizer yet. Garbage collection cannot do this: it deletes claims only when their owner is gone, but
/// the owner waits for them. Claims from which the owner was removed are deleted too.
pub(crate) async fn release<Owner>(
    owner: &Owner,
    cluster: Option<&str>,
    context: &Context,
) -> Result<Vec<String>, Error>
where
    Owner: Claimant,
{
    let wanted = owner.wanted();
    let is_disowned =
        |claim: &IPAddressClaim| cluster.is_some_and(|cluster| owners::is_disowned(cluster, &wanted, claim));
    let namespace = owner.namespace().unwrap_or_default();
    let api: Api<IPAddressClaim> = Api::namespaced(context.client.clone(), &namespace);
    let mut left = Vec::new();
    for name in owner.made() {
        context.claims.follow();
        // Not from the cache, which may not have a claim that was created a moment ago.
        let found = api.get_opt(&name).await;
        let found = found.map_err(|source| Error::Read {
            kind: "IPAddressClaim",
            name: name.clone(),
            source,
        })?;
        let Some(claim) = found.filter(|claim| state::is_owned(owner.meta(), claim) || is_disowned(claim))
        else {
            continue;
        };
        let going = claim.metadata.deletion_timestamp.is_some();
        if going || patch::delete(&api, &claim).await.map_err(Error::Delete)? == Deleted::InProgress {
            left.push(name);
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests;
