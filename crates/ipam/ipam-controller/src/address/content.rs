//! The content of an IPAddress: pure functions of the claim, the pool and the grant.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt as _;
use nephele_api::{
    ipam::{
        finalizers,
        v1beta2::{IPAddress, IPAddressClaim, IPAddressSpec, NameReference},
    },
    labels,
};

use super::record::{CLAIM_KIND, is_reference_to, version_of};
use crate::pool::{Grant, PoolKey};

/// The IPAddress of a claim.
pub(crate) fn address_of_claim(
    claim: &IPAddressClaim,
    pool: &PoolKey,
    pool_uid: &str,
    grant: &Grant,
) -> IPAddress {
    let mut address = IPAddress {
        metadata: ObjectMeta {
            name: Some(claim.name_any()),
            namespace: claim.namespace(),
            ..ObjectMeta::default()
        },
        spec: IPAddressSpec {
            claim_ref: NameReference {
                name: claim.name_any(),
            },
            pool_ref: claim.spec.pool_ref.clone(),
            address: grant.address.to_string(),
            prefix: Some(grant.prefix.into()),
            gateway: grant.gateway.clone(),
        },
    };
    bind(&mut address, claim, pool, pool_uid);
    address
}

/// The existing IPAddress with what makes it the claim's: owner references, label and finalizer. Its other owners
/// stay, in front of the claim and the pool.
///
/// # Errors
/// The kind and name of another object that controls the IPAddress.
pub(crate) fn adopted(
    address: &IPAddress,
    claim: &IPAddressClaim,
    pool: &PoolKey,
    pool_uid: &str,
) -> Result<IPAddress, String> {
    let name = claim.name_any();
    let rival = address
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true) && !is_reference_to(owner, CLAIM_KIND, &name));
    if let Some(rival) = rival {
        return Err(format!("{} {}", rival.kind, rival.name));
    }
    let mut address = address.clone();
    bind(&mut address, claim, pool, pool_uid);
    Ok(address)
}

/// Whether the existing IPAddress is the one to create: the response to the first request was lost, or another
/// manager created it.
pub(crate) fn same(there: &IPAddress, made: &IPAddress) -> bool {
    let claim = |address: &IPAddress| {
        super::record::claim_owner(&address.metadata.owner_references, &address.name_any())
            .map(|owner| owner.uid.clone())
    };
    there.spec == made.spec && claim(there) == claim(made) && there.metadata.deletion_timestamp.is_none()
}

fn bind(address: &mut IPAddress, claim: &IPAddressClaim, pool: &PoolKey, pool_uid: &str) {
    let claim_owner = OwnerReference {
        api_version: version_of(CLAIM_KIND),
        kind: CLAIM_KIND.to_owned(),
        name: claim.name_any(),
        uid: claim.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let pool_owner = OwnerReference {
        api_version: version_of(pool.kind.as_str()),
        kind: pool.kind.as_str().to_owned(),
        name: pool.name.clone(),
        uid: pool_uid.to_owned(),
        controller: Some(false),
        block_owner_deletion: Some(true),
    };
    for owner in [claim_owner, pool_owner] {
        let owners = address.owner_references_mut();
        let is_same = |known: &OwnerReference| is_reference_to(known, &owner.kind, &owner.name);
        let place = owners.iter().position(is_same).unwrap_or(owners.len());
        owners.retain(|known| !is_same(known));
        owners.insert(place, owner);
    }
    if let Some(cluster) = labels::value(&claim.metadata, labels::CLUSTER_NAME) {
        address
            .labels_mut()
            .insert(labels::CLUSTER_NAME.to_owned(), cluster.to_owned());
    }
    if !address
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == finalizers::ADDRESS)
    {
        address.finalizers_mut().push(finalizers::ADDRESS.to_owned());
    }
}
