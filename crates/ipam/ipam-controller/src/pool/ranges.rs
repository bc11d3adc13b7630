//! The addresses or prefixes of one pool, and their owners.

use std::{collections::BTreeSet, fmt, net::IpAddr};

use nephele_api::ipam::{
    PoolKind,
    v1alpha2::{InClusterIPPoolSpec, InClusterPrefixPoolSpec},
};
use nephele_ipam::{
    AddressPool, AddressPoolSpec, AddressSet, AllocateAddressError, AllocatePrefixError, FieldError, Owner,
    Prefix, PrefixPool, PrefixPoolSpec, StatusCounts, parse_address,
};

use super::kinds::PoolSpec;

/// The address or prefix that one IPAddress takes from a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Block {
    /// A single address.
    Address(IpAddr),
    /// A prefix.
    Prefix(Prefix),
}

impl Block {
    /// The address or prefix in an IPAddress's spec; none if it cannot be parsed.
    pub(crate) fn read(kind: PoolKind, address: &str, prefix: Option<i32>) -> Option<Self> {
        let address = parse_address(address).ok()?;
        if !kind.has_prefixes() {
            return Some(Self::Address(address));
        }
        let length = u8::try_from(prefix?).ok().filter(|length| *length <= 128)?;
        match address {
            IpAddr::V6(address) => Some(Self::Prefix(Prefix::new(address, length))),
            IpAddr::V4(_) => None,
        }
    }

    /// The address in an IPAddress's spec.
    pub(crate) fn address(self) -> IpAddr {
        match self {
            Self::Address(address) => address,
            Self::Prefix(prefix) => prefix.base().into(),
        }
    }

    /// Whether the two blocks have an address in common.
    pub(crate) fn overlaps(self, other: Self) -> bool {
        match (self, other) {
            (Self::Prefix(prefix), Self::Prefix(other)) => prefix.overlaps(other),
            (block, other) => block == other,
        }
    }

    /// The length of a prefix; none for an address.
    pub(crate) fn length(self) -> Option<u8> {
        match self {
            Self::Address(_) => None,
            Self::Prefix(prefix) => Some(prefix.length()),
        }
    }
}

/// Why nothing was allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No address or prefix is free.
    Exhausted,
    /// The wanted address is not available while this block holds it.
    Taken { by: Block, message: String },
    /// The wanted address is not in the pool.
    Impossible { message: String },
}

/// Why a spec cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SpecError {
    /// The message says what cannot be read.
    Unreadable(String),
    /// The fields that cannot be used.
    Fields(Vec<FieldError>),
}

impl From<Vec<FieldError>> for SpecError {
    fn from(errors: Vec<FieldError>) -> Self {
        Self::Fields(errors)
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(mistake) => f.write_str(mistake),
            Self::Fields(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&errors.join("; "))
            }
        }
    }
}

/// The allocator of one pool.
#[derive(Debug, Clone)]
pub(crate) enum PoolRanges {
    Addresses { pool: AddressPool, gateway: String },
    Prefixes { pool: PrefixPool, gateway: String },
}

/// The content of the IPAddress that a claim gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) address: IpAddr,
    pub(crate) prefix: u8,
    /// As in the pool's spec; empty for none.
    pub(crate) gateway: String,
}

impl PoolRanges {
    /// An allocator with nothing allocated.
    ///
    /// # Errors
    /// The errors of the spec.
    pub(crate) fn new(spec: &PoolSpec) -> Result<Self, SpecError> {
        match spec {
            PoolSpec::Addresses(spec) => Ok(Self::Addresses {
                pool: AddressPool::new(address_spec(spec).validate()?),
                gateway: spec.gateway.clone(),
            }),
            PoolSpec::Prefixes(spec) => Ok(Self::Prefixes {
                pool: PrefixPool::new(prefix_spec(spec).validate()?),
                gateway: spec.gateway.clone(),
            }),
            PoolSpec::Unreadable(mistake) => Err(SpecError::Unreadable(mistake.clone())),
        }
    }

    /// Switches to another spec. Allocated addresses stay allocated.
    ///
    /// # Errors
    /// The errors of the spec; then nothing changes.
    pub(crate) fn respecify(&mut self, spec: &PoolSpec) -> Result<(), SpecError> {
        match (self, spec) {
            (Self::Addresses { pool, gateway }, PoolSpec::Addresses(spec)) => {
                pool.replace_layout(address_spec(spec).validate()?);
                gateway.clone_from(&spec.gateway);
            }
            (Self::Prefixes { pool, gateway }, PoolSpec::Prefixes(spec)) => {
                pool.replace_layout(prefix_spec(spec).validate()?);
                gateway.clone_from(&spec.gateway);
            }
            (ranges, spec) => *ranges = Self::new(spec)?,
        }
        Ok(())
    }

