//! What is asked of the cloud, what it answers, and what happens in it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::catalog::{Catalog, Hardware, Model};
use crate::identity::{ResourceId, ResourceKind, StageName};
use crate::resource::{ResourceSpec, UpdateSpec};
use crate::time::SimTime;

/// A call of the cloud's API. Everything that is asked of the cloud is one: reads, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Who asks.
    pub caller: String,
    /// For what.
    pub request: Request,
    /// Marks of the call for rules to match on.
    pub labels: BTreeMap<String, String>,
    /// When.
    pub at: SimTime,
}

impl Operation {
    /// What is asked for, as an audit log of a cloud calls it: `CreateInstance`, `DescribeLoadBalancer`.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        use ResourceKind::{Catalog, Instance, LoadBalancer};
        match (&self.request, self.request.target().kind) {
            (Request::Create(_), Instance) => "CreateInstance",
            (Request::Create(_), LoadBalancer) => "CreateLoadBalancer",
            (Request::Adopt { .. }, Instance) => "AdoptInstance",
            (Request::Adopt { .. }, LoadBalancer) => "AdoptLoadBalancer",
            (Request::Reserve { .. }, Instance) => "ReserveInstance",
            (Request::Reserve { .. }, LoadBalancer) => "ReserveLoadBalancer",
            (Request::Describe(_), Instance) => "DescribeInstance",
            (Request::Describe(_), LoadBalancer) => "DescribeLoadBalancer",
            (Request::Retry(..), Instance) => "RetryInstance",
            (Request::Retry(..), LoadBalancer) => "RetryLoadBalancer",
            (Request::Update(..), Instance) => "UpdateInstance",
            (Request::Update(..), LoadBalancer) => "UpdateLoadBalancer",
            (Request::Delete(_), Instance) => "DeleteInstance",
            (Request::Delete(_), LoadBalancer) => "DeleteLoadBalancer",
            (Request::PutCatalog { .. }, _) => "PutCatalog",
            (Request::DescribeModel { .. }, _) => "DescribeModel",
            (Request::RegisterBackend { .. }, _) => "RegisterBackend",
            (Request::DeregisterBackend { .. }, _) => "DeregisterBackend",
            (Request::Describe(_), Catalog) => "DescribeCatalog",
            (Request::Delete(_), Catalog) => "DeleteCatalog",
            // Nobody asks for that, and it is refused.
            (Request::Create(_), Catalog) => "CreateCatalog",
            (Request::Adopt { .. }, Catalog) => "AdoptCatalog",
            (Request::Reserve { .. }, Catalog) => "ReserveCatalog",
            (Request::Retry(..), Catalog) => "RetryCatalog",
            (Request::Update(..), Catalog) => "UpdateCatalog",
        }
    }
}

/// What is asked for. Every request may be repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Create a resource, if the cloud has room for it.
    Create(ResourceSpec),
    /// Take over a resource that an earlier process had, with the stages it had reached. It is there, so no limit
    /// refuses it. A stage that was under way is due when it would have been: it is entered at the instant its last
    /// predecessor was reached and draws what it drew then. A stage that had failed fails again; how often it was
    /// retried is not carried over.
    Adopt {
        /// What it shall be.
        spec: ResourceSpec,
        /// When it was created; not later than now. Stages without predecessors are entered then.
        created: SimTime,
        /// When which stages were reached; whole seconds will do. Names that the resource does not have are ignored.
        reached: BTreeMap<StageName, SimTime>,
        /// What it consists of. None where nobody noted it: then it consists of what its model does today, and of the
        /// default where that is not to be had any more.
        hardware: Option<Hardware>,
    },
    /// Have instances made from this from now on. Those that are there keep what they have.
    PutCatalog {
        /// Which one.
        id: ResourceId,
        /// What it has.
        catalog: Box<Catalog>,
    },
    /// Say what an instance would consist of that is made from a model. What is accepted is answered by
    /// [`crate::Engine::hardware`].
    DescribeModel {
        /// Where it would be made from.
        catalog: ResourceId,
        /// What of.
        model: Model,
    },
    /// Keep room for a resource that an earlier process had and that was not taken over yet: it counts towards all limits,
    /// and none refuses it, until it is created, adopted or deleted. Otherwise a new one could take its place.
    Reserve {
        /// Which one.
        id: ResourceId,
        /// The zone that it is in.
        zone: Option<String>,
    },
    /// Say how a resource is. What is accepted is answered by [`crate::Engine::get`] and, of a load balancer, by
    /// [`crate::Engine::in_service`].
    Describe(ResourceId),
    /// Enter a failed stage again, with new draws.
    Retry(ResourceId, StageName),
    /// Update a resource in place. One that is under way is given up for one of another name. What it changes is for
    /// the caller to know; the cloud says when its time is over.
    Update(ResourceId, UpdateSpec),
    /// Have a load balancer lead to an instance of its group while that is in service: from when it reaches a stage until
    /// its deletion begins. One that is gone is registered no more.
    RegisterBackend {
        /// The load balancer.
        load_balancer: ResourceId,
        /// The name of the instance.
        instance: String,
        /// The stage.
        in_service_from: StageName,
    },
    /// Have a load balancer lead to an instance no more. One that is not registered is deregistered already.
    DeregisterBackend {
        /// The load balancer.
        load_balancer: ResourceId,
        /// The name of the instance.
        instance: String,
    },
    /// Delete a resource, or give up the room that is kept for it or that it waits for. What is not there is deleted
    /// already.
    Delete(ResourceId),
}

