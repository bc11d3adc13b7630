//! What changes in the cloud.

use std::time::Duration;

use nephele_model::{ResourceId, SimTime, StageName};
use serde::{Deserialize, Serialize};

use crate::active_effect::ActiveEffect;

/// A change in the cloud, by the passing of time or caused by an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub at: SimTime,
    pub id: ResourceId,
    /// The generation of the resource after the event.
    pub generation: u64,
    pub kind: EventKind,
    /// How long the operation took that ends with it, or has come so far with it: the creation of an instance, or a
    /// deletion. None for other changes, and if an earlier process accepted the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<Took>,
}

/// How long an operation took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Took {
    /// The time since the operation was accepted, in the time of the cloud.
    pub time: Duration,
    /// Whether nothing is left to be done.
    pub is_all: bool,
}

impl Event {
    /// A change that says nothing about an operation.
    pub(crate) fn new(at: SimTime, id: ResourceId, generation: u64, kind: EventKind) -> Self {
        Self {
            at,
            id,
            generation,
            kind,
            took: None,
        }
    }
}

/// The change of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// The resource was adopted, with these stages reached at these instants.
    Adopted {
        /// The stages and times, in the order of the specification.
        reached: Vec<(StageName, SimTime)>,
        /// Whether it is being deleted.
        #[serde(default)]
        is_deleting: bool,
    },
    /// A stage was reached.
    StageReached(StageName),
    /// A stage failed.
    StageFailed { stage: StageName, cause: String },
    /// A fault affects the resource, or no longer does so.
    #[serde(rename = "Afflicted")]
    BecameAffected {
        /// The name of the fault.
        fault: String,
        /// What is wrong with the resource. None if it is healed.
        #[serde(rename = "affliction")]
        active_effect: Option<ActiveEffect>,
    },
    /// The update of this name has ended.
    Updated(String),
    /// The instance of this name is now in service at the load balancer.
    BackendInService(String),
    /// The instance of this name is no longer in service at the load balancer. Not recorded when the load balancer
    /// itself is deleted.
    BackendOutOfService(String),
    /// The instance or load balancer leaked: it is gone for its owner, which the next event says unless another
    /// instance has replaced it, and still takes up its room.
    Leaked {
        /// The name of the fault.
        fault: String,
        /// When it leaked, see `since` of [`crate::Leaked`].
        since: SimTime,
        addresses: Vec<String>,
        /// Whether it leaked in an earlier process. Then it is no resource, and its generation is 0.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_adopted: bool,
        /// Whether another instance has its name now: a repeated creation made a second one. That one begins afresh, and no
        /// event says that the first one is gone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_replaced: bool,
    },
    /// The leaked instance or load balancer that had this name is gone. Its generation is 0, because it is no resource.
    LeakedDeleted {
        /// When it leaked, see `since` of [`crate::Leaked`].
        since: SimTime,
    },
    /// The resource is gone.
    Deleted,
}
