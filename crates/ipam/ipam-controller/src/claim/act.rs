//! Creates, takes over and releases the IPAddress of a claim. Every function here may be repeated.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Api, ResourceExt as _};
use nephele_api::ipam::{
    finalizers,
    v1beta2::{IPAddress, IPAddressClaim},
};
use nephele_controller::{PatchError, Precondition, patch};
use tracing::info;

use super::error::Error;
use crate::{
    address::{
        Record, ReleaseResult, address_of_claim, adopted, create, hold_back, is_answered, release_address,
        same,
    },
    context::Context,
    fault::Release,
    owner::owner,
    pool::{Allocation, Grant, Pool, PoolKey, remaining},
};

/// How long to wait for a write that is in progress.
pub(super) const SHORTLY: Duration = Duration::from_millis(100);

/// The result of creating or taking over an IPAddress.
pub(super) enum Binding {
    /// The IPAddress exists and belongs to the claim.
    Done,
    /// It is not possible for this reason. A watch shows when that changes.
    Refused(String),
    /// The management API refuses the IPAddress for this reason. No watch shows when it would accept it.
    Denied(String),
    /// Another IPAddress has the name. The pool knows that now, and has to be asked again.
    AskAgain,
}

/// The result of adding our finalizer to a claim.
pub(super) enum Protected {
    /// The claim had it.
    Already,
    /// The claim has it now; the claim as written.
    Now(Box<IPAddressClaim>),
    /// The claim is gone.
    Gone,
}

/// The result of releasing a claim.
pub(super) enum Released {
    /// The claim is released, and our finalizer is gone.
    Done,
    /// The claim has to be reconciled again after this time.
    Later(Duration),
    /// The claim is reconciled again when the status of a Fault says that it holds the address back.
    Unrecorded,
}

/// Adds the finalizer that keeps the claim until its address is released.
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
) -> Result<Binding, Error> {
    let made = address_of_claim(claim, &pool.key, &pool.facts().uid, grant);
    let api = addresses(claim, context);
    let name = owner(&claim.metadata);
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let _permit = pool.write_permit().await;
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
            Ok(Binding::Done)
        }
        Err(kube::Error::Api(status)) if status.code == 409 => there_already(claim, pool, &made, &api).await,
        // A webhook that sets no code refuses with 403.
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            // Another claim can use the address meanwhile, unless an earlier request has no response yet. Then the
            // address stays reserved.
            pool.drop_decision(&name, uid);
            Ok(Binding::Denied(format!(
                "the management API refused the IPAddress: {}",
                status.message
            )))
        }
        Err(source) => Err(failed("create", claim, source)),
    }
}