impl Request {
    /// The resource it is about.
    #[must_use]
    pub fn target(&self) -> &ResourceId {
        match self {
            Self::Create(spec) | Self::Adopt { spec, .. } => &spec.id,
            Self::Reserve { id, .. }
            | Self::PutCatalog { id, .. }
            | Self::DescribeModel { catalog: id, .. }
            | Self::RegisterBackend { load_balancer: id, .. }
            | Self::DeregisterBackend { load_balancer: id, .. }
            | Self::Describe(id)
            | Self::Retry(id, _)
            | Self::Update(id, _)
            | Self::Delete(id) => id,
        }
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self, Self::Describe(_) | Self::DescribeModel { .. })
    }
}

/// The answer to an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It is done, or begun. What was read may be had.
    Accepted,
    /// The cloud was so already.
    AlreadyDone,
    /// Nothing was done yet: ask again then.
    Delayed {
        /// When.
        until: SimTime,
    },
    /// The cloud refuses.
    Refused(CloudError),
}

/// Why the cloud refuses an operation.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum CloudError {
    /// The cloud has no such zone.
    #[error("zone {0:?} does not exist")]
    UnknownZone(String),
    /// The account has no such catalog.
    #[error("the cloud has no catalog {0}")]
    UnknownCatalog(String),
    /// The catalog has no such instance type.
    #[error("the cloud has no instance type {wanted}; it has {}", listed(.known))]
    UnknownInstanceType {
        /// The one that was asked for.
        wanted: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// The catalog has no such image.
    #[error("the cloud has no image {wanted}; it has {}", listed(.known))]
    UnknownImage {
        /// The one that was asked for.
        wanted: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// The image is there, without this version.
    #[error("the image {image} has no Kubernetes {wanted}; it has {}", listed(.known))]
    UnsupportedVersion {
        /// The version that was asked for.
        wanted: String,
        /// Of which image.
        image: String,
        /// The minor versions that it has.
        known: Vec<String>,
    },
    /// The account has as many as it may.
    #[error("quota of {limit} {} is used up", .of.plural())]
    QuotaExceeded {
        /// Of what.
        of: ResourceKind,
        /// How many it may have.
        limit: u32,
    },
    /// The zone is full.
    #[error("zone {0:?} has insufficient capacity")]
    InsufficientCapacity(String),
    /// A resource of that name exists and is another one.
    #[error("{0} exists with a different specification")]
    Conflict(ResourceId),
    /// The resource is being deleted.
    #[error("{0} is being deleted")]
    Deleting(ResourceId),
    /// There is no such resource.
    #[error("{0} does not exist")]
    NotFound(ResourceId),
    /// The stages cannot be walked, or the named stage cannot be retried.
    #[error("{0} has no such stage to enter")]
    InvalidStage(ResourceId),
}

/// Names in an error, before the rest is counted: a catalog has up to a hundred of a sort.
const NAMES_MAX: usize = 12;

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let shown = names[..names.len() - more].join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

/// What the caller of a refused operation should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// Ask again after this long.
    RetryAfter(Duration),
    /// Ask again when something changes: what was asked for, or what the cloud has. Whoever waits for room is told, see
    /// [`crate::Record::RoomFreed`].
    WaitForChange,
    /// Report it and stop asking.
    GiveUp,
}

impl CloudError {
    /// What to do about it.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Deleting(_) => ErrorClass::RetryAfter(Duration::from_secs(1)),
            // The journal says when there is room again.
            Self::QuotaExceeded { .. }
            | Self::InsufficientCapacity(_)
            | Self::UnknownZone(_)
            | Self::UnknownCatalog(_)
            | Self::UnknownInstanceType { .. }
            | Self::UnknownImage { .. }
            | Self::UnsupportedVersion { .. }
            | Self::NotFound(_) => ErrorClass::WaitForChange,
            Self::Conflict(_) | Self::InvalidStage(_) => ErrorClass::GiveUp,
        }
    }

    /// A word from a fixed set, for condition reasons and metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::UnknownZone(_) => "UnknownZone",
            Self::UnknownCatalog(_) => "CloudNotFound",
            Self::UnknownInstanceType { .. } => "UnknownInstanceType",
            Self::UnknownImage { .. } => "UnknownImage",
            Self::UnsupportedVersion { .. } => "UnsupportedKubernetesVersion",
            Self::QuotaExceeded { .. } => "QuotaExceeded",
            Self::InsufficientCapacity(_) => "InsufficientCapacity",
            Self::Conflict(_) => "Conflict",
            Self::Deleting(_) => "Deleting",
            Self::NotFound(_) => "NotFound",
            Self::InvalidStage(_) => "InvalidStage",
        }
    }
}

/// Something that happened, by itself or since something was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: SimTime,
    /// To what.
    pub id: ResourceId,
    /// The resource's generation after it.
    pub generation: u64,
    /// What.
    pub kind: EventKind,
}

/// What can happen to a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// The resource was adopted, with these stages reached at these instants.
    Adopted {
        /// In the order of the specification.
        reached: Vec<(StageName, SimTime)>,
    },
    /// A stage was passed.
    StageReached(StageName),
    /// A stage failed.
    StageFailed {
        /// Which.
        stage: StageName,
        /// Why.
        cause: String,
    },
    /// The time of the update of this name is over.
    Updated(String),
    /// The load balancer leads to the instance of this name from now on.
    BackendInService(String),
    /// The load balancer leads to the instance of this name no more. None is told of when the load balancer goes itself.
    BackendOutOfService(String),
    /// The resource is gone.
    Deleted,
}
