//! Leaked instances and load balancers: the cloud says that they are deleted, and they still exist.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nephele_engine::{Engine, Footprint, Leaked};
use nephele_model::{ClusterId, Endpoint, MachineId, ResourceKind};

use crate::clock::CloudClock;

/// A leaked instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakedInstance {
    /// The machine that it was. Another machine of this name has another instance.
    pub machine: MachineId,
    /// When the cloud said that it is deleted. Together with the machine it identifies the instance.
    pub since: Timestamp,
    /// The name of the fault.
    pub fault: String,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// What it takes up.
    pub footprint: Footprint,
}

/// A leaked load balancer. Nothing answers at its endpoint, and no other load balancer gets its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeakedLoadBalancer {
    /// The cluster that it was for. Another cluster of this name has another load balancer.
    pub cluster: ClusterId,
    /// When the cloud said that it is deleted. Together with the cluster it identifies the load balancer.
    pub since: Timestamp,
    /// The name of the fault.
    pub fault: String,
    /// Its endpoint.
    pub endpoint: Option<Endpoint>,
    /// The catalog for whose quota it counts.
    pub catalog: String,
}

impl LeakedLoadBalancer {
    pub(crate) fn of(leaked: &Leaked, clock: &CloudClock) -> Option<Self> {
        let Leaked { id, since, fault, addresses: _, endpoint, footprint } = leaked.clone();
        let cluster = ClusterId::of_load_balancer(&id)?;
        Some(Self { cluster, since: clock.wall_time(since), fault, endpoint, catalog: footprint.catalog })
    }

    pub(crate) fn leaked(&self, clock: &CloudClock) -> Leaked {
        let Self { cluster, since, fault, endpoint, catalog } = self.clone();
        Leaked {
            id: cluster.load_balancer(),
            since: clock.at(since),
            fault,
            addresses: Vec::new(),
            endpoint,
            footprint: Footprint { catalog, ..Footprint::default() },
        }
    }
}

/// The ports of leaked load balancers, with their clusters. No other load balancer may have one of these.
pub(crate) fn leaked_ports(engine: &Engine) -> BTreeMap<u16, ClusterId> {
    let leaked = engine.all_leaked().filter(|leaked| leaked.id.kind == ResourceKind::LoadBalancer);
    let port =
        |leaked: &Leaked| Some((leaked.endpoint.as_ref()?.port, ClusterId::of_load_balancer(&leaked.id)?));
    leaked.filter_map(port).collect()
}

impl LeakedInstance {
    pub(crate) fn of(leaked: &Leaked, clock: &CloudClock) -> Option<Self> {
        let Leaked { id, since, fault, addresses, endpoint: _, footprint } = leaked.clone();
        let machine = MachineId::of_resource(&id)?;
        Some(Self { machine, since: clock.wall_time(since), fault, addresses, footprint })
    }

    pub(crate) fn leaked(&self, clock: &CloudClock) -> Leaked {
        let Self { machine, since, fault, addresses, footprint } = self.clone();
        let (id, since) = (machine.resource(), clock.at(since));
        Leaked { id, since, fault, addresses, endpoint: None, footprint }
    }
}
