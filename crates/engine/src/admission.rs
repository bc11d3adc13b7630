//! Whether the cloud has room for one more resource.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::identity::ResourceKind;
use crate::operation::Rejected;
use crate::resource::ResourceSpec;

/// How much of the offer is taken, counted as resources come and go so that a creation need not count them all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    by_account: BTreeMap<(String, ResourceKind), u32>,
    /// Instances only.
    by_zone: BTreeMap<String, u32>,
}

impl Usage {
    /// Checks a new resource against the offer and what is left of it.
    pub(crate) fn admit(&self, config: &Config, spec: &ResourceSpec) -> Result<(), Rejected> {
        let Config { zones, instance_types, quotas } = config;
        if let Some(name) = &spec.instance_type
            && !instance_types.is_empty()
            && !instance_types.contains(name)
        {
            return Err(Rejected::UnknownInstanceType(name.clone()));
        }
        if let Some(name) = &spec.zone
            && !zones.is_empty()
        {
            let zone = zones.get(name).ok_or_else(|| Rejected::UnknownZone(name.clone()))?;
            let taken = self.by_zone.get(name).copied().unwrap_or(0);
            if spec.id.kind == ResourceKind::Instance && zone.instances_max.is_some_and(|max| taken >= max) {
                return Err(Rejected::InsufficientCapacity(name.clone()));
            }
        }
        let (what, limit) = match spec.id.kind {
            ResourceKind::Instance => ("instances", quotas.instances_max),
            ResourceKind::LoadBalancer => ("load balancers", quotas.load_balancers_max),
        };
        let taken = self.by_account.get(&account(spec)).copied().unwrap_or(0);
        match limit {
            Some(limit) if taken >= limit => Err(Rejected::QuotaExceeded { what, limit }),
            _ => Ok(()),
        }
    }

    pub(crate) fn take(&mut self, spec: &ResourceSpec) {
        let count = self.by_account.entry(account(spec)).or_default();
        *count = count.saturating_add(1);
        if let Some(zone) = zone(spec) {
            let count = self.by_zone.entry(zone).or_default();
            *count = count.saturating_add(1);
        }
    }

    pub(crate) fn give_back(&mut self, spec: &ResourceSpec) {
        decrease(&mut self.by_account, &account(spec));
        if let Some(zone) = zone(spec) {
            decrease(&mut self.by_zone, &zone);
        }
    }
}

fn account(spec: &ResourceSpec) -> (String, ResourceKind) {
    (spec.id.account.clone(), spec.id.kind)
}

fn zone(spec: &ResourceSpec) -> Option<String> {
    match spec.id.kind {
        ResourceKind::Instance => spec.zone.clone(),
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
