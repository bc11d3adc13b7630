//! The operations of a cloud.

use serde::{Deserialize, Serialize};

use crate::identity::ResourceKind;

/// An operation that faults apply to. The others exist only because the cloud is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Verb {
    /// Creates an instance.
    CreateInstance,
    /// Reads an instance.
    DescribeInstance,
    /// Updates an instance.
    UpdateInstance,
    /// Deletes an instance.
    DeleteInstance,
    /// Creates a load balancer.
    CreateLoadBalancer,
    /// Reads a load balancer.
    DescribeLoadBalancer,
    /// Deletes a load balancer.
    DeleteLoadBalancer,
    /// Adds an instance to the backends of a load balancer.
    RegisterBackend,
    /// Removes an instance from the backends of a load balancer.
    DeregisterBackend,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::CreateInstance,
        Self::DescribeInstance,
        Self::UpdateInstance,
        Self::DeleteInstance,
        Self::CreateLoadBalancer,
        Self::DescribeLoadBalancer,
        Self::DeleteLoadBalancer,
        Self::RegisterBackend,
        Self::DeregisterBackend,
    ];

    /// The name, as operations have it. Draws are keyed by it, so it never changes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateInstance => "CreateInstance",
            Self::DescribeInstance => "DescribeInstance",
            Self::UpdateInstance => "UpdateInstance",
            Self::DeleteInstance => "DeleteInstance",
            Self::CreateLoadBalancer => "CreateLoadBalancer",
            Self::DescribeLoadBalancer => "DescribeLoadBalancer",
            Self::DeleteLoadBalancer => "DeleteLoadBalancer",
            Self::RegisterBackend => "RegisterBackend",
            Self::DeregisterBackend => "DeregisterBackend",
        }
    }

    /// What it is carried out on. A backend is an instance.
    #[must_use]
    pub fn resource(self) -> ResourceKind {
        match self {
            Self::CreateInstance
            | Self::DescribeInstance
            | Self::UpdateInstance
            | Self::DeleteInstance
            | Self::RegisterBackend
            | Self::DeregisterBackend => ResourceKind::Instance,
            Self::CreateLoadBalancer | Self::DescribeLoadBalancer | Self::DeleteLoadBalancer => {
                ResourceKind::LoadBalancer
            }
        }
    }

    /// Whether it deletes a resource, which may leak.
    #[must_use]
    pub fn is_deletion(self) -> bool {
        matches!(self, Self::DeleteInstance | Self::DeleteLoadBalancer)
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(self, Self::DescribeInstance | Self::DescribeLoadBalancer)
    }
}
