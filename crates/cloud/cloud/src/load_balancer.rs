//! Operations on the load balancers of clusters and their backends.

use std::collections::BTreeSet;

use nephele_engine::{Engine, Previous, Request};
use nephele_model::{Caller, CloudError, ClusterId, Endpoint, MachineId, Stage};

use crate::{
    backend::backend,
    cloud::Cloud,
    error::{CallError, MachineError},
    observation::{Deletion, LoadBalancer},
    spec::ClusterSpec,
};

impl Cloud {
    /// Creates the load balancer of a cluster at an endpoint, or adopts the one that an earlier process created, see
    /// [`Cloud::reserve_endpoints`].
    pub(crate) fn create_load_balancer(
        &self,
        cluster: &ClusterSpec,
        endpoint: &Endpoint,
    ) -> Result<(), CallError> {
        let spec = cluster.load_balancer(Some(endpoint.clone()));
        let request = if self.look(|engine| engine.is_reserved(&spec.id)) {
            let created = self.clock().at(cluster.created_at);
            let is_read_refused = cluster.is_read_refused;
            Request::Adopt {
                spec,
                previous: Box::new(Previous {
                    created,
                    is_read_refused,
                    ..Previous::default()
                }),
            }
        } else {
            Request::Create(spec)
        };
        self.ask_as(Caller::Cluster.as_str(), request)
    }

    /// Adopts the load balancer of a cluster that cannot run, because another process has its port, for example: so a Fault, a
    /// rate or a latency meets its deletion as any other. Changes nothing about one that is known.
    ///
    /// # Errors
    /// When the cloud refuses it.
    pub fn adopt_load_balancer(&self, cluster: &ClusterSpec) -> Result<(), CallError> {
        match &cluster.endpoint {
            Some(endpoint) if self.expects_load_balancer(&cluster.id) => {
                self.create_load_balancer(cluster, endpoint)
            }
            _ => Ok(()),
        }
    }

    /// Whether the load balancer of a cluster exists since an earlier process and was not adopted yet.
    #[must_use]
    pub fn expects_load_balancer(&self, id: &ClusterId) -> bool {
        self.look(|engine| engine.is_reserved(&id.load_balancer()))
    }

    /// Those of some machines of a cluster that exist since an earlier process and were not adopted yet. When one is adopted,
    /// it is behind its load balancer if it was before.
    #[must_use]
    pub fn expected_machines(&self, id: &ClusterId, names: BTreeSet<String>) -> BTreeSet<String> {
        let resource = |name: &String| {
            MachineId {
                cluster: id.clone(),
                name: name.clone(),
            }
            .resource()
        };
        self.look(|engine| {
            names
                .into_iter()
                .filter(|name| engine.is_reserved(&resource(name)))
                .collect()
        })
    }

    /// Asks the cloud for the load balancer of a cluster. None if it does not exist.
    ///
    /// # Errors
    /// When the cloud refuses.
    pub fn describe_load_balancer(&self, id: &ClusterId) -> Result<Option<LoadBalancer>, CallError> {
        let balancer = id.load_balancer();
        match self.ask_as(Caller::Cluster.as_str(), Request::Describe(balancer.clone())) {
            Ok(()) => Ok(self.look(|engine| {
                let found = engine.get(&balancer)?;
                let backends = found.backends.iter().filter_map(|(name, from)| {
                    let machine = MachineId {
                        cluster: id.clone(),
                        name: name.clone(),
                    };
                    Some((
                        name.clone(),
                        backend(found, engine.get(&machine.resource())?, from),
                    ))
                });
                Some(LoadBalancer {
                    endpoint: found.spec.endpoint.clone()?,
                    backends: backends.collect(),
                })
            })),
            Err(CallError::Refused {
                source: CloudError::NotFound(_),
                ..
            }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the load balancer of a cluster. Its backends go out of service at once, and it is gone when the engine
    /// says so. [`Cloud::delete_cluster`] deletes the cluster itself.
    ///
    /// # Errors
    /// When the cloud refuses. Then the load balancer stays as it is.
    pub fn delete_load_balancer(&self, id: &ClusterId) -> Result<Deletion, CallError> {
        let balancer = id.load_balancer();
        self.ask_as(Caller::Cluster.as_str(), Request::Delete(balancer.clone()))?;
        let since = |engine: &Engine| Some(engine.get(&balancer)?.deleting.as_ref()?.since);
        let left = match self.cluster(id) {
            Some(cluster) => self.catch_up(&cluster, since),
            None => self.look(since),
        };
        let wall = |since| self.clock().wall_time(since);
        Ok(left.map_or(Deletion::Gone, |since| Deletion::InProgress {
            since: wall(since),
        }))
    }

    /// Registers a control-plane machine with the load balancer of its cluster. It is in service while its API server
    /// is up. For a machine that is gone or being deleted, this does nothing.
    ///
    /// # Errors
    /// When its cluster does not exist or the cloud refuses.
    pub fn register_backend(&self, id: &MachineId) -> Result<(), MachineError> {
        let cluster = self
            .cluster(&id.cluster)
            .ok_or_else(|| MachineError::UnknownCluster(id.cluster.clone()))?;
        let request = Request::RegisterBackend {
            load_balancer: id.cluster.load_balancer(),
            instance: id.name.clone(),
            in_service_from: Stage::ApiServer.name(),
        };
        match self.ask_about(id, request) {
            Err(CallError::Refused {
                source: CloudError::Deleting(refused) | CloudError::NotFound(refused),
                ..
            }) if refused == id.resource() => {}
            asked => asked?,
        }
        // A machine whose API server is already up is in service when this returns.
        self.catch_up(&cluster, |_| ());
        Ok(())
    }

    /// Deregisters a machine from the load balancer of its cluster. If the machine is not registered, no request is
    /// sent. Returns whether it was registered.
    ///
    /// # Errors
    /// When the cloud refuses. Then the machine stays in service.
    pub fn deregister_backend(&self, id: &MachineId) -> Result<bool, CallError> {
        let balancer = id.cluster.load_balancer();
        let is_registered = |engine: &Engine| {
            engine
                .get(&balancer)
                .is_some_and(|found| found.backends.contains_key(&id.name))
        };
        if !self.look(is_registered) {
            return Ok(false);
        }
        let instance = id.name.clone();
        let request = Request::DeregisterBackend {
            load_balancer: balancer.clone(),
            instance,
        };
        self.ask_about(id, request)?;
        if let Some(cluster) = self.cluster(&id.cluster) {
            self.catch_up(&cluster, |_| ());
        }
        Ok(true)
    }
}
