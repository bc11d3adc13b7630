//! What is asked of the cloud about the load balancers of clusters, and about who is behind them.

use nephele_engine::{CloudError, Endpoint, Engine, Request, ResourceSpec};

use crate::clock::sim_time;
use crate::cloud::Cloud;
use crate::error::{CallError, MachineError};
use crate::identity::{ClusterId, MachineId, Stage};
use crate::observation::{Deletion, LoadBalancer};

impl Cloud {
    /// Has a load balancer in front of a cluster, which is reached there.
    pub(crate) fn create_load_balancer(&self, id: &ClusterId, endpoint: &Endpoint) -> Result<(), CallError> {
        let endpoint = Some(endpoint.clone());
        let spec = ResourceSpec { endpoint, ..ResourceSpec::new(id.load_balancer()) };
        self.ask(sim_time(self.now()), Request::Create(spec))
    }

    /// Asks the cloud how the load balancer of a cluster is; none when it is not there.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn describe_load_balancer(&self, id: &ClusterId) -> Result<Option<LoadBalancer>, CallError> {
        let balancer = id.load_balancer();
        match self.ask(sim_time(self.now()), Request::Describe(balancer.clone())) {
            Ok(()) => Ok(self.look(|engine| {
                let found = engine.get(&balancer)?;
                Some(LoadBalancer {
                    endpoint: found.spec.endpoint.clone()?,
                    backends: found.backends.keys().cloned().collect(),
                    in_service: engine.in_service(&balancer).map(str::to_owned).collect(),
                })
            })),
            Err(CallError::Refused { source: CloudError::NotFound(_), .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the load balancer of a cluster: it leads nowhere at once, and goes when the engine says. The cluster is
    /// ended by [`Cloud::delete_cluster`].
    ///
    /// # Errors
    /// When the cloud refuses; then it stays as it is.
    pub fn delete_load_balancer(&self, id: &ClusterId) -> Result<Deletion, CallError> {
        let balancer = id.load_balancer();
        self.ask(sim_time(self.now()), Request::Delete(balancer.clone()))?;
        let is_there = |engine: &Engine| engine.get(&balancer).is_some();
        let left = match self.cluster(id) {
            Some(cluster) => self.catch_up(&cluster, is_there),
            None => self.look(is_there),
        };
        Ok(if left { Deletion::InProgress } else { Deletion::Gone })
    }

    /// Has the load balancer of its cluster lead to a machine that has an API server, from when that is up until the
    /// machine goes. For a machine that goes or is gone there is nothing to do.
    ///
    /// # Errors
    /// When its cluster is not there or the cloud refuses.
    pub fn register_backend(&self, id: &MachineId) -> Result<(), MachineError> {
        let cluster =
            self.cluster(&id.cluster).ok_or_else(|| MachineError::UnknownCluster(id.cluster.clone()))?;
        let request = Request::RegisterBackend {
            load_balancer: id.cluster.load_balancer(),
            instance: id.name.clone(),
            in_service_from: Stage::ApiServer.name(),
        };
        match self.ask(sim_time(self.now()), request) {
            Err(CallError::Refused {
                source: CloudError::Deleting(refused) | CloudError::NotFound(refused),
                ..
            }) if refused == id.resource() => {}
            asked => asked?,
        }
        // What is up already is led to when this returns.
        self.catch_up(&cluster, |_| ());
        Ok(())
    }

    /// Has the load balancer of its cluster lead to a machine no more. Nothing is asked for a machine that is not
    /// registered.
    ///
    /// # Errors
    /// When the cloud refuses; then the load balancer leads to the machine still.
    pub fn deregister_backend(&self, id: &MachineId) -> Result<(), CallError> {
        let balancer = id.cluster.load_balancer();
        let is_registered = |engine: &Engine| {
            engine.get(&balancer).is_some_and(|found| found.backends.contains_key(&id.name))
        };
        if !self.look(is_registered) {
            return Ok(());
        }
        let instance = id.name.clone();
        let request = Request::DeregisterBackend { load_balancer: balancer.clone(), instance };
        self.ask(sim_time(self.now()), request)?;
        if let Some(cluster) = self.cluster(&id.cluster) {
            self.catch_up(&cluster, |_| ());
        }
        Ok(())
    }
}
