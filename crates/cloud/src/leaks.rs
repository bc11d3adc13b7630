//! What leaked from catalogs and because of faults.

use nephele_engine::{Leaked, Request};
use nephele_model::{FaultId, ResourceId};

use crate::cloud::Cloud;
use crate::error::CallError;
use crate::leak::{LeakedInstance, LeakedLoadBalancer};

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
}
