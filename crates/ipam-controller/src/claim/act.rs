//! Makes, takes over and gives back the IPAddress of a claim. Everything here may be repeated.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, ResourceExt as _};
use nephele_api::ipam::finalizers;
use nephele_api::ipam::v1beta2::{IPAddress, IPAddressClaim};
use nephele_kit::{PatchError, Precondition, patch};
use tracing::info;

use super::{Error, SHORTLY};
use crate::address::{Left, Record, adopted, create, hold_back, is_answered, let_go, made_for, same};
use crate::context::{Context, owner};
use crate::pool::{Grant, Pool, PoolKey, Release, remaining};

/// What came of creating or taking over an IPAddress.
pub(super) enum Bound {
    /// It exists and is the claim's.
    Yes,
    /// It cannot be, for this reason, before something changes.
    Refused(String),
    /// Another IPAddress has its name, of which the pool has just been told.
    AskAgain,
}

/// What came of holding a claim.
pub(super) enum Protected {
    /// It was held before.
    Already,
    /// It is held, as written.
    Now(Box<IPAddressClaim>),
    /// The claim is gone.
    Gone,
}

/// What came of releasing a claim.
pub(super) enum Released {
    /// It is free to go.
    Done,
    /// Look again after this time.
    Later(Duration),
}

/// Keeps the claim from going before its address is released.
pub(super) async fn protect(claim: &IPAddressClaim, context: &Context) -> Result<Protected, Error> {
    let api =
        Api::<IPAddressClaim>::namespaced(context.client.clone(), &claim.namespace().unwrap_or_default());
    match patch::add_finalizer(&api, claim, finalizers::CLAIM).await {
        Err(error) if error.is_not_found() => Ok(Protected::Gone),
        Err(error) => Err(Error::Claim(error)),
        Ok(None) => Ok(Protected::Already),
        Ok(Some(claim)) => {
            context.ahead.wrote(&claim);
            Ok(Protected::Now(Box::new(claim)))
        }
    }
}

/// Creates the IPAddress of a claim, as the pool decided.
pub(super) async fn create_address(
    claim: &IPAddressClaim,
    pool: &Pool,
    grant: &Grant,
    context: &Context,
) -> Result<Bound, Error> {
    let made = made_for(claim, &pool.key, &pool.facts().uid, grant);
    let api = addresses(claim, context);
    let (name, uid) = (owner(&claim.metadata), claim.metadata.uid.as_deref().unwrap_or_default());
    let _turn = pool.turn_to_write().await;
    let until = pool.sending(&name, uid);
    let created = create(&context.client, &made).await;
    if is_answered(&created) {
        pool.answered(&name, uid, until);
    }
    match created {
        Ok(address) => {
            if let Some((_, owner, record)) = Record::of(&address) {
                pool.created(&owner, record);
            }
            Ok(Bound::Yes)
        }
        Err(kube::Error::Api(status)) if status.code == 409 => there_already(claim, pool, &made, &api).await,
        // Webhooks refuse with 403 if they do not say how.
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            // It will not be taken next time either: the address is better used by another claim. An earlier request may
            // have no answer yet, and then the address stays reserved.
            pool.drop_decision(&name, uid);
            Ok(Bound::Refused(format!("the management API refused the IPAddress: {}", status.message)))
        }
        Err(source) => Err(failed("create", claim, source)),
    }
}

/// An IPAddress of the claim's name exists: the one that was to be created, or another.
async fn there_already(
    claim: &IPAddressClaim,
    pool: &Pool,
    made: &IPAddress,
    api: &Api<IPAddress>,
) -> Result<Bound, Error> {
    let there = api.get_opt(&claim.name_any()).await.map_err(|source| failed("get", claim, source))?;
    let Some(there) = there else { return Ok(Bound::AskAgain) };
    if same(&there, made) {
        note(pool, &there);
        return Ok(Bound::Yes);
    }
    if PoolKey::of_address(&there).as_ref() == Some(&pool.key) {
        note(pool, &there);
        return Ok(Bound::AskAgain);
    }
    // Called again when that one is gone. Until then its address is free for others.
    pool.drop_decision(&owner(&claim.metadata), claim.metadata.uid.as_deref().unwrap_or_default());
    let reference = &there.spec.pool_ref;
    Ok(Bound::Refused(format!(
        "IPAddress {} exists and is of another pool, {} {}",
        owner(&claim.metadata),
        reference.kind,
        reference.name
    )))
}

