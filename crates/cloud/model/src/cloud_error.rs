//! Why a cloud refuses an operation.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    capacity::{Capacity, Quota},
    failure::FailureReason,
    identity::{ResourceId, ResourceKind},
    verb::Verb,
};

/// Why the cloud refuses an operation.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum CloudError {
    /// The cloud has no such zone.
    #[error("zone {0:?} does not exist")]
    UnknownZone(String),
    /// The namespace has no such cloud.
    #[error("the cloud has no catalog {0}")]
    #[serde(rename = "UnknownCatalog")]
    UnknownCloud(String),
    /// The cloud has no such instance type.
    #[error("the cloud has no instance type {wanted}; it has {}", listed(.known))]
    UnknownInstanceType {
        /// The type that was requested.
        wanted: String,
        /// The types in the cloud.
        known: Vec<String>,
    },
    /// The cloud has no such image.
    #[error("the cloud has no image {wanted}; it has {}", listed(.known))]
    UnknownImage {
        /// The image that was requested.
        wanted: String,
        /// The images in the cloud.
        known: Vec<String>,
    },
    /// The image exists, but without this version.
    #[error("the image {image} has no Kubernetes {wanted}; it has {}", listed(.known))]
    UnsupportedVersion {
        /// The version that was requested.
        wanted: String,
        image: String,
        /// The minor versions of the image.
        known: Vec<String>,
    },
    /// The namespace has reached its quota.
    #[error("quota of {limit} {} is used up", .of.plural())]
    QuotaExceeded { of: ResourceKind, limit: u32 },
    /// A limit of the cloud is reached.
    #[error("{}", no_room(.capacity, *.limit, *.amount, *.is_kept))]
    #[serde(rename = "NoRoom")]
    NoCapacity {
        /// The room that is missing.
        #[serde(rename = "room")]
        capacity: Box<Capacity>,
        /// How much fits into it.
        limit: u32,
        /// How much the resource takes up.
        amount: u32,
        /// Whether there is room, but for others that asked before.
        is_kept: bool,
    },
    /// A fault of the namespace makes the operation fail.
    #[error("{}{}{message} (Fault {fault})", reason.words(), if message.is_empty() { "" } else { ": " })]
    Fault {
        /// The name of the fault.
        fault: String,
        /// The reason that the fault gives.
        reason: FailureReason,
        /// More words of the fault.
        message: String,
        retry_after: Duration,
    },
    /// The namespace calls more often than its cloud allows.
    #[error("more than {} calls a second, or {} at once", .rate.per_second, .rate.burst)]
    Throttled {
        /// How often operations may be called.
        rate: CallRate,
        retry_after: Duration,
    },
    /// Reads do not show the resource yet, because it was created or changed a short time ago.
    #[error("{}", not_visible(.id, *.lag, .by.as_deref()))]
    NotVisibleYet {
        id: Box<ResourceId>,
        /// How long the resource or its change does not show.
        lag: Duration,
        visible_in: Duration,
        /// What hides a change. None if the resource is new, and new resources of its cloud do not show.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Box<HiddenBy>>,
    },
    /// The zone is full.
    #[error("zone {0:?} has insufficient capacity")]
    InsufficientCapacity(String),
    /// A resource of that name exists with another specification.
    #[error("{0} exists with a different specification")]
    Conflict(ResourceId),
    /// The resource is being deleted.
    #[error("{0} is being deleted")]
    Deleting(ResourceId),
    /// There is no such resource.
    #[error("{0} does not exist")]
    NotFound(ResourceId),
    /// The stages do not form a graph that can be walked, or the resource does not have the stage that was named.
    #[error("{0} has no such stage to enter")]
    InvalidStage(ResourceId),
}

/// What hides a change from reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenBy {
    /// The name of the fault.
    pub fault: String,
    /// The operation that made the change.
    pub operation: Verb,
}

fn not_visible(id: &ResourceId, lag: Duration, by: Option<&HiddenBy>) -> String {
    match by {
        None => format!("{id} does not show in reads until {lag:?} after its creation"),
        Some(HiddenBy { fault, operation }) => {
            let operation = operation.as_str();
            format!("reads of {id} do not show {operation} until {lag:?} after it (Fault {fault})")
        }
    }
}

/// How many names an error lists before it only counts the rest: a cloud may have up to a hundred of each.
const NAMES_MAX: usize = 12;

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let shown = names[..names.len() - more].join(", ");
    if more == 0 {
        shown
    } else {
        format!("{shown} and {more} more")
    }
}

