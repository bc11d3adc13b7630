//! The checks that run before an operation changes anything.

use nephele_model::{Capacity, CloudError, ResourceId, ResourceKind};

use crate::{
    clouds::Clouds,
    operation::{Operation, Request},
    outcome::Outcome,
    spec::ResourceSpec,
    usage::{Footprint, Usage},
    wait_queue::WaitQueues,
};

/// The input of the checks.
pub(crate) struct Checked<'a> {
    pub(crate) clouds: &'a Clouds,
    pub(crate) usage: &'a Usage,
    pub(crate) waiting: &'a WaitQueues,
    pub(crate) operation: &'a Operation,
    /// Whether the target of the operation exists.
    pub(crate) is_there: bool,
    /// Whether room is reserved for the target, see [`Request::Reserve`].
    pub(crate) is_reserved: bool,
}

type Check = fn(&Checked<'_>) -> Result<(), Outcome>;

/// The checks run in this order, and the first one that objects decides the answer. Faults come before them, as in real
/// clouds, where the checks of a call's rate and credentials come before those of the current state.
const CHECKS: [Check; 4] = [is_of_its_kind, has_stages, is_offered, has_room];

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
            | Request::PutCloud { .. }
            | Request::PutFault { .. }
            | Request::DescribeModel { .. }
            | Request::Retry(..)
            | Request::Update(..)
            | Request::RegisterBackend { .. }
            | Request::DeregisterBackend { .. }
            | Request::Delete(_)
            | Request::DeleteLeaked(_) => None,
        }
    }

    /// As [`Checked::comes`], without resources that are adopted or reserved. Limits apply only to new resources.
    fn is_new(&self) -> Option<&ResourceSpec> {
        self.comes()
            .filter(|_| matches!(self.operation.request, Request::Create(_)) && !self.is_reserved)
    }
}

/// Checks the kind of the target: a cloud is added by `PutCloud` only, a fault by `PutFault` only, and only load
/// balancers have backends.
fn is_of_its_kind(checked: &Checked<'_>) -> Result<(), Outcome> {
    let id = checked.operation.request.target();
    let fits = match &checked.operation.request {
        Request::PutCloud { .. } | Request::DeleteLeaked(_) => id.kind == ResourceKind::Cloud,
        Request::PutFault { .. } => id.kind == ResourceKind::Fault,
        Request::RegisterBackend { .. } | Request::DeregisterBackend { .. } => {
            id.kind == ResourceKind::LoadBalancer
        }
        _ => checked.comes().is_none() || !matches!(id.kind, ResourceKind::Cloud | ResourceKind::Fault),
    };
    if fits {
        Ok(())
    } else {
        Err(refused(CloudError::Conflict(id.clone())))
    }
}

fn has_stages(checked: &Checked<'_>) -> Result<(), Outcome> {
    match checked.comes() {
        Some(spec) if !spec.is_walkable() => Err(refused(CloudError::InvalidStage(spec.id.clone()))),
        _ => Ok(()),
    }
}

fn is_offered(checked: &Checked<'_>) -> Result<(), Outcome> {
    if let Request::DescribeModel { cloud_spec, model } = &checked.operation.request {
        return checked
            .clouds
            .hardware(cloud_spec, model)
            .map(drop)
            .map_err(refused);
    }
    let Some(spec) = checked.is_new() else {
        return Ok(());
    };
    checked
        .clouds
        .hardware(&spec.cloud_id(), &spec.model())
        .map_err(refused)?;
    let zones = &checked.clouds.config.zones;
    match &spec.zone {
        Some(name) if !zones.is_empty() && !zones.contains_key(name) => {
            Err(refused(CloudError::UnknownZone(name.clone())))
        }
        _ => Ok(()),
    }
}

/// Whether a new resource fits into each room that it would take up.
fn has_room(checked: &Checked<'_>) -> Result<(), Outcome> {
    let Some(spec) = checked.is_new() else {
        return Ok(());
    };
    let hardware = checked
        .clouds
        .hardware(&spec.cloud_id(), &spec.model())
        .map_err(refused)?;
    Footprint::new(spec, &hardware)
        .capacities(&spec.id)
        .try_for_each(|(capacity, amount)| fits(checked, &spec.id, capacity, amount))
}

/// Whether this amount fits into a room.
fn fits(checked: &Checked<'_>, id: &ResourceId, capacity: Capacity, amount: u32) -> Result<(), Outcome> {
    let Some(limit) = checked.clouds.limit(&capacity) else {
        return Ok(());
    };
    let kept = if capacity.keeps_order() {
        checked.waiting.kept_from(id, &capacity, limit)
    } else {
        0
    };
    let wanted = checked.usage.taken(&capacity).saturating_add(amount.into());
    if wanted.saturating_add(kept) <= u64::from(limit) {
        return Ok(());
    }
    Err(refused(match capacity {
        Capacity::Zone(zone) => CloudError::InsufficientCapacity(zone),
        Capacity::Quota { kind, .. } => CloudError::QuotaExceeded { of: kind, limit },
        Capacity::CloudQuota { .. } | Capacity::Stock { .. } => CloudError::NoCapacity {
            capacity: Box::new(capacity),
            limit,
            amount,
            is_kept: wanted <= u64::from(limit),
        },
    }))
}

fn refused(error: CloudError) -> Outcome {
    Outcome::Refused(error)
}
