//! Leaked instances: the cloud says that they are deleted, and they still exist.

use jiff::Timestamp;
use nephele_engine::{Footprint, Leaked, Request, ResourceId};

use crate::clock::CloudClock;
use crate::cloud::Cloud;
use crate::error::CallError;
use crate::identity::{ClusterId, FaultId, MachineId};

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

impl LeakedInstance {
    fn of(leaked: &Leaked, clock: &CloudClock) -> Option<Self> {
        let Leaked { id, since, fault, addresses, footprint } = leaked.clone();
        let machine = MachineId::of_resource(&id)?;
        Some(Self { machine, since: clock.wall_time(since), fault, addresses, footprint })
    }

    pub(crate) fn leaked(&self, clock: &CloudClock) -> Leaked {
        let Self { machine, since, fault, addresses, footprint } = self.clone();
        Leaked { id: machine.resource(), since: clock.at(since), fault, addresses, footprint }
    }
}

impl Cloud {
    /// The leaked instances of a catalog of a namespace, those that leaked first in front.
    #[must_use]
    pub fn observe_leaked(&self, namespace: &str, name: &str) -> Vec<LeakedInstance> {
        let catalog = ResourceId::catalog(namespace, name);
        self.in_order(self.look(|engine| engine.leaked(&catalog).cloned().collect()))
    }

    /// The leaked instances that are deleted with a fault, those that leaked first in front: those that the fault made
    /// leak, and that are of no catalog that was put.
    #[must_use]
    pub fn observe_leaked_by(&self, fault: &FaultId) -> Vec<LeakedInstance> {
        let fault = fault.resource();
        self.in_order(self.look(|engine| engine.leaked_by(&fault).cloned().collect()))
    }

    /// Deletes the leaked instances of a catalog of a namespace.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn delete_leaked(&self, namespace: &str, name: &str) -> Result<(), CallError> {
        self.ask(Request::DeleteLeaked(ResourceId::catalog(namespace, name)))
    }

    fn in_order(&self, mut leaked: Vec<Leaked>) -> Vec<LeakedInstance> {
        leaked.sort_by(|one, other| (one.since, &one.id).cmp(&(other.since, &other.id)));
        leaked.iter().filter_map(|leaked| LeakedInstance::of(leaked, self.clock())).collect()
    }

    /// The leaked instances of a cluster, each with its addresses.
    pub(crate) fn leaked_of_cluster(&self, cluster: &ClusterId) -> Vec<Leaked> {
        let group = cluster.group();
        self.look(|engine| engine.leaked_of_group(&group).cloned().collect())
    }
}
