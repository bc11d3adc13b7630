//! What an operation passes before it changes anything.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::identity::{ResourceId, ResourceKind};
use crate::operation::{CloudError, Operation, Outcome, Request};
use crate::resource::ResourceSpec;

/// What checks look at.
pub(crate) struct Checked<'a> {
    pub(crate) config: &'a Config,
    pub(crate) usage: &'a Usage,
    pub(crate) operation: &'a Operation,
    /// Whether the resource that the operation is about is there.
    pub(crate) is_there: bool,
    /// Whether room is kept for it, see [`Request::Reserve`].
    pub(crate) is_reserved: bool,
}

type Check = fn(&Checked<'_>) -> Result<(), Outcome>;

/// In this order; the first that objects gives the answer. Whatever is to refuse or delay calls stands here, and applies
/// to every operation: rules and limits of the rate before what is there now, as clouds look at those first.
const CHECKS: [Check; 4] = [has_stages, is_offered, has_capacity, is_within_quota];

/// Runs the checks.
pub(crate) fn check(checked: &Checked<'_>) -> Result<(), Outcome> {
    CHECKS.iter().try_for_each(|check| check(checked))
}

impl Checked<'_> {
    /// The specification of a resource that would come to be, unless it is there.
    fn comes(&self) -> Option<&ResourceSpec> {
        match &self.operation.request {
            Request::Create(spec) | Request::Adopt { spec, .. } => (!self.is_there).then_some(spec),
            Request::Reserve { .. }
            | Request::Describe(_)
            | Request::Retry(..)
            | Request::Update(..)
            | Request::Delete(_) => None,
        }
    }

    /// As [`Checked::comes`], of one that was not there before either: limits hold for those.
    fn is_new(&self) -> Option<&ResourceSpec> {
        self.comes().filter(|_| matches!(self.operation.request, Request::Create(_)) && !self.is_reserved)
    }
}

fn has_stages(checked: &Checked<'_>) -> Result<(), Outcome> {
    match checked.comes() {
        Some(spec) if !spec.is_walkable() => Err(refused(CloudError::InvalidStage(spec.id.clone()))),
        _ => Ok(()),
    }
}

fn is_offered(checked: &Checked<'_>) -> Result<(), Outcome> {
    let Some(spec) = checked.is_new() else { return Ok(()) };
    let Config { zones, instance_types, quotas: _ } = checked.config;
    if let Some(name) = &spec.instance_type
        && !instance_types.is_empty()
        && !instance_types.contains(name)
    {
        return Err(refused(CloudError::UnknownInstanceType(name.clone())));
    }
    match &spec.zone {
        Some(name) if !zones.is_empty() && !zones.contains_key(name) => {
            Err(refused(CloudError::UnknownZone(name.clone())))
        }
        _ => Ok(()),
    }
}

fn has_capacity(checked: &Checked<'_>) -> Result<(), Outcome> {
    let Some(zone) = checked.is_new().and_then(|spec| zone(&spec.id, spec.zone.as_ref())) else {
        return Ok(());
    };
    let limit = checked.config.zones.get(zone).and_then(|zone| zone.instances_max);
    let taken = checked.usage.by_zone.get(zone).copied().unwrap_or(0);
    match limit {
        Some(limit) if taken >= limit => Err(refused(CloudError::InsufficientCapacity(zone.clone()))),
        _ => Ok(()),
    }
}

fn is_within_quota(checked: &Checked<'_>) -> Result<(), Outcome> {
    let Some(spec) = checked.is_new() else { return Ok(()) };
    let quotas = &checked.config.quotas;
    let limit = match spec.id.kind {
        ResourceKind::Instance => quotas.instances_max,
        ResourceKind::LoadBalancer => quotas.load_balancers_max,
    };
    let taken = checked.usage.by_account.get(&account(&spec.id)).copied().unwrap_or(0);
    match limit {
        Some(limit) if taken >= limit => Err(refused(CloudError::QuotaExceeded { of: spec.id.kind, limit })),
        _ => Ok(()),
    }
}

fn refused(error: CloudError) -> Outcome {
    Outcome::Refused(error)
}

/// How much of the offer is taken, counted as resources come and go so that a creation need not count them all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    by_account: BTreeMap<(String, ResourceKind), u32>,
    /// Instances only.
    by_zone: BTreeMap<String, u32>,
}

impl Usage {
    pub(crate) fn take(&mut self, id: &ResourceId, in_zone: Option<&String>) {
        let count = self.by_account.entry(account(id)).or_default();
        *count = count.saturating_add(1);
        if let Some(zone) = zone(id, in_zone) {
            let count = self.by_zone.entry(zone.clone()).or_default();
            *count = count.saturating_add(1);
        }
    }

    pub(crate) fn give_back(&mut self, id: &ResourceId, in_zone: Option<&String>) {
        decrease(&mut self.by_account, &account(id));
        if let Some(zone) = zone(id, in_zone) {
            decrease(&mut self.by_zone, zone);
        }
    }
}

fn account(id: &ResourceId) -> (String, ResourceKind) {
    (id.account.clone(), id.kind)
}

/// The zone whose room a resource takes.
fn zone<'a>(id: &ResourceId, in_zone: Option<&'a String>) -> Option<&'a String> {
    match id.kind {
        ResourceKind::Instance => in_zone,
        ResourceKind::LoadBalancer => None,
    }
}

/// Forgets a key whose count reaches zero: accounts come and go without end.
fn decrease<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    let count = counts.get_mut(key).expect("what is given back was taken before");
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}
