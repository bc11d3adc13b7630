//! What the screen Pools shows, as plain values: what became of each address of each pool. Pure.
//!
//! ```text
//!  pools ─────┐
//!  addresses ─┼─▶ Grid: cells, how many of each kind, who holds them, who waits
//!  claims ────┘
//! ```
//!
//! A pool of more addresses than anyone can tell apart has a cell for each of some thousand parts. Pools of prefixes have prefixes
//! where others have addresses.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nephele_api::{
    conditions::{self, find, types},
    core::ObjectReference,
    ipam::{
        PoolKind,
        conditions::types::OVERLAPPING,
        v1alpha2::{InClusterIPPoolSpec, InClusterPrefixPoolSpec, PoolStatus},
        v1beta2::{IPAddress, IPAddressClaim},
    },
};
use nephele_ipam::{AddressPoolSpec, AddressRange, AddressSet, PrefixPoolSpec, parse_address};

use crate::objects::{Key, Objects};

/// The most addresses that have a cell each, and the parts of a pool with more.
const SINGLE_MAX: u128 = 4096;
const PARTS: u128 = 1024;
/// The most cells of a pool: each of its ranges has one at least.
const CELLS_MAX: usize = 4096;
/// The most holders and claims that are named for a pool.
const NAMED_MAX: usize = 100;
/// The most pools of a screen, some 200 kB each.
const POOLS_MAX: usize = 50;

/// What became of an address. The order is that of the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    Free,
    Used,
    /// Its claim is being deleted, and the pool does not hand it out yet.
    HeldBack,
    /// The claim that it was taken for does not exist.
    Orphan,
    /// Two claims have it.
    Conflict,
    /// The spec excludes it.
    Excluded,
    /// The subnet reserves it, or it is the gateway.
    Reserved,
}

impl Slot {
    pub(crate) const ALL: [Self; 7] = [
        Self::Free,
        Self::Used,
        Self::HeldBack,
        Self::Orphan,
        Self::Conflict,
        Self::Excluded,
        Self::Reserved,
    ];

    /// What became of it, in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Used => "used",
            Self::HeldBack => "held back",
            Self::Orphan => "orphan",
            Self::Conflict => "conflict",
            Self::Excluded => "excluded",
            Self::Reserved => "reserved",
        }
    }
}

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) kind: PoolKind,
    /// Without a namespace for a global pool.
    pub(crate) key: Key,
    /// What addresses are taken from, as its spec has it.
    pub(crate) ranges: String,
    /// How many addresses or prefixes there are of each kind.
    pub(crate) counts: BTreeMap<Slot, u128>,
    /// How many are in use although the pool no longer has them.
    pub(crate) out_of_range: usize,
    /// How many addresses or prefixes each cell stands for.
    pub(crate) per_cell: u128,
    pub(crate) cells: Vec<Cell>,
    /// Whether there are more than the most cells.
    pub(crate) is_cut: bool,
    pub(crate) holders: Vec<Holder>,
    pub(crate) holders_left_out: usize,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) waiting_left_out: usize,
    /// Why it cannot be used, and which other pool has some of its addresses.
    pub(crate) troubles: Vec<String>,
}

/// An address, a prefix, or a part of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) slot: Slot,
    /// How much of it is held, in quarters that have begun.
    pub(crate) quarters: u8,
    /// Which it is, and who holds it.
    pub(crate) says: String,
}

/// A claim that has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) address: String,
    pub(crate) slot: Slot,
    pub(crate) claim: String,
    pub(crate) cluster: String,
}

/// A claim that has no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) claim: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// Everything on the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grids {
    pub(crate) grids: Vec<Grid>,
    pub(crate) left_out: usize,
    /// Whether IPAddresses and IPAddressClaims are known. Without them the holders are not known.
    pub(crate) is_complete: bool,
}

impl Grids {
    /// The pools of a namespace and the global ones, or all.
    pub(crate) fn new(objects: &Objects, namespace: Option<&str>) -> Self {
        let users = Users::new(objects);
        let mut pools = pools(objects);
        pools.retain(|pool| {
            pool.key.namespace.is_empty() || namespace.is_none_or(|wanted| wanted == pool.key.namespace)
        });
        pools.sort_by(|one, other| (&one.key, one.kind).cmp(&(&other.key, other.kind)));
        let left_out = pools.len().saturating_sub(POOLS_MAX);
        pools.truncate(POOLS_MAX);
        Self {
            grids: pools.iter().map(|pool| pool.grid(&users)).collect(),
            left_out,
            is_complete: objects.addresses.is_some() && objects.claims.is_some(),
        }
    }
}

