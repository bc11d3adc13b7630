//! Addresses from IPAM pools: claimed for a machine or a load balancer, waited for, given back.
//!
//! The other side may be any IPAM provider (`docs/book/src/developer/providers/contracts/ipam.md` in cluster-api). It
//! sees the claim, makes an IPAddress and names it in the claim's status. A claim is named after its owner, so that
//! asking again asks for the same; an IPAddress never changes, so that it is read once its name is known.
//!
//! ```text
//!  owner.spec ─▶ Wanted ─▶ look ─▶ Standing ─▶ plan ─▶ make | wait | boot
//!                            ▲                  └─ deletion: release, until none is left
//!        Book (cache of claims, followed from the first claim on) ─▶ own_again: an owner that somebody took away
//! ```

mod book;
mod owners;
mod standing;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::{Resource, ResourceExt as _};
use nephele_api::conditions::reasons;
use nephele_api::infrastructure::v1beta2::{ClaimedAddress, InMemoryMachine, PoolReference};
use nephele_api::ipam::v1beta2::{IPAddress, IPAddressClaim, IPAddressClaimSpec};
use nephele_api::labels;
use nephele_kit::{Deleted, Outcome, PatchError, ReconcileError, Retry, patch};
use thiserror::Error;

use crate::context::Context;

pub(crate) use book::Book;
pub(crate) use owners::{Claimant, claimant, own_again};
pub(crate) use standing::Standing;

/// A claim that an object wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) pool: PoolReference,
}

/// How a wanted claim stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) wanted: Wanted,
    pub(crate) standing: Standing,
}

impl Claim {
    /// The address, once it is there.
    pub(crate) fn address(&self) -> Option<&ClaimedAddress> {
        match &self.standing {
            Standing::Bound(address) => Some(address),
            Standing::Missing
            | Standing::Taken
            | Standing::Waiting { .. }
            | Standing::Late(_)
            | Standing::Invalid(_) => None,
        }
    }

    /// What it waits for, for people.
    fn message(&self) -> String {
        let Self { wanted: Wanted { name, pool }, standing } = self;
        let mut message = format!("Waiting for IPAddressClaim {name} of {} {}", pool.kind, pool.name);
        let reason = standing.reason().filter(|reason| *reason != reasons::WAITING_FOR_IP_ADDRESS);
        for said in reason.into_iter().chain([standing.message()]).filter(|said| !said.is_empty()) {
            message.push_str(": ");
            message.push_str(said);
        }
        message
    }
}

/// Claims that have to be bound before anything else happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unmet(Vec<Claim>);

impl Unmet {
    /// Those of the claims that are not bound; none when all are.
    pub(crate) fn of<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Option<Self> {
        let unmet: Vec<Claim> =
            claims.into_iter().filter(|claim| claim.address().is_none()).cloned().collect();
        (!unmet.is_empty()).then_some(Self(unmet))
    }

    /// The reason of a condition: what a provider says comes before what is only waited for.
    pub(crate) fn reason(&self) -> &str {
        let reasons = || self.0.iter().filter_map(|claim| claim.standing.reason());
        reasons()
            .find(|reason| *reason != reasons::WAITING_FOR_IP_ADDRESS)
            .or_else(|| reasons().next())
            .unwrap_or(reasons::WAITING_FOR_IP_ADDRESS)
    }

    /// The message of a condition.
    pub(crate) fn message(&self) -> String {
        self.0.iter().map(Claim::message).collect::<Vec<_>>().join("; ")
    }

    /// When to look again: the claims' changes tell, but nobody tells of an address that is late or was mended.
    pub(crate) fn outcome(&self) -> Outcome {
        let told = |claim: &Claim| match &claim.standing {
            Standing::Missing | Standing::Taken | Standing::Waiting { .. } | Standing::Bound(_) => true,
            Standing::Late(_) | Standing::Invalid(_) => false,
        };
        if self.0.iter().all(told) {
            Outcome::WaitingOn(reasons::WAITING_FOR_IP_ADDRESS)
        } else {
            Outcome::After(LATE_ADDRESS)
        }
    }
}

/// Until an address is looked for again that should be there.
const LATE_ADDRESS: Duration = Duration::from_secs(5);

/// Until the kind of claims is looked for again: people install it.
pub(crate) const NOT_INSTALLED: Duration = Duration::from_secs(30);

/// What to say when claims cannot be made at all.
pub(crate) const NOT_INSTALLED_MESSAGE: &str =
    "The management cluster has no IPAddressClaims: Cluster API's definitions of them are not installed";

/// Until claims that are being released are looked at again. Their changes tell, but for one that goes while the watch
/// is broken, or has not begun.
pub(crate) const RELEASE: Duration = Duration::from_secs(5);