    /// Allocates the wanted address, or the lowest free one.
    pub(crate) fn allocate(&mut self, owner: &Owner, wanted: Option<IpAddr>) -> Result<Block, Refusal> {
        match self {
            Self::Addresses { pool, .. } => {
                pool.allocate(owner, wanted)
                    .map(Block::Address)
                    .map_err(|error| match &error {
                        AllocateAddressError::Exhausted => Refusal::Exhausted,
                        AllocateAddressError::NotAllocatable(_) => Refusal::Impossible {
                            message: error.to_string(),
                        },
                        AllocateAddressError::InUse {
                            address,
                            owner: rival,
                        } => {
                            let by = Block::Address(*address);
                            Refusal::Taken {
                                by,
                                message: in_use(&error, &format!("address {address}"), owner, rival),
                            }
                        }
                        AllocateAddressError::Quarantined(address) => Refusal::Taken {
                            by: Block::Address(*address),
                            message: error.to_string(),
                        },
                    })
            }
            Self::Prefixes { pool, .. } => {
                let length = pool.layout().allocation_prefix_length();
                let wanted = match wanted {
                    None => None,
                    Some(IpAddr::V6(address)) if Prefix::new(address, length).base() == address => {
                        Some(Prefix::new(address, length))
                    }
                    Some(address) => {
                        let message = format!("prefix {address}/{length} cannot be allocated from the pool");
                        return Err(Refusal::Impossible { message });
                    }
                };
                pool.allocate(owner, wanted)
                    .map(Block::Prefix)
                    .map_err(|error| match &error {
                        AllocatePrefixError::Exhausted => Refusal::Exhausted,
                        AllocatePrefixError::NotAllocatable(_) => Refusal::Impossible {
                            message: error.to_string(),
                        },
                        AllocatePrefixError::InUse { prefix, owner: rival } => {
                            let by = Block::Prefix(*prefix);
                            Refusal::Taken {
                                by,
                                message: in_use(&error, &format!("prefix {prefix}"), owner, rival),
                            }
                        }
                        AllocatePrefixError::Quarantined(prefix) => Refusal::Taken {
                            by: Block::Prefix(*prefix),
                            message: error.to_string(),
                        },
                    })
            }
        }
    }

    /// The block that `allocate` would return to an owner without one. None if it would return an error.
    pub(crate) fn next(&self, owner: &Owner, wanted: Option<IpAddr>) -> Option<Block> {
        match (self, wanted) {
            (Self::Addresses { pool, .. }, wanted) => pool.next(owner, wanted).ok().map(Block::Address),
            (Self::Prefixes { pool, .. }, None) => pool.next(owner, None).ok().map(Block::Prefix),
            (Self::Prefixes { pool, .. }, Some(IpAddr::V6(address))) => {
                let prefix = Prefix::new(address, pool.layout().allocation_prefix_length());
                let is_base = prefix.base() == address;
                pool.next(owner, Some(prefix))
                    .ok()
                    .filter(|_| is_base)
                    .map(Block::Prefix)
            }
            (Self::Prefixes { .. }, Some(IpAddr::V4(_))) => None,
        }
    }

    /// Sets exactly these blocks aside, and returns those that were set aside before.
    pub(crate) fn quarantine(&mut self, blocks: &BTreeSet<Block>) -> Vec<Block> {
        let before: BTreeSet<Block> = match self {
            Self::Addresses { pool, .. } => pool.quarantined().map(Block::Address).collect(),
            Self::Prefixes { pool, .. } => pool.quarantined().map(Block::Prefix).collect(),
        };
        let back: Vec<Block> = before.difference(blocks).copied().collect();
        for block in &back {
            match (&mut *self, block) {
                (Self::Addresses { pool, .. }, Block::Address(address)) => pool.put_back(*address),
                (Self::Prefixes { pool, .. }, Block::Prefix(prefix)) => pool.put_back(*prefix),
                (Self::Addresses { .. }, Block::Prefix(_)) | (Self::Prefixes { .. }, Block::Address(_)) => {}
            }
        }
        for block in blocks.difference(&before) {
            match (&mut *self, block) {
                (Self::Addresses { pool, .. }, Block::Address(address)) => pool.quarantine(*address),
                (Self::Prefixes { pool, .. }, Block::Prefix(prefix)) => pool.quarantine(*prefix),
                (Self::Addresses { .. }, Block::Prefix(_)) | (Self::Prefixes { .. }, Block::Address(_)) => {}
            }
        }
        back
    }