/// The addresses and the claims of each pool.
struct Users<'a> {
    addresses: HashMap<(PoolKind, Key), Vec<&'a IPAddress>>,
    waiting: HashMap<(PoolKind, Key), Vec<&'a IPAddressClaim>>,
    /// All claims by their keys. None while they are not known.
    claims: Option<HashMap<Key, &'a IPAddressClaim>>,
}

impl<'a> Users<'a> {
    fn new(objects: &'a Objects) -> Self {
        let mut users = Self {
            addresses: HashMap::new(),
            waiting: HashMap::new(),
            claims: None,
        };
        for address in objects.addresses.iter().flatten() {
            if let Some(pool) = pool_of(&address.spec.pool_ref, &address.metadata) {
                users.addresses.entry(pool).or_default().push(address);
            }
        }
        for claim in objects.claims.iter().flatten() {
            let pool = pool_of(&claim.spec.pool_ref, &claim.metadata);
            if let Some(pool) = pool.filter(|_| claim.address_name().is_none()) {
                users.waiting.entry(pool).or_default().push(claim);
            }
        }
        users.claims = objects.claims.as_ref().map(|claims| {
            let by_key = claims.iter().map(|claim| (Key::of(&claim.metadata), &**claim));
            by_key.collect()
        });
        users
    }

    fn claim_of(&self, address: &IPAddress) -> Option<&'a IPAddressClaim> {
        let key = Key {
            name: address.spec.claim_ref.name.clone(),
            ..Key::of(&address.metadata)
        };
        self.claims.as_ref()?.get(&key).copied()
    }

    /// What became of an address that is in use.
    fn slot(&self, address: &IPAddress) -> Slot {
        let claim = self.claim_of(address);
        let is_going = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
        match claim {
            None if self.claims.is_some() => Slot::Orphan,
            claim if is_going(&address.metadata) || claim.is_some_and(|claim| is_going(&claim.metadata)) => {
                Slot::HeldBack
            }
            _ => Slot::Used,
        }
    }
}

/// The pool that a reference of an object means.
fn pool_of(reference: &ObjectReference, metadata: &ObjectMeta) -> Option<(PoolKind, Key)> {
    let kind = PoolKind::of(reference)?;
    let namespace = match kind.is_namespaced() {
        true => metadata.namespace.as_deref().unwrap_or_default(),
        false => "",
    };
    Some((kind, Key::new(namespace, &reference.name)))
}

/// A pool of any kind.
struct Pool<'a> {
    kind: PoolKind,
    key: Key,
    ranges: String,
    /// All addresses that its spec names.
    all: AddressSet,
    allocatable: AddressSet,
    excluded: AddressSet,
    /// How many addresses a prefix has that it hands out; one for a pool of addresses.
    unit: u128,
    status: Option<&'a PoolStatus>,
}

/// The pools of all four kinds.
fn pools(objects: &Objects) -> Vec<Pool<'_>> {
    let namespaced = objects.pools.iter().map(|pool| {
        let kind = PoolKind::InClusterIPPool;
        Pool::of_addresses(kind, &pool.metadata, &pool.spec, pool.status.as_ref())
    });
    let global = objects.global_pools.iter().map(|pool| {
        let kind = PoolKind::GlobalInClusterIPPool;
        Pool::of_addresses(kind, &pool.metadata, &pool.spec, pool.status.as_ref())
    });
    let namespaced_prefixes = objects.prefix_pools.iter().map(|pool| {
        let kind = PoolKind::InClusterPrefixPool;
        Pool::of_prefixes(kind, &pool.metadata, &pool.spec, pool.status.as_ref())
    });
    let global_prefixes = objects.global_prefix_pools.iter().map(|pool| {
        let kind = PoolKind::GlobalInClusterPrefixPool;
        Pool::of_prefixes(kind, &pool.metadata, &pool.spec, pool.status.as_ref())
    });
    let of_addresses = namespaced.chain(global);
    of_addresses
        .chain(namespaced_prefixes)
        .chain(global_prefixes)
        .collect()
}

/// The ranges of entries that can be read.
fn set(entries: &[String]) -> AddressSet {
    let read = entries
        .iter()
        .filter_map(|entry| entry.parse::<AddressRange>().ok());
    read.collect()
}

impl<'a> Pool<'a> {
    fn of_addresses(
        kind: PoolKind,
        metadata: &ObjectMeta,
        spec: &InClusterIPPoolSpec,
        status: Option<&'a PoolStatus>,
    ) -> Self {
        let allocatable = AddressPoolSpec {
            addresses: spec.addresses.clone(),
            prefix: spec.prefix.into(),
            gateway: spec.gateway.clone(),
            allocate_reserved_ip_addresses: spec.allocate_reserved_ip_addresses,
            excluded_addresses: spec.excluded_addresses.clone(),
            address_reuse_grace_period_seconds: None,
        };
        Self {
            kind,
            key: Key::of(metadata),
            ranges: spec.addresses.join(" "),
            all: set(&spec.addresses),
            allocatable: allocatable.allocatable(),
            excluded: set(&spec.excluded_addresses),
            unit: 1,
            status,
        }
    }