fn no_room(capacity: &Capacity, limit: u32, amount: u32, is_kept: bool) -> String {
    let kept = if is_kept {
        ": others that asked before wait for it"
    } else {
        ""
    };
    match capacity {
        Capacity::CloudQuota {
            of: Quota::Processors,
            ..
        } => {
            format!("quota of {limit} vCPUs has no room for {amount} more{kept}")
        }
        Capacity::CloudQuota { of, .. } => format!("quota of {limit} {} is used up{kept}", of.plural()),
        Capacity::Stock {
            instance_type, zone, ..
        } => {
            let of_type = instance_type.iter().map(|name| format!(" of type {name}"));
            let in_zone = zone.iter().map(|name| format!(" in zone {name}"));
            let which: String = of_type.chain(in_zone).collect();
            format!("stock of {limit} instances{which} is used up")
        }
        Capacity::Zone(_) | Capacity::Quota { .. } => "there is no room".to_owned(),
    }
}

/// What the caller of a refused operation should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// Ask again after this time.
    RetryAfter(Duration),
    /// Ask again when the request or the cloud changes. When room becomes free, the journal tells the waiting
    /// resources, see `Record::CapacityFreed` of the engine.
    WaitForChange,
    /// Report it and stop asking.
    GiveUp,
}

impl CloudError {
    /// What the caller should do about the error.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Deleting(_) => ErrorClass::RetryAfter(Duration::from_secs(1)),
            Self::Fault { retry_after, .. } | Self::Throttled { retry_after, .. } => {
                ErrorClass::RetryAfter(*retry_after)
            }
            Self::NotVisibleYet { visible_in, .. } => ErrorClass::RetryAfter(*visible_in),
            // The journal says when there is room again.
            Self::QuotaExceeded { .. }
            | Self::InsufficientCapacity(_)
            | Self::NoCapacity { .. }
            | Self::UnknownZone(_)
            | Self::UnknownCloud(_)
            | Self::UnknownInstanceType { .. }
            | Self::UnknownImage { .. }
            | Self::UnsupportedVersion { .. }
            | Self::NotFound(_) => ErrorClass::WaitForChange,
            Self::Conflict(_) | Self::InvalidStage(_) => ErrorClass::GiveUp,
        }
    }

    /// The room that a refused resource waits for, and how much of it the resource takes up.
    #[must_use]
    pub fn missing_room(&self, id: &ResourceId) -> Option<(Capacity, u32)> {
        match self {
            Self::InsufficientCapacity(zone) => Some((Capacity::Zone(zone.clone()), 1)),
            Self::QuotaExceeded { of, .. } => Some((
                Capacity::Quota {
                    namespace: id.namespace.clone(),
                    kind: *of,
                },
                1,
            )),
            Self::NoCapacity { capacity, amount, .. } => Some((Capacity::clone(capacity), *amount)),
            _ => None,
        }
    }

    /// A word from a fixed set, for condition reasons and metrics.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::UnknownZone(_) => "UnknownZone",
            Self::UnknownCloud(_) => "CloudNotFound",
            Self::UnknownInstanceType { .. } => "UnknownInstanceType",
            Self::UnknownImage { .. } => "UnknownImage",
            Self::UnsupportedVersion { .. } => "UnsupportedKubernetesVersion",
            Self::InsufficientCapacity(_) => "InsufficientCapacity",
            Self::NoCapacity { capacity, .. } if matches!(**capacity, Capacity::Stock { .. }) => {
                "InsufficientCapacity"
            }
            Self::QuotaExceeded { .. } | Self::NoCapacity { .. } => "QuotaExceeded",
            Self::Fault { reason, .. } => reason.as_str(),
            Self::Throttled { .. } => "Throttled",
            Self::NotVisibleYet { .. } => "NotVisibleYet",
            Self::Conflict(_) => "Conflict",
            Self::Deleting(_) => "Deleting",
            Self::NotFound(_) => "NotFound",
            Self::InvalidStage(_) => "InvalidStage",
        }
    }
}

/// How often operations may be called, in the engine's time: the rate of a real cloud does not grow when its machines
/// are fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRate {
    /// How many operations in a second, on average. 0 counts as 1.
    pub per_second: u32,
    /// How many operations at once, after a time without any. 0 counts as 1.
    pub burst: u32,
}

impl CallRate {
    /// The time that one operation takes up, in microseconds.
    #[must_use]
    pub fn interval(self) -> u64 {
        1_000_000 / u64::from(self.per_second.clamp(1, 1_000_000))
    }

    /// How far operations may be ahead of the rate, in microseconds.
    #[must_use]
    pub fn tolerance(self) -> u64 {
        self.interval().saturating_mul(u64::from(self.burst.max(1)) - 1)
    }
}
