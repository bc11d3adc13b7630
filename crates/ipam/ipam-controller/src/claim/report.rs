//! Writes the status of a claim: one patch, skipped when nothing changed.

use jiff::Timestamp;
use kube::{Api, ResourceExt as _};
use nephele_api::{
    conditions::{self, condition, types},
    ipam::{
        conditions as reasons,
        v1beta2::{IPAddressClaim, IPAddressClaimStatus, NameReference},
    },
};
use nephele_controller::{PatchError, Precondition, patch};
use tracing::info;

use super::error::Error;
use crate::{context::Context, owner::owner, pool::Pool};

/// Writes why a claim has no address. A claim that has an address keeps it in its status.
pub(super) async fn waiting(
    claim: &IPAddressClaim,
    context: &Context,
    reason: &'static str,
    message: &str,
) -> Result<(), Error> {
    let status = waiting_status(claim, reason, message, context.now());
    match write(claim, context, status).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => other.map(drop).map_err(Error::Claim),
    }
}

/// Writes that a claim has its address; true if that is new. If the write fails, the claim may be gone. Then the
/// pool's task deletes the IPAddress that was just created for it.
pub(super) async fn bound(claim: &IPAddressClaim, pool: &Pool, context: &Context) -> Result<bool, Error> {
    let status = bound_status(claim, context.now());
    match write(claim, context, status).await {
        Ok(written) => {
            pool.published(&owner(&claim.metadata));
            if written {
                info!("Bound the claim to its IPAddress");
            }
            Ok(written)
        }
        Err(error) => {
            pool.suspect(&owner(&claim.metadata));
            Err(Error::Claim(error))
        }
    }
}

async fn write(
    claim: &IPAddressClaim,
    context: &Context,
    status: IPAddressClaimStatus,
) -> Result<bool, PatchError> {
    let mut reported = claim.clone();
    reported.status = Some(status);
    let api = api(claim, context);
    let written = patch::status(&api, claim, &reported, Precondition::ResourceVersion).await?;
    if let Some(written) = &written {
        context.ahead.wrote(written);
    }
    Ok(written.is_some())
}

fn api(claim: &IPAddressClaim, context: &Context) -> Api<IPAddressClaim> {
    Api::namespaced(context.client.clone(), &claim.namespace().unwrap_or_default())
}

/// The status of a claim without an address. Pure.
pub(super) fn waiting_status(
    claim: &IPAddressClaim,
    reason: &'static str,
    message: &str,
    now: Timestamp,
) -> IPAddressClaimStatus {
    ready(claim, conditions::FALSE, reason, message, now)
}

/// The status of a claim with an address; its IPAddress has the same name. Pure.
pub(super) fn bound_status(claim: &IPAddressClaim, now: Timestamp) -> IPAddressClaimStatus {
    let mut status = ready(claim, conditions::TRUE, reasons::ADDRESS_ALLOCATED, "", now);
    status.address_ref = Some(NameReference {
        name: claim.name_any(),
    });
    status
}

fn ready(
    claim: &IPAddressClaim,
    holds: &str,
    reason: &'static str,
    message: &str,
    now: Timestamp,
) -> IPAddressClaimStatus {
    let mut status = claim.status.clone().unwrap_or_default();
    let mut condition = condition(types::READY, holds, reason, message);
    condition.observed_generation = claim.metadata.generation;
    conditions::set(&mut status.conditions, condition, now);
    status
}