    fn of_prefixes(
        kind: PoolKind,
        metadata: &ObjectMeta,
        spec: &InClusterPrefixPoolSpec,
        status: Option<&'a PoolStatus>,
    ) -> Self {
        let length = spec
            .effective_allocation_prefix_length()
            .clamp(1, 128)
            .unsigned_abs();
        let all = set(&spec.prefixes);
        let layout = PrefixPoolSpec {
            prefixes: spec.prefixes.clone(),
            allocation_prefix_length: spec.allocation_prefix_length.into(),
            gateway: spec.gateway.clone(),
            excluded_prefixes: spec.excluded_prefixes.clone(),
        };
        let layout = layout.readable_layout();
        let allocatable = layout.map(|layout| layout.allocatable()).unwrap_or_default();
        Self {
            kind,
            key: Key::of(metadata),
            ranges: spec.prefixes.join(" "),
            // A prefix that touches an excluded address is not handed out.
            excluded: all.subtract(&allocatable),
            all,
            allocatable,
            unit: 1 << (128 - length),
            status,
        }
    }

    fn grid(&self, users: &Users<'_>) -> Grid {
        let id = (self.kind, self.key.clone());
        let addresses = users.addresses.get(&id).map(Vec::as_slice).unwrap_or_default();
        let ranges: Vec<AddressRange> = self.all.ranges().collect();
        let mut held: Held<'_> = BTreeMap::new();
        let mut out_of_range = 0;
        for address in addresses {
            match self.place(&ranges, address) {
                Some(place) => held.entry(place).or_default().push(address),
                None => out_of_range += 1,
            }
        }
        let total = ranges.iter().map(|range| self.units(*range));
        let total = total.fold(0, u128::saturating_add);
        let per_cell = match total {
            0..=SINGLE_MAX => 1,
            total => total.div_ceil(PARTS),
        };
        let mut cells = Vec::new();
        let mut is_cut = false;
        for (number, range) in ranges.iter().enumerate() {
            let mut at = 0;
            while at < self.units(*range) && !is_cut {
                cells.push(self.cell((number, *range), at, per_cell, &held, users));
                at = at.saturating_add(per_cell);
                is_cut = cells.len() == CELLS_MAX;
            }
        }
        let waiting = users.waiting.get(&id).map(Vec::as_slice).unwrap_or_default();
        let mut holders = self.holders(&held, users);
        let holders_left_out = holders.len().saturating_sub(NAMED_MAX);
        holders.truncate(NAMED_MAX);
        Grid {
            kind: self.kind,
            key: self.key.clone(),
            ranges: self.ranges.clone(),
            counts: self.counts(&held, users),
            out_of_range,
            per_cell,
            cells,
            is_cut,
            holders,
            holders_left_out,
            waiting: waiting
                .iter()
                .take(NAMED_MAX)
                .map(|claim| self.waiting(claim))
                .collect(),
            waiting_left_out: waiting.len().saturating_sub(NAMED_MAX),
            troubles: self.troubles(),
        }
    }

    /// How many addresses or prefixes a range has.
    fn units(&self, range: AddressRange) -> u128 {
        range.count().div_ceil(self.unit)
    }

    /// The range in which an address is, and how many addresses or prefixes of it are below.
    fn place(&self, ranges: &[AddressRange], address: &IPAddress) -> Option<(usize, u128)> {
        let address = parse_address(&address.spec.address).ok()?;
        let number = ranges.partition_point(|range| range.last() < address);
        let offset = ranges.get(number)?.offset_of(address)?;
        Some((number, offset / self.unit))
    }

    fn cell(
        &self,
        (number, range): (usize, AddressRange),
        at: u128,
        per_cell: u128,
        held: &Held<'_>,
        users: &Users<'_>,
    ) -> Cell {
        let of = |units: u128| units.saturating_mul(self.unit);
        let part = range.part(of(at), of(per_cell)).unwrap_or(range);
        let end = at.saturating_add(per_cell);
        let holders: Vec<_> = held
            .range((number, at)..(number, end))
            .map(|(_, holders)| holders)
            .collect();
        let slots: BTreeSet<Slot> = holders.iter().map(|holders| slot(holders, users)).collect();
        // The rarest one is shown: it is what is looked for.
        let slot = slots.last().copied().unwrap_or_else(|| self.vacant(part));
        let name = self.name(part, per_cell);
        let says = match (per_cell, holders.first().and_then(|holders| holders.first())) {
            (1, Some(holder)) => format!("{name}: {}, claim {}", slot.words(), self.claim_name(holder)),
            (1, None) => format!("{name}: {}", slot.words()),
            _ => format!(
                "{name}: {} of {} held",
                holders.len(),
                per_cell.min(self.units(part))
            ),
        };
        let share = (holders.len() as u128).saturating_mul(4).div_ceil(per_cell);
        Cell {
            slot,
            quarters: u8::try_from(share.min(4)).unwrap_or(4),
            says,
        }
    }

