//! What a pool keeps of an IPAddress.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use nephele_api::ipam::v1beta2::IPAddress;
use nephele_api::ipam::{GROUP, finalizers};
use nephele_ipam::Owner;

use crate::pool::{Block, PoolKey};

/// The kind of claims.
pub(crate) const CLAIM_KIND: &str = "IPAddressClaim";

/// What is kept of an IPAddress: some 200 bytes where the object has 2,000.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) uid: Box<str>,
    /// The resource version as a number; only ever compared with others of this object or of a list of its kind
    /// (KEP-5504: resource versions of one kind are ordered numbers).
    pub(crate) version: u64,
    /// The address or prefix that it has; none when that cannot be read.
    pub(crate) block: Option<Block>,
    /// The uid of the claim that owns it, when one does.
    pub(crate) claim_uid: Option<Box<str>>,
    /// Whether its pool owns it too; only this provider adds that owner.
    pub(crate) owned_by_pool: bool,
    pub(crate) finalizers: Finalizers,
    /// When its deletion was requested.
    pub(crate) deleted_at: Option<Timestamp>,
}

/// Whose finalizers an IPAddress has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finalizers {
    /// Not this provider's.
    Foreign,
    /// Only this provider's.
    Ours,
    /// This provider's and others'.
    Shared,
}

impl Record {
    /// The record of an IPAddress, with its pool and the name it goes by; none for another provider's.
    pub(crate) fn of(address: &IPAddress) -> Option<(PoolKey, Owner, Self)> {
        let pool = PoolKey::of_address(address)?;
        let name = address.name_any();
        let owner = Owner::new(&address.namespace().unwrap_or_default(), &name);
        let block = Block::read(pool.kind, &address.spec.address, address.spec.prefix);
        let record = Self {
            uid: address.uid().unwrap_or_default().into(),
            version: version(address.metadata.resource_version.as_deref()),
            block,
            claim_uid: claim_owner(&address.metadata.owner_references, &name)
                .map(|owner| owner.uid.as_str().into()),
            owned_by_pool: address
                .owner_references()
                .iter()
                .any(|owner| is_reference_to(owner, pool.kind.as_str(), &pool.name)),
            finalizers: Finalizers::of(address.finalizers()),
            deleted_at: address.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        };
        Some((pool, owner, record))
    }

    /// Whether this provider, not a person, manages it.
    pub(crate) fn is_managed(&self) -> bool {
        self.finalizers != Finalizers::Foreign || self.claim_uid.is_some() || self.owned_by_pool
    }

    /// Whether it has its owners and our finalizer. One that is being deleted may have lost some of them.
    pub(crate) fn is_whole(&self) -> bool {
        let kept = self.finalizers != Finalizers::Foreign && self.claim_uid.is_some() && self.owned_by_pool;
        kept || self.deleted_at.is_some()
    }
}

impl Finalizers {
    fn of(finalizers: &[String]) -> Self {
        match (finalizers.iter().any(|finalizer| finalizer == finalizers::ADDRESS), finalizers.len()) {
            (false, _) => Self::Foreign,
            (true, 1) => Self::Ours,
            (true, _) => Self::Shared,
        }
    }
}

/// The owner reference to the claim of this name, in whatever version it was written.
pub(crate) fn claim_owner<'a>(
    owners: &'a Option<Vec<OwnerReference>>,
    name: &str,
) -> Option<&'a OwnerReference> {
    owners.iter().flatten().find(|owner| is_reference_to(owner, CLAIM_KIND, name))
}

/// Whether an owner reference is to the object of this kind, group and name, whatever the version.
pub(crate) fn is_reference_to(owner: &OwnerReference, kind: &str, name: &str) -> bool {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    group == GROUP && owner.kind == kind && owner.name == name
}

/// A resource version as a number; zero when it is not one.
pub(crate) fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