    /// Records that `owner` has this block.
    pub(crate) fn adopt(&mut self, owner: &Owner, block: Block) {
        match (self, block) {
            (Self::Addresses { pool, .. }, Block::Address(address)) => {
                pool.adopt(owner.clone(), address);
            }
            (Self::Prefixes { pool, .. }, Block::Prefix(prefix)) => {
                pool.adopt(owner.clone(), prefix);
            }
            // Cannot happen: blocks are parsed according to the kind of the pool.
            (Self::Addresses { .. }, Block::Prefix(_)) | (Self::Prefixes { .. }, Block::Address(_)) => {}
        }
    }

    /// Frees this block of `owner` at once. An address that is held back still has its IPAddress, so it is not
    /// released yet.
    pub(crate) fn release(&mut self, owner: &Owner, block: Block) {
        match (self, block) {
            (Self::Addresses { pool, .. }, Block::Address(address)) => {
                pool.release_address(owner, address);
            }
            (Self::Prefixes { pool, .. }, Block::Prefix(prefix)) => {
                pool.release_prefix(owner, prefix);
            }
            (Self::Addresses { .. }, Block::Prefix(_)) | (Self::Prefixes { .. }, Block::Address(_)) => {}
        }
    }

    /// An owner other than `owner` that has this block or, for a prefix, an overlapping one.
    pub(crate) fn rival(&self, owner: &Owner, block: Block) -> Option<Owner> {
        self.owners(block).into_iter().find(|other| other != owner)
    }

    /// Every owner that has this block or, for a prefix, an overlapping one, sorted by name.
    pub(crate) fn owners(&self, block: Block) -> Vec<Owner> {
        match (self, block) {
            (Self::Addresses { pool, .. }, Block::Address(address)) => {
                pool.owners_of(address).cloned().collect()
            }
            (Self::Prefixes { pool, .. }, Block::Prefix(prefix)) => {
                pool.owners_overlapping(prefix).into_iter().cloned().collect()
            }
            (Self::Addresses { .. }, Block::Prefix(_)) | (Self::Prefixes { .. }, Block::Address(_)) => {
                Vec::new()
            }
        }
    }

    /// The complete grant of a block.
    pub(crate) fn grant(&self, block: Block) -> Grant {
        match self {
            Self::Addresses { pool, gateway } => Grant {
                address: block.address(),
                prefix: pool.layout().prefix(),
                gateway: gateway.clone(),
            },
            Self::Prefixes { pool, gateway } => Grant {
                address: block.address(),
                prefix: block.length().unwrap_or(pool.layout().allocation_prefix_length()),
                gateway: gateway.clone(),
            },
        }
    }

    /// Counts, in the form of a pool's status.
    pub(crate) fn counts(&self) -> StatusCounts {
        match self {
            Self::Addresses { pool, .. } => pool.usage().status_counts(),
            Self::Prefixes { pool, .. } => pool.usage().status_counts(),
        }
    }

    /// Every address that may be allocated.
    pub(crate) fn allocatable(&self) -> AddressSet {
        match self {
            Self::Addresses { pool, .. } => pool.layout().allocatable().clone(),
            Self::Prefixes { pool, .. } => pool.layout().allocatable(),
        }
    }
}

/// The spec of a pool of addresses, in the allocator's form.
pub(crate) fn address_spec(spec: &InClusterIPPoolSpec) -> AddressPoolSpec {
    AddressPoolSpec {
        addresses: spec.addresses.clone(),
        prefix: spec.prefix.into(),
        gateway: spec.gateway.clone(),
        allocate_reserved_ip_addresses: spec.allocate_reserved_ip_addresses,
        excluded_addresses: spec.excluded_addresses.clone(),
        address_reuse_grace_period_seconds: spec.address_reuse_grace_period_seconds.map(Into::into),
    }
}

/// The spec of a pool of prefixes, in the allocator's form.
pub(crate) fn prefix_spec(spec: &InClusterPrefixPoolSpec) -> PrefixPoolSpec {
    PrefixPoolSpec {
        prefixes: spec.prefixes.clone(),
        allocation_prefix_length: spec.allocation_prefix_length.into(),
        gateway: spec.gateway.clone(),
        excluded_prefixes: spec.excluded_prefixes.clone(),
    }
}

/// How long a released address of the pool is held back, in seconds; zero if the kind or the spec has no grace
/// period.
pub(crate) fn grace_period_seconds(spec: &PoolSpec) -> i64 {
    match spec {
        PoolSpec::Addresses(spec) => spec.address_reuse_grace_period_seconds.unwrap_or(0).max(0).into(),
        PoolSpec::Prefixes(_) | PoolSpec::Unreadable(_) => 0,
    }
}

/// Why a wanted block is not to be had, for the reader of a claim, who may not know the claims of other namespaces.
fn in_use(error: &dyn fmt::Display, block: &str, owner: &Owner, rival: &Owner) -> String {
    if owner.namespace() == rival.namespace() {
        return error.to_string();
    }
    format!("{block} is in use in another namespace")
}
