//! Releases an IPAddress. Everything here may be repeated.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use nephele_api::ipam::{finalizers, v1beta2::IPAddress};
use nephele_controller::{Deleted, PatchError, Precondition, patch};
use nephele_ipam::Owner;

use super::record::{CLAIM_KIND, Finalizers, Record, is_reference_to};

/// The result of releasing an IPAddress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleaseResult {
    /// The IPAddress is gone.
    Nothing,
    /// The IPAddress is being deleted, but another finalizer holds it.
    Held,
    /// The IPAddress was changed meanwhile; the watch will show the change.
    Changed,
}

/// Removes this provider's finalizer and deletes exactly the IPAddress of the record.
///
/// # Errors
/// When the management API refuses, or cannot be reached.
pub(crate) async fn release_address(
    client: &Client,
    owner: &Owner,
    record: &Record,
) -> Result<ReleaseResult, PatchError> {
    let api = Api::<IPAddress>::namespaced(client.clone(), owner.namespace());
    let stub = stub(owner, record);
    // The patch replaces the whole list of finalizers, so the list has to be known.
    let stub = match record.finalizers {
        Finalizers::Ours | Finalizers::Foreign => stub,
        Finalizers::Shared => match read(&api, owner, record).await? {
            Some(address) => address,
            None => return Ok(ReleaseResult::Nothing),
        },
    };
    match patch::remove_finalizer(&api, &stub, finalizers::ADDRESS).await {
        Ok(_) => {}
        Err(error) if error.is_conflict() => {
            let gone = read(&api, owner, record).await?.is_none();
            return Ok(if gone {
                ReleaseResult::Nothing
            } else {
                ReleaseResult::Changed
            });
        }
        Err(error) => return Err(error),
    }
    Ok(match patch::delete(&api, &stub).await? {
        Deleted::Gone => ReleaseResult::Nothing,
        Deleted::InProgress => ReleaseResult::Held,
    })
}

/// Deletes an IPAddress that is held back: our finalizer keeps it, and its deletion timestamp is the time of the
/// release. The claim is removed from its owners, so that a foreground deletion of the claim does not wait for it.
///
/// # Errors
/// When the management API refuses, or cannot be reached.
pub(crate) async fn hold_back(client: &Client, owner: &Owner, record: &Record) -> Result<(), PatchError> {
    let api = Api::<IPAddress>::namespaced(client.clone(), owner.namespace());
    let Some(address) = read(&api, owner, record).await? else {
        return Ok(());
    };
    let mut disowned = address.clone();
    if let Some(owners) = &mut disowned.metadata.owner_references {
        owners.retain(|reference| !is_reference_to(reference, CLAIM_KIND, owner.name()));
    }
    // The deletion comes first, so that the IPAddress is never without a claim and not deleted.
    patch::delete(&api, &address).await?;
    let Some(current) = read(&api, owner, record).await? else {
        return Ok(());
    };
    disowned
        .metadata
        .resource_version
        .clone_from(&current.metadata.resource_version);
    patch::object(&api, &current, &disowned, Precondition::ResourceVersion)
        .await
        .map(drop)
}

async fn read(api: &Api<IPAddress>, owner: &Owner, record: &Record) -> Result<Option<IPAddress>, PatchError> {
    let read = api
        .get_opt(owner.name())
        .await
        .map_err(|source| PatchError::Request {
            verb: "get",
            object: format!("IPAddress {owner}"),
            source,
        })?;
    Ok(read.filter(|address| address.metadata.uid.as_deref() == Some(&*record.uid)))
}

/// An IPAddress with the fields that a write of its finalizers needs.
fn stub(owner: &Owner, record: &Record) -> IPAddress {
    IPAddress {
        metadata: ObjectMeta {
            name: Some(owner.name().to_owned()),
            namespace: Some(owner.namespace().to_owned()),
            uid: Some(record.uid.to_string()),
            resource_version: Some(record.version.to_string()),
            finalizers: (record.finalizers == Finalizers::Ours).then(|| vec![finalizers::ADDRESS.to_owned()]),
            ..ObjectMeta::default()
        },
        ..IPAddress::default()
    }
}
