//! Names of clusters, machines and faults.

use std::fmt;

use crate::identity::{ResourceId, ResourceKind};

/// A cluster, by the namespace and name of its Cluster object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId {
    pub namespace: String,
    pub name: String,
}

impl ClusterId {
    /// The engine's name for the load balancer in front of its API servers.
    #[must_use]
    pub fn load_balancer(&self) -> ResourceId {
        ResourceId {
            namespace: self.namespace.clone(),
            cluster: self.name.clone(),
            kind: ResourceKind::LoadBalancer,
            name: "control-plane".to_owned(),
        }
    }

    /// The cluster of a load balancer. None if the resource is not a load balancer.
    #[must_use]
    pub fn of_load_balancer(id: &ResourceId) -> Option<Self> {
        let cluster = Self {
            namespace: id.namespace.clone(),
            name: id.cluster.clone(),
        };
        (id.kind == ResourceKind::LoadBalancer).then_some(cluster)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A machine of a cluster. Its Node has the same name, and a fault may let it have a second one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId {
    pub cluster: ClusterId,
    pub name: String,
}

impl MachineId {
    /// The engine's name for the machine.
    #[must_use]
    pub fn resource(&self) -> ResourceId {
        ResourceId {
            namespace: self.cluster.namespace.clone(),
            cluster: self.cluster.name.clone(),
            kind: ResourceKind::Instance,
            name: self.name.clone(),
        }
    }

    /// The machine of a resource. None if the resource is not an instance.
    #[must_use]
    pub fn of_resource(id: &ResourceId) -> Option<Self> {
        let cluster = ClusterId {
            namespace: id.namespace.clone(),
            name: id.cluster.clone(),
        };
        (id.kind == ResourceKind::Instance).then(|| Self {
            cluster,
            name: id.name.clone(),
        })
    }

    /// The provider ID, which links its Node and its Machine.
    #[must_use]
    pub fn provider_id(&self) -> String {
        format!("in-memory://{}", self.name)
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.name)
    }
}

/// A fault, by the namespace and name of its object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId {
    pub namespace: String,
    pub name: String,
}

impl FaultId {
    /// The engine's name for the fault.
    #[must_use]
    pub fn resource(&self) -> ResourceId {
        ResourceId::fault(self.namespace.as_str(), self.name.as_str())
    }

    /// The fault that the engine calls so.
    #[must_use]
    pub fn of_resource(id: &ResourceId) -> Self {
        Self {
            namespace: id.namespace.clone(),
            name: id.name.clone(),
        }
    }
}

impl fmt::Display for FaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