    /// A part in words: an address, a prefix, or a range.
    fn name(&self, part: AddressRange, per_cell: u128) -> String {
        match per_cell {
            1 if self.unit > 1 => format!("{}/{}", part.first(), 128 - self.unit.trailing_zeros()),
            _ => part.to_string(),
        }
    }

    /// What becomes of addresses that are not in use.
    fn vacant(&self, part: AddressRange) -> Slot {
        let any = |set: &AddressSet| {
            set.contains(part.first()) || set.contains(part.last()) || {
                let part: AddressSet = std::iter::once(part).collect();
                !set.intersect(&part).is_empty()
            }
        };
        if any(&self.allocatable) {
            Slot::Free
        } else if any(&self.excluded) {
            Slot::Excluded
        } else {
            Slot::Reserved
        }
    }

    fn counts(&self, held: &Held<'_>, users: &Users<'_>) -> BTreeMap<Slot, u128> {
        let kept_back = self.all.subtract(&self.allocatable);
        let excluded = kept_back.intersect(&self.excluded);
        let mut counts = BTreeMap::from([
            (Slot::Free, self.allocatable.count() / self.unit),
            (Slot::Excluded, excluded.count() / self.unit),
            (Slot::Reserved, kept_back.subtract(&excluded).count() / self.unit),
        ]);
        for holders in held.values() {
            let first = holders
                .first()
                .and_then(|holder| parse_address(&holder.spec.address).ok());
            if let Some(vacant) = first.map(|first| self.vacant(AddressRange::single(first)))
                && let Some(count) = counts.get_mut(&vacant)
            {
                *count = count.saturating_sub(1);
            }
            *counts.entry(slot(holders, users)).or_default() += 1;
        }
        counts.retain(|_, count| *count > 0);
        counts
    }

    fn holders(&self, held: &Held<'_>, users: &Users<'_>) -> Vec<Holder> {
        let holder = |address: &&IPAddress, slot| Holder {
            address: match address.spec.prefix {
                Some(length) if self.kind.has_prefixes() => format!("{}/{length}", address.spec.address),
                _ => address.spec.address.clone(),
            },
            slot,
            claim: self.claim_name(address),
            cluster: users
                .claim_of(address)
                .map(|claim| claim.spec.cluster_name.clone())
                .unwrap_or_default(),
        };
        let all = held.values().flat_map(|holders| {
            let slot = slot(holders, users);
            holders.iter().map(move |address| holder(address, slot))
        });
        all.collect()
    }

    fn claim_name(&self, address: &IPAddress) -> String {
        self.named(&Key {
            name: address.spec.claim_ref.name.clone(),
            ..Key::of(&address.metadata)
        })
    }

    /// A claim in words: with its namespace if the pool serves those of all.
    fn named(&self, key: &Key) -> String {
        match self.kind.is_namespaced() {
            true => key.name.clone(),
            false => key.to_string(),
        }
    }

    fn waiting(&self, claim: &IPAddressClaim) -> Waiting {
        let ready = claim
            .status
            .as_ref()
            .and_then(|status| find(&status.conditions, types::READY));
        Waiting {
            claim: self.named(&Key::of(&claim.metadata)),
            reason: ready.map(|ready| ready.reason.clone()).unwrap_or_default(),
            message: ready.map(|ready| ready.message.clone()).unwrap_or_default(),
        }
    }

    fn troubles(&self) -> Vec<String> {
        let conditions = self
            .status
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let is = |kind, status: &str| find(conditions, kind).filter(|known| known.status == status);
        let troubles = [
            is(types::READY, conditions::FALSE),
            is(types::PAUSED, conditions::TRUE),
            is(OVERLAPPING, conditions::TRUE),
        ];
        let told = troubles
            .into_iter()
            .flatten()
            .map(|trouble| match trouble.message.as_str() {
                "" => trouble.reason.clone(),
                message => message.to_owned(),
            });
        told.collect()
    }
}

/// Who holds what, by the range and the number in it.
type Held<'a> = BTreeMap<(usize, u128), Vec<&'a IPAddress>>;

/// What became of an address or a prefix that these objects hold.
fn slot(holders: &[&IPAddress], users: &Users<'_>) -> Slot {
    match holders {
        [one] => users.slot(one),
        _ => Slot::Conflict,
    }
}

#[cfg(test)]
mod tests;
