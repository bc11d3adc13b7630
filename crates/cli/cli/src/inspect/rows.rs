//! Objects as rows of a table. Pure.

mod claims;
mod clouds;
mod cluster_faults;
mod clusters;
mod faults;
mod machines;
mod pools;
mod scenarios;

pub(super) use clusters::machines_of;
use jiff::Timestamp;
pub(super) use pools::waiting;
pub(super) use scenarios::steps;

use super::{
    found::{Found, Surroundings},
    listing::Listing,
    resource::Resource,
};

pub(super) fn listing(found: &Found, around: &Surroundings, now: Timestamp) -> Listing {
    match found.resource {
        Resource::Clusters => clusters::listing(found, around, now),
        Resource::Machines => machines::listing(&found.objects, around, now),
        Resource::Pools => pools::listing(found, around, now),
        Resource::Claims => claims::listing(found, around, now),
        Resource::Clouds => clouds::listing(found, now),
        Resource::Faults => faults::listing(found, now),
        Resource::ClusterFaults => cluster_faults::listing(found, now),
        Resource::Scenarios => scenarios::listing(found, now),
    }
}

/// The machines of a cluster.
pub(super) fn machines(objects: &[serde_json::Value], around: &Surroundings, now: Timestamp) -> Listing {
    machines::listing(objects, around, now)
}
