//! The stages that a machine passes through until it is up.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The role of a machine in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Runs an API server and an etcd member.
    ControlPlane,
    /// Runs neither.
    Worker,
}

/// A stage that a machine passes through until it is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// The virtual machine boots.
    Vm,
    /// The kubelet registers the Node.
    Node,
    /// The etcd member joins. Control plane only.
    Etcd,
    /// The API server starts. Control plane only.
    ApiServer,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 4] = [Self::Vm, Self::Node, Self::Etcd, Self::ApiServer];

    /// The stages of a machine of that role, in order.
    #[must_use]
    pub fn of(role: Role) -> &'static [Self] {
        match role {
            Role::ControlPlane => &Self::ALL,
            Role::Worker => &[Self::Vm, Self::Node],
        }
    }

    /// The name of the stage.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Vm => "vm",
            Self::Node => "node",
            Self::Etcd => "etcd",
            Self::ApiServer => "apiServer",
        }
    }

    /// The stages that come right before this one.
    #[must_use]
    pub fn after(self) -> &'static [Self] {
        match self {
            Self::Vm => &[],
            Self::Node => &[Self::Vm],
            Self::Etcd | Self::ApiServer => &[Self::Node],
        }
    }

    /// The name of the stage in the engine.
    #[must_use]
    pub fn name(self) -> StageName {
        StageName::new(self.as_str())
    }

    /// The stage of this name in the engine.
    #[must_use]
    pub fn of_name(name: &StageName) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|stage| stage.as_str() == name.as_str())
    }
}

/// The name of a stage of a resource. The engine gives it no meaning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StageName(String);

impl StageName {
    /// A stage called `name`.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for StageName {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
