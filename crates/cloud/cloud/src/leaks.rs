//! What leaked from clouds and because of faults.

use std::collections::BTreeMap;

use jiff::Timestamp;
use nephele_engine::{Engine, Leaked, Request};
use nephele_model::{ClusterId, FaultId, ResourceId, ResourceKind};

use crate::{cloud::Cloud, error::CallError};

impl Cloud {
    /// The leaked instances and load balancers that are deleted with a fault, the oldest first: those that the fault made
    /// leak, and that are of no cloud that was put.
    pub(crate) fn leaked_by(&self, fault: &FaultId) -> Vec<Leaked<Timestamp>> {
        let fault = fault.resource();
        self.published(self.look(|engine| engine.leaked_by(&fault).cloned().collect()))
    }

    /// Deletes the leaked instances and load balancers of a cloud of a namespace. The ports of the load balancers are free.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn delete_leaked(&self, namespace: &str, name: &str) -> Result<(), CallError> {
        self.ask(Request::DeleteLeaked(ResourceId::cloud(namespace, name)))
    }

    /// What had leaked in an earlier process, as the engine has it.
    pub(crate) fn unpublished(&self, leaked: Vec<Leaked<Timestamp>>) -> Vec<Leaked> {
        leaked
            .into_iter()
            .map(|leaked| leaked.at(|since| self.clock().at(since)))
            .collect()
    }

    /// What leaked, the oldest first.
    pub(crate) fn published(&self, mut leaked: Vec<Leaked>) -> Vec<Leaked<Timestamp>> {
        leaked.sort_by(|one, other| (one.since, &one.id).cmp(&(other.since, &other.id)));
        leaked
            .into_iter()
            .map(|leaked| leaked.at(|since| self.clock().wall_time(since)))
            .collect()
    }
}

/// The ports of leaked load balancers, with their clusters. No other load balancer may have one of these.
pub(crate) fn leaked_ports(engine: &Engine) -> BTreeMap<u16, ClusterId> {
    let leaked = engine
        .all_leaked()
        .filter(|leaked| leaked.id.kind == ResourceKind::LoadBalancer);
    let port = |leaked: &Leaked| {
        Some((
            leaked.endpoint.as_ref()?.port,
            ClusterId::of_load_balancer(&leaked.id)?,
        ))
    };
    leaked.filter_map(port).collect()
}