/// What to say while claims are being released.
pub(crate) fn release_message(left: &[String]) -> String {
    format!("Waiting for the release of {}", left.join(", "))
}

/// Why claims could not be dealt with.
#[derive(Debug, Error)]
pub(crate) enum Error {
    /// A claim or an address could not be read.
    #[error("failed to read {kind} {name}")]
    Read {
        /// Which of the two.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// A claim could not be made.
    #[error("failed to create IPAddressClaim {name}")]
    Create {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: kube::Error,
    },
    /// A claim could not be given its owner back.
    #[error("failed to own a claim again")]
    Own(#[source] PatchError),
    /// A claim could not be given back.
    #[error("failed to release an address")]
    Delete(#[source] PatchError),
}

impl ReconcileError for Error {
    fn category(&self) -> &'static str {
        match self {
            Self::Read { source, .. } | Self::Create { source, .. } => nephele_kit::kube_category(source),
            Self::Own(error) | Self::Delete(error) => error.category(),
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Read { source, .. } | Self::Create { source, .. } => nephele_kit::kube_retry(source),
            Self::Own(error) | Self::Delete(error) => error.retry(),
        }
    }
}

/// What a machine's pools gave, as far as the object says.
pub(crate) fn given(object: &InMemoryMachine) -> &[ClaimedAddress] {
    let network = object.status.as_ref().and_then(|status| status.network.as_ref());
    network.map(|network| network.addresses.as_slice()).unwrap_or_default()
}

/// Looks how the wanted claims stand: in the cache, and of those that are bound, at their addresses.
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
        let claim = context.claims.get(&context.client, &namespace, &wanted.name).await?;
        let address = match claim.as_deref().and_then(IPAddressClaim::address_name) {
            None => None,
            Some(name) => addresses.get_opt(name).await.map_err(|source| Error::Read {
                kind: "IPAddress",
                name: name.to_owned(),
                source,
            })?,
        };
        let standing = standing::standing(owner.meta(), claim.as_deref(), address.as_ref());
        claims.push(Claim { wanted, standing });
    }
    Ok(claims)
}

/// What came of making claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// They are there, made now or before.
    All,
    /// The management API does not know what a claim is.
    NotInstalled,
}

/// Makes those claims that are missing.
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
    for claim in claims.iter().filter(|claim| claim.standing == Standing::Missing) {
        let object = object(owner, cluster, &claim.wanted);
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            // The namespace is there, as the owner is in it: so it is the kind that is not.
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Made::NotInstalled),
            Err(source) => return Err(Error::Create { name: claim.wanted.name.clone(), source }),
        }
    }
    Ok(Made::All)
}

/// The object of a claim.
fn object<Owner>(owner: &Owner, cluster: &str, wanted: &Wanted) -> IPAddressClaim
where
    Owner: Resource<DynamicType = ()>,
{
    IPAddressClaim {
        metadata: ObjectMeta {
            name: Some(wanted.name.clone()),
            namespace: owner.namespace(),
            // For providers of the time before claims had `spec.clusterName`.
            labels: Some([(labels::CLUSTER_NAME.to_owned(), cluster.to_owned())].into()),
            owner_references: Some(vec![owners::reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: IPAddressClaimSpec { cluster_name: cluster.to_owned(), pool_ref: (&wanted.pool).into() },
        status: None,
    }
}

/// Gives back what is left of an object's claims, and names those that are still there: their provider has not let go
/// yet. Nobody else does it: garbage collection looks after them only when their owner is gone, and the owner waits for
/// them. One whose owner somebody took away goes too.
pub(crate) async fn release<Owner>(
    owner: &Owner,
    cluster: Option<&str>,
    context: &Context,
) -> Result<Vec<String>, Error>
where
    Owner: Claimant,
{
    let wanted = owner.wanted();
    let is_disowned = |claim: &IPAddressClaim| {
        cluster.is_some_and(|cluster| owners::is_disowned(owner.meta(), cluster, &wanted, claim))
    };
    let namespace = owner.namespace().unwrap_or_default();
    let api: Api<IPAddressClaim> = Api::namespaced(context.client.clone(), &namespace);
    let mut left = Vec::new();
    for name in owner.made() {
        context.claims.follow();
        // Not from the cache, which may not have seen yet what was made a moment ago.
        let found = api.get_opt(&name).await;
        let found =
            found.map_err(|source| Error::Read { kind: "IPAddressClaim", name: name.clone(), source })?;
        let Some(claim) = found.filter(|claim| standing::is_owned(owner.meta(), claim) || is_disowned(claim))
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
