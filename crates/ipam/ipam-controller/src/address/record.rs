//! The record that a pool keeps of an IPAddress.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use nephele_api::ipam::{
    GROUP, finalizers, v1alpha2,
    v1beta2::{self, IPAddress},
};
use nephele_ipam::Owner;

use crate::pool::{Block, PoolKey};

/// The kind of claims.
pub(crate) const CLAIM_KIND: &str = "IPAddressClaim";

/// The parts of an IPAddress that a pool needs: some 200 bytes, where the object has 2,000.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) uid: Box<str>,
    /// The resource version as a number; only ever compared with others of this object or of a list of its kind
    /// (KEP-5504: resource versions of one kind are ordered numbers).
    pub(crate) version: u64,
    /// The address or prefix; none if it cannot be parsed.
    pub(crate) block: Option<Block>,
    /// The uid of the claim in its owner references, if there is one.
    pub(crate) claim_uid: Option<Box<str>>,
    /// Whether its pool is an owner, too. Only this provider adds that owner.
    pub(crate) owned_by_pool: bool,
    /// Whether it names these owners by the versions of their kinds that are written now.
    pub(crate) is_current: bool,
    pub(crate) finalizers: Finalizers,
    pub(crate) deleted_at: Option<Timestamp>,
}

/// The finalizers of an IPAddress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finalizers {
    /// None of this provider.
    Foreign,
    /// Only the one of this provider.
    Ours,
    /// The one of this provider, and others.
    Shared,
}

impl Record {
    /// The record of an IPAddress, with its pool and its name; none if the pool is of another provider.
    pub(crate) fn of(address: &IPAddress) -> Option<(PoolKey, Owner, Self)> {
        let pool = PoolKey::of_address(address)?;
        let name = address.name_any();
        let owner = Owner::new(&address.namespace().unwrap_or_default(), &name);
        let block = Block::read(pool.kind, &address.spec.address, address.spec.prefix);
        let mut owners = address.owner_references().iter();
        let is_outdated = owners.any(|owner| {
            let is_ours = is_reference_to(owner, CLAIM_KIND, &name)
                || is_reference_to(owner, pool.kind.as_str(), &pool.name);
            is_ours && !is_written(owner)
        });
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
            is_current: !is_outdated,
            finalizers: Finalizers::of(address.finalizers()),
            deleted_at: address.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        };
        Some((pool, owner, record))
    }

    /// Whether this provider manages the IPAddress, not a person.
    pub(crate) fn is_managed(&self) -> bool {
        self.finalizers != Finalizers::Foreign || self.claim_uid.is_some() || self.owned_by_pool
    }

    /// Whether the IPAddress has its owners, as they are written now, and our finalizer. One that is being deleted may have lost some of them.
    pub(crate) fn is_whole(&self) -> bool {
        let is_owned = self.claim_uid.is_some() && self.owned_by_pool && self.is_current;
        let kept = self.finalizers != Finalizers::Foreign && is_owned;
        kept || self.deleted_at.is_some()
    }
}

impl Finalizers {
    fn of(finalizers: &[String]) -> Self {
        match (
            finalizers
                .iter()
                .any(|finalizer| finalizer == finalizers::ADDRESS),
            finalizers.len(),
        ) {
            (false, _) => Self::Foreign,
            (true, 1) => Self::Ours,
            (true, _) => Self::Shared,
        }
    }
}

/// The owner reference to the claim of this name, in any API version.
pub(crate) fn claim_owner<'a>(
    owners: &'a Option<Vec<OwnerReference>>,
    name: &str,
) -> Option<&'a OwnerReference> {
    owners
        .iter()
        .flatten()
        .find(|owner| is_reference_to(owner, CLAIM_KIND, name))
}

/// Whether an owner reference is to the object of this kind and name in our group, in any API version.
pub(crate) fn is_reference_to(owner: &OwnerReference, kind: &str, name: &str) -> bool {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    group == GROUP && owner.kind == kind && owner.name == name
}

/// The version of an owner's kind that is written: that of claims, or of pools.
pub(crate) fn version_of(kind: &str) -> String {
    let version = match kind {
        CLAIM_KIND => v1beta2::VERSION,
        _ => v1alpha2::VERSION,
    };
    format!("{GROUP}/{version}")
}

/// The version of claims before Cluster API 1.11. Where the API server serves no other, the manager's client writes references
/// with it, whatever this controller asks for, so such a reference is as it is written now.
const EARLIER: &str = "v1beta1";

/// Whether a reference names its owner by a version that is written now.
fn is_written(owner: &OwnerReference) -> bool {
    let is_earlier = owner.kind == CLAIM_KIND && owner.api_version == format!("{GROUP}/{EARLIER}");
    is_earlier || owner.api_version == version_of(&owner.kind)
}

/// A resource version as a number; zero if it is not a number.
pub(crate) fn version(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
