//! Leaked instances and load balancers: the cloud says that they are deleted, and they still exist.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nephele_engine::{Engine, Footprint, Leaked, Request};
use nephele_model::{ClusterId, Endpoint, FaultId, MachineId, ResourceId, ResourceKind};

use crate::clock::CloudClock;
use crate::cloud::Cloud;
use crate::error::CallError;

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
    fn of(leaked: &Leaked, clock: &CloudClock) -> Option<Self> {
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
    fn of(leaked: &Leaked, clock: &CloudClock) -> Option<Self> {
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

impl Cloud {
    /// The leaked instances and load balancers that are deleted with a fault, the oldest first: those that the fault made
    /// leak, and that are of no catalog that was put.
    pub(crate) fn leaked_by(&self, fault: &FaultId) -> (Vec<LeakedInstance>, Vec<LeakedLoadBalancer>) {
        let fault = fault.resource();
        self.by_kind(self.look(|engine| engine.leaked_by(&fault).cloned().collect()))
    }

    /// Deletes the leaked instances and load balancers of a catalog of a namespace. The ports of the load balancers are free.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn delete_leaked(&self, namespace: &str, name: &str) -> Result<(), CallError> {
        self.ask(Request::DeleteLeaked(ResourceId::catalog(namespace, name)))
    }

    /// What had leaked in an earlier process, as the engine has it.
    pub(crate) fn all_leaked(
        &self,
        instances: &[LeakedInstance],
        load_balancers: &[LeakedLoadBalancer],
    ) -> Vec<Leaked> {
        let instances = instances.iter().map(|leaked| leaked.leaked(self.clock()));
        instances.chain(load_balancers.iter().map(|leaked| leaked.leaked(self.clock()))).collect()
    }

    /// What leaked, the oldest first.
    pub(crate) fn by_kind(&self, mut leaked: Vec<Leaked>) -> (Vec<LeakedInstance>, Vec<LeakedLoadBalancer>) {
        leaked.sort_by(|one, other| (one.since, &one.id).cmp(&(other.since, &other.id)));
        let instances = leaked.iter().filter_map(|leaked| LeakedInstance::of(leaked, self.clock()));
        let balancers = leaked.iter().filter_map(|leaked| LeakedLoadBalancer::of(leaked, self.clock()));
        (instances.collect(), balancers.collect())
    }

    /// The leaked instances of a cluster, each with its addresses.
    pub(crate) fn leaked_of_cluster(&self, cluster: &ClusterId) -> Vec<Leaked> {
        let group = cluster.group();
        self.look(|engine| engine.leaked_of_group(&group).cloned().collect())
    }
}
