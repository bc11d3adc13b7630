//! How much room resources take up, and how much there is.

use std::collections::BTreeMap;

use nephele_model::{Capacity, Market, Quota, ResourceId, ResourceKind};
use serde::{Deserialize, Serialize};

use crate::{cloud_spec::Hardware, spec::ResourceSpec};

/// What decides which rooms a resource takes up, and how much of them. It stays the same for as long as the resource
/// exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Footprint {
    pub zone: Option<String>,
    /// The cloud of its namespace that it is made from. Empty for the cloud without a name.
    #[serde(rename = "catalog")]
    pub cloud_spec: String,
    pub instance_type: Option<String>,
    /// The processors of an instance.
    pub processors: u32,
    /// How an instance is paid for.
    #[serde(skip_serializing_if = "Market::is_on_demand")]
    pub market: Market,
}

impl Footprint {
    /// The footprint of a resource with this hardware.
    pub(crate) fn new(spec: &ResourceSpec, hardware: &Hardware) -> Self {
        let ResourceSpec {
            zone,
            cloud_spec,
            instance_type,
            market,
            ..
        } = spec;
        let zone = zone.clone();
        let cloud_spec = cloud_spec.clone();
        let instance_type = instance_type.clone();
        Self {
            zone,
            cloud_spec,
            instance_type,
            processors: hardware.processors(),
            market: *market,
        }
    }

    /// The rooms that a resource takes up, each with how much of it, in the order in which they are checked.
    pub(crate) fn capacities(&self, id: &ResourceId) -> impl Iterator<Item = (Capacity, u32)> + use<> {
        let Self {
            zone,
            cloud_spec,
            instance_type,
            processors,
            market: _,
        } = self;
        let namespace = Capacity::Quota {
            namespace: id.namespace.clone(),
            kind: id.kind,
        };
        let cloud_spec = ResourceId::cloud(&id.namespace, cloud_spec);
        let quota = |of| Capacity::CloudQuota {
            cloud_spec: cloud_spec.clone(),
            of,
        };
        let stock = |instance_type: &Option<String>, zone: &Option<String>| Capacity::Stock {
            cloud_spec: cloud_spec.clone(),
            instance_type: instance_type.clone(),
            zone: zone.clone(),
        };
        let mut capacities = Vec::with_capacity(8);
        match id.kind {
            ResourceKind::Instance => {
                capacities.extend(zone.clone().map(|zone| (Capacity::Zone(zone), 1)));
                if instance_type.is_some() {
                    capacities.extend(zone.is_some().then(|| (stock(instance_type, zone), 1)));
                    capacities.push((stock(instance_type, &None), 1));
                }
                capacities.extend(zone.is_some().then(|| (stock(&None, zone), 1)));
                capacities.push((stock(&None, &None), 1));
                capacities.push((namespace, 1));
                capacities.push((quota(Quota::Instances), 1));
                capacities.push((quota(Quota::Processors), *processors));
            }
            ResourceKind::LoadBalancer => {
                capacities.extend([(namespace, 1), (quota(Quota::LoadBalancers), 1)]);
            }
            ResourceKind::Cloud | ResourceKind::Fault => {}
        }
        capacities.into_iter().filter(|(_, amount)| *amount > 0)
    }
}

/// How much of each room is taken. It is updated as resources come and go, so that a creation need not count them. Rooms
/// without a limit count too, because they may get one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage(BTreeMap<Capacity, u64>);

impl Usage {
    /// How much of a room is taken.
    pub(crate) fn taken(&self, capacity: &Capacity) -> u64 {
        self.0.get(capacity).copied().unwrap_or(0)
    }

    pub(crate) fn take(&mut self, id: &ResourceId, footprint: &Footprint) {
        for (capacity, amount) in footprint.capacities(id) {
            let taken = self.0.entry(capacity).or_default();
            *taken = taken.saturating_add(amount.into());
        }
    }

    /// Removes rooms that become empty, because namespaces come and go without end.
    pub(crate) fn give_back(&mut self, id: &ResourceId, footprint: &Footprint) {
        for (capacity, amount) in footprint.capacities(id) {
            let taken = self
                .0
                .get_mut(&capacity)
                .expect("room is taken before it is given back");
            *taken -= u64::from(amount);
            if *taken == 0 {
                self.0.remove(&capacity);
            }
        }
    }
}

/// A room that has a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityUsage {
    pub capacity: Capacity,
    /// How much fits into it.
    pub limit: u32,
    /// How much of it is taken. More than the limit if the limit was lowered, and after a restart.
    pub taken: u64,
    /// How many resources wait for it.
    pub waiting: usize,
}