/// The result when an IPAddress of the claim's name exists already: the one to create, or another one.
async fn there_already(
    claim: &IPAddressClaim,
    pool: &Pool,
    made: &IPAddress,
    api: &Api<IPAddress>,
) -> Result<Binding, Error> {
    let there = api
        .get_opt(&claim.name_any())
        .await
        .map_err(|source| failed("get", claim, source))?;
    let Some(there) = there else {
        return Ok(Binding::AskAgain);
    };
    if same(&there, made) {
        note(pool, &there);
        return Ok(Binding::Done);
    }
    if PoolKey::of_address(&there).as_ref() == Some(&pool.key) {
        note(pool, &there);
        return Ok(Binding::AskAgain);
    }
    // The claim is reconciled again when that IPAddress is gone. Until then others can have the claim's address.
    pool.drop_decision(
        &owner(&claim.metadata),
        claim.metadata.uid.as_deref().unwrap_or_default(),
    );
    let reference = &there.spec.pool_ref;
    Ok(Binding::Refused(format!(
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
) -> Result<Binding, Error> {
    let api = addresses(claim, context);
    let there = api
        .get_opt(&claim.name_any())
        .await
        .map_err(|source| failed("get", claim, source))?;
    let Some(there) = there else {
        return Ok(Binding::AskAgain);
    };
    if PoolKey::of_address(&there).as_ref() != Some(&pool.key) {
        return Ok(Binding::AskAgain);
    }
    let taken_over = match adopted(&there, claim, &pool.key, &pool.facts().uid) {
        Ok(taken_over) => taken_over,
        Err(rival) => {
            let name = owner(&claim.metadata);
            pool.drop_decision(&name, claim.metadata.uid.as_deref().unwrap_or_default());
            return Ok(Binding::Refused(format!(
                "IPAddress {name} exists and is controlled by {rival}"
            )));
        }
    };
    let _permit = pool.write_permit().await;
    let written = patch::object(&api, &there, &taken_over, Precondition::ResourceVersion).await;
    let written = written.map_err(Error::Address)?.unwrap_or(taken_over);
    note(pool, &written);
    info!(address = written.spec.address, "Took over an existing IPAddress");
    Ok(Binding::Done)
}

/// Releases the IPAddress of the claim, and removes our finalizer from the claim.
pub(super) async fn release(
    claim: &IPAddressClaim,
    pool: Option<&Arc<Pool>>,
    context: &Context,
) -> Result<Released, Error> {
    let name = owner(&claim.metadata);
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let allocation = match pool {
        Some(pool) => {
            pool.withdraw(&name);
            pool.allocation(&name, uid)
        }
        // Without the pool, only the management API knows the IPAddress.
        None => Allocation::Decided,
    };
    let record = match allocation {
        Allocation::BeingWritten => return Ok(Released::Later(SHORTLY)),
        Allocation::Exists(record) => Some(record),
        // The pool may know less than the management API, after a rebuild, or more, with a decision.
        Allocation::Decided | Allocation::Nothing => {
            let there = addresses(claim, context).get_opt(&claim.name_any()).await;
            let there = there.map_err(|source| failed("get", claim, source))?;
            let of_pool = there.as_ref().and_then(Record::of);
            of_pool
                .filter(|(key, ..)| PoolKey::of_claim(claim).as_ref() == Some(key))
                .map(|(_, _, record)| record)
        }
    };
    // An IPAddress of the same name that does not belong to the claim stays as it is.
    if let Some(record) = record.filter(|record| record.claim_uid.as_deref() == Some(uid))
        && let Some(released) = give_back(claim, &record, pool, context).await?
    {
        return Ok(released);
    }
    if let Some(pool) = pool {
        pool.drop_decision(&name, uid);
        context.metrics.released(pool.key.kind);
    }
    context.faults.left(claim);
    let claims = Api::<IPAddressClaim>::namespaced(context.client.clone(), name.namespace());
    match patch::remove_finalizer(&claims, claim, finalizers::CLAIM)
        .await
        .map_err(Error::Claim)?
    {
        // Other finalizers still hold the claim.
        Some(left) if !left.finalizers().is_empty() => context.ahead.wrote(&left),
        // The response to the write that removes the last finalizer has the version before the deletion.
        _ => context.ahead.deleted(claim),
    }
    Ok(Released::Done)
}

/// Releases the IPAddress of the claim; returns what to wait for when it cannot be released yet.
async fn give_back(
    claim: &IPAddressClaim,
    record: &Record,
    pool: Option<&Arc<Pool>>,
    context: &Context,
) -> Result<Option<Released>, Error> {
    let name = owner(&claim.metadata);
    let facts = pool.map(|pool| pool.facts()).unwrap_or_default();
    let grace = if facts.deleting {
        0
    } else {
        facts.grace_period_seconds
    };
    let released_at = claim
        .metadata
        .deletion_timestamp
        .as_ref()
        .map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let late = match pool.filter(|_| context.faults.any() && !facts.deleting) {
        None => Release::Now,
        Some(pool) => {
            let subject = context.subject(claim);
            let now = context.now();
            context
                .faults
                .release(&subject, &pool.key, record.block, released_at, now)
        }
    };
    let late = match late {
        Release::Now => None,
        Release::Unrecorded => return Ok(Some(Released::Unrecorded)),
        Release::At(until) => Some(until),
    };
    let _permit = match pool {
        Some(pool) => Some(pool.write_permit().await),
        None => None,
    };
    if grace > 0 || late.is_some() {
        // A client deleted the IPAddress before the claim. Its deletion timestamp is not the time of the release, so
        // the claim has to stay for the grace period.
        if record
            .deleted_at
            .is_some_and(|deleted_at| deleted_at < released_at)
        {
            let now = context.now();
            let left = late.map_or(Duration::ZERO, |until| remaining(until, 0, now));
            let left = left.max(remaining(released_at, grace, now));
            if !left.is_zero() {
                return Ok(Some(Released::Later(left)));
            }
        } else {
            hold_back(&context.client, &name, record)
                .await
                .map_err(Error::Address)?;
            return Ok(None);
        }
    }
    match release_address(&context.client, &name, record)
        .await
        .map_err(Error::Address)?
    {
        ReleaseResult::Nothing => {
            if let Some(pool) = pool {
                pool.released(&name, &record.uid);
            }
            Ok(None)
        }
        // The address is in use until others remove their finalizers, but the claim does not have to wait for that.
        ReleaseResult::Held => Ok(None),
        ReleaseResult::Changed => Ok(Some(Released::Later(SHORTLY))),
    }
}

/// Passes an IPAddress from a response to the pool.
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