/// Takes over the IPAddress of the claim's name.
pub(super) async fn take_over(
    claim: &IPAddressClaim,
    pool: &Pool,
    context: &Context,
) -> Result<Bound, Error> {
    let api = addresses(claim, context);
    let there = api.get_opt(&claim.name_any()).await.map_err(|source| failed("get", claim, source))?;
    let Some(there) = there else { return Ok(Bound::AskAgain) };
    if PoolKey::of_address(&there).as_ref() != Some(&pool.key) {
        return Ok(Bound::AskAgain);
    }
    let taken_over = match adopted(&there, claim, &pool.key, &pool.facts().uid) {
        Ok(taken_over) => taken_over,
        Err(rival) => {
            let name = owner(&claim.metadata);
            pool.drop_decision(&name, claim.metadata.uid.as_deref().unwrap_or_default());
            return Ok(Bound::Refused(format!("IPAddress {name} exists and is controlled by {rival}")));
        }
    };
    let _turn = pool.turn_to_write().await;
    let written = patch::object(&api, &there, &taken_over, Precondition::ResourceVersion).await;
    let written = written.map_err(Error::Address)?.unwrap_or(taken_over);
    note(pool, &written);
    info!(address = written.spec.address, "Took over an IPAddress that was there");
    Ok(Bound::Yes)
}

/// Gives back what the claim has, and lets it go.
pub(super) async fn release(
    claim: &IPAddressClaim,
    pool: Option<&Arc<Pool>>,
    context: &Context,
) -> Result<Released, Error> {
    let (name, uid) = (owner(&claim.metadata), claim.metadata.uid.as_deref().unwrap_or_default());
    let left = match pool {
        Some(pool) => {
            pool.withdraw(&name);
            pool.release(&name, uid)
        }
        // Nobody knows but the management API.
        None => Release::Decided,
    };
    let record = match left {
        Release::Busy => return Ok(Released::Later(SHORTLY)),
        Release::Exists(record) => Some(record),
        // The cache of a pool that was made anew, or a decision, may be behind or ahead of what there is.
        Release::Decided | Release::Nothing => {
            let there = addresses(claim, context).get_opt(&claim.name_any()).await;
            let there = there.map_err(|source| failed("get", claim, source))?;
            let of_pool = there.as_ref().and_then(Record::of);
            of_pool
                .filter(|(key, ..)| PoolKey::of_claim(claim).as_ref() == Some(key))
                .map(|(_, _, record)| record)
        }
    };
    // One that is not the claim's own is left alone, whatever its name.
    if let Some(record) = record.filter(|record| record.claim_uid.as_deref() == Some(uid))
        && let Some(wait) = give_back(claim, &record, pool, context).await?
    {
        return Ok(Released::Later(wait));
    }
    if let Some(pool) = pool {
        pool.drop_decision(&name, uid);
        context.metrics.released(pool.key.kind);
    }
    let claims = Api::<IPAddressClaim>::namespaced(context.client.clone(), name.namespace());
    match patch::remove_finalizer(&claims, claim, finalizers::CLAIM).await.map_err(Error::Claim)? {
        // Others hold it still.
        Some(left) if !left.finalizers().is_empty() => context.ahead.wrote(&left),
        // The answer to the last write is of the version before it.
        _ => context.ahead.let_go(claim),
    }
    Ok(Released::Done)
}

/// Gives back the IPAddress that is the claim's own; how long to wait when it is not time yet.
async fn give_back(
    claim: &IPAddressClaim,
    record: &Record,
    pool: Option<&Arc<Pool>>,
    context: &Context,
) -> Result<Option<Duration>, Error> {
    let name = owner(&claim.metadata);
    let facts = pool.map(|pool| pool.facts()).unwrap_or_default();
    let grace = if facts.deleting { 0 } else { facts.grace_period_seconds };
    let released_at = claim.metadata.deletion_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let _turn = match pool {
        Some(pool) => Some(pool.turn_to_write().await),
        None => None,
    };
    if grace > 0 {
        // Somebody deleted the IPAddress before the claim: the time of that says nothing about the release, so the
        // claim itself has to keep it.
        if record.deleted_at.is_some_and(|deleted_at| deleted_at < released_at) {
            let left = remaining(released_at, grace, context.now());
            if !left.is_zero() {
                return Ok(Some(left));
            }
        } else {
            hold_back(&context.client, &name, record).await.map_err(Error::Address)?;
            return Ok(None);
        }
    }
    match let_go(&context.client, &name, record).await.map_err(Error::Address)? {
        Left::Nothing => {
            if let Some(pool) = pool {
                pool.released(&name, &record.uid);
            }
            Ok(None)
        }
        // It stays in use until they let it go, which is no reason for the claim to stay.
        Left::Held => Ok(None),
        Left::Changed => Ok(Some(SHORTLY)),
    }
}

/// Tells the pool of an IPAddress that was seen.
fn note(pool: &Pool, address: &IPAddress) {
    if let Some((key, owner, record)) = Record::of(address)
        && key == pool.key
    {
        pool.applied(&owner, record);
    }
}

fn addresses(claim: &IPAddressClaim, context: &Context) -> Api<IPAddress> {
    Api::namespaced(context.client.clone(), &claim.namespace().unwrap_or_default())
}

fn failed(verb: &'static str, claim: &IPAddressClaim, source: kube::Error) -> Error {
    Error::Address(PatchError::Request {
        verb,
        object: format!("IPAddress {}", owner(&claim.metadata)),
        source,
    })
}
