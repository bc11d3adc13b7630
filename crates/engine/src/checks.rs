//! The checks that run before an operation changes anything.

use std::collections::BTreeMap;

use crate::catalog::{Catalog, Hardware, Model};
use crate::config::Config;
use crate::identity::{ResourceId, ResourceKind};
use crate::operation::{CloudError, Operation, Outcome, Request};
use crate::resource::ResourceSpec;
use crate::room::Room;

/// The input of the checks.
pub(crate) struct Checked<'a> {
    pub(crate) config: &'a Config,
    pub(crate) catalogs: &'a BTreeMap<ResourceId, Catalog>,
    pub(crate) usage: &'a Usage,
    pub(crate) operation: &'a Operation,
    /// Whether the target of the operation exists.
    pub(crate) is_there: bool,
    /// Whether room is reserved for the target, see [`Request::Reserve`].
    pub(crate) is_reserved: bool,
}

type Check = fn(&Checked<'_>) -> Result<(), Outcome>;

/// The checks run in this order, and the first one that objects decides the answer. Faults come before them, as in real
/// clouds, where the checks of a call's rate and credentials come before those of the current state.
const CHECKS: [Check; 5] = [is_of_its_kind, has_stages, is_offered, has_capacity, is_within_quota];

/// Runs the checks.
pub(crate) fn check(checked: &Checked<'_>) -> Result<(), Outcome> {
    CHECKS.iter().try_for_each(|check| check(checked))
}

impl Checked<'_> {
    /// The specification of the resource that the operation would add. None if the resource exists.
    fn comes(&self) -> Option<&ResourceSpec> {
        match &self.operation.request {
            Request::Create(spec) | Request::Adopt { spec, .. } => (!self.is_there).then_some(spec),
            Request::Reserve { .. }
            | Request::Describe(_)
            | Request::PutCatalog { .. }
            | Request::PutFault { .. }
            | Request::DescribeModel { .. }
            | Request::Retry(..)
            | Request::Update(..)
            | Request::RegisterBackend { .. }
            | Request::DeregisterBackend { .. }
            | Request::Delete(_) => None,
        }
    }

    /// As [`Checked::comes`], without resources that are adopted or reserved. Limits apply only to new resources.
    fn is_new(&self) -> Option<&ResourceSpec> {
        self.comes().filter(|_| matches!(self.operation.request, Request::Create(_)) && !self.is_reserved)
    }
}

/// Checks the kind of the target: a catalog is added by `PutCatalog` only, a fault by `PutFault` only, and only load
/// balancers have backends.
fn is_of_its_kind(checked: &Checked<'_>) -> Result<(), Outcome> {
    let id = checked.operation.request.target();
    let fits = match &checked.operation.request {
        Request::PutCatalog { .. } => id.kind == ResourceKind::Catalog,
        Request::PutFault { .. } => id.kind == ResourceKind::Fault,
        Request::RegisterBackend { .. } | Request::DeregisterBackend { .. } => {
            id.kind == ResourceKind::LoadBalancer
        }
        _ => checked.comes().is_none() || !matches!(id.kind, ResourceKind::Catalog | ResourceKind::Fault),
    };
    if fits { Ok(()) } else { Err(refused(CloudError::Conflict(id.clone()))) }
}

fn has_stages(checked: &Checked<'_>) -> Result<(), Outcome> {
    match checked.comes() {
        Some(spec) if !spec.is_walkable() => Err(refused(CloudError::InvalidStage(spec.id.clone()))),
        _ => Ok(()),
    }
}

fn is_offered(checked: &Checked<'_>) -> Result<(), Outcome> {
    if let Request::DescribeModel { catalog, model } = &checked.operation.request {
        return hardware(checked.config, checked.catalogs, catalog, model).map(drop).map_err(refused);
    }
    let Some(spec) = checked.is_new() else { return Ok(()) };
    hardware(checked.config, checked.catalogs, &spec.catalog_id(), &spec.model()).map_err(refused)?;
    let zones = &checked.config.zones;
    match &spec.zone {
        Some(name) if !zones.is_empty() && !zones.contains_key(name) => {
            Err(refused(CloudError::UnknownZone(name.clone())))
        }
        _ => Ok(()),
    }
}

/// The hardware of an instance that is made from a model.
pub(crate) fn hardware(
    config: &Config,
    catalogs: &BTreeMap<ResourceId, Catalog>,
    id: &ResourceId,
    model: &Model,
) -> Result<Hardware, CloudError> {
    let built_in = id.name.is_empty().then_some(&config.catalog);
    let catalog = catalogs.get(id).or(built_in);
    catalog.ok_or_else(|| CloudError::UnknownCatalog(id.name.clone()))?.hardware(model)
}

fn has_capacity(checked: &Checked<'_>) -> Result<(), Outcome> {
    fits(checked, checked.is_new().and_then(|spec| zone_of(&spec.id, spec.zone.as_ref())))
}

fn is_within_quota(checked: &Checked<'_>) -> Result<(), Outcome> {
    fits(checked, checked.is_new().map(|spec| quota_of(&spec.id)))
}

/// Whether one more resource fits into a room.
fn fits(checked: &Checked<'_>, room: Option<Room>) -> Result<(), Outcome> {
    let Some(room) = room else { return Ok(()) };
    let Some(limit) = checked.config.limit(&room) else { return Ok(()) };
    if checked.usage.taken(&room) < limit {
        return Ok(());
    }
    Err(refused(match room {
        Room::Zone(zone) => CloudError::InsufficientCapacity(zone),
        Room::Quota { kind, .. } => CloudError::QuotaExceeded { of: kind, limit },
    }))
}

fn refused(error: CloudError) -> Outcome {
    Outcome::Refused(error)
}

/// How many resources take up each room. It is updated as resources come and go, so that a creation need not count
/// them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage(BTreeMap<Room, u32>);

impl Usage {
    /// The number of resources in a room.
    pub(crate) fn taken(&self, room: &Room) -> u32 {
        self.0.get(room).copied().unwrap_or(0)
    }

    pub(crate) fn take(&mut self, id: &ResourceId, zone: Option<&String>) {
        for room in rooms_of(id, zone) {
            let count = self.0.entry(room).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Removes rooms that become empty, because accounts come and go without end.
    pub(crate) fn give_back(&mut self, id: &ResourceId, zone: Option<&String>) {
        for room in rooms_of(id, zone) {
            let count = self.0.get_mut(&room).expect("room is taken before it is given back");
            *count -= 1;
            if *count == 0 {
                self.0.remove(&room);
            }
        }
    }
}

/// The rooms that a resource takes up space in.
fn rooms_of(id: &ResourceId, zone: Option<&String>) -> impl Iterator<Item = Room> {
    zone_of(id, zone).into_iter().chain([quota_of(id)])
}

fn quota_of(id: &ResourceId) -> Room {
    Room::Quota { account: id.account.clone(), kind: id.kind }
}

fn zone_of(id: &ResourceId, zone: Option<&String>) -> Option<Room> {
    match id.kind {
        ResourceKind::Instance => zone.cloned().map(Room::Zone),
        ResourceKind::LoadBalancer | ResourceKind::Catalog | ResourceKind::Fault => None,
    }
}
