//! Leaked instances and load balancers: they are deleted for their owner, and still exist in the cloud.
//!
//! ```text
//!   DeleteInstance, DeleteLoadBalancer, hit by a fault ──▶ Leaked, Deleted: what leaked is gone for everybody
//!   CreateInstance, carried out twice ──▶ Leaked: the first instance is gone for everybody, the second one has its name
//!                                         │ its room stays taken
//!                                         ▼
//!   DeleteLeaked, or the end of its cloud ──▶ LeakedDeleted: the room is free
//! ```
//!
//! A leaked instance is no resource: nothing happens on it, no operation finds it, and a new instance may have its
//! name. The same goes for a load balancer, whose endpoint stays its own. Without a cloud of its namespace, no object
//! can ask for its deletion. So it goes with the fault that made it leak.

use std::collections::BTreeMap;

use nephele_model::{Endpoint, ResourceId, ResourceKind, SimTime};
use serde::{Deserialize, Serialize};

use crate::{
    event::{Event, EventKind},
    usage::Footprint,
};

/// An instance or a load balancer that exists and has no owner: the cloud said that it is deleted, or it is not known that
/// it was created. Outside of the engine, its time may be another one than that of the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaked<Time = SimTime> {
    /// The name that it had.
    pub id: ResourceId,
    /// When it leaked. Instances of one name leaked at different times.
    pub since: Time,
    /// The name of the fault.
    pub fault: String,
    pub addresses: Vec<String>,
    /// Its address, for a load balancer. No other one may have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
    /// The room that it takes up.
    #[serde(flatten)]
    pub footprint: Footprint,
}

impl<Time> Leaked<Time> {
    /// The same with another kind of time.
    #[must_use]
    pub fn at<Other>(self, time: impl FnOnce(Time) -> Other) -> Leaked<Other> {
        let Self {
            id,
            since,
            fault,
            addresses,
            endpoint,
            footprint,
        } = self;
        Leaked {
            id,
            since: time(since),
            fault,
            addresses,
            endpoint,
            footprint,
        }
    }
}

impl Leaked {
    /// How many leaked instances a cloud has at most, and how many leaked load balancers. Then no more leak: what leaks has
    /// to be remembered over a restart, and each list of a status has that length.
    pub const MAX: usize = 100;

    /// The cloud of its namespace that it is made from.
    pub(crate) fn cloud_id(&self) -> ResourceId {
        ResourceId::cloud(&self.id.namespace, &self.footprint.cloud_spec)
    }

    pub(crate) fn event(&self, is_adopted: bool, is_replaced: bool) -> EventKind {
        let Self {
            since,
            fault,
            addresses,
            ..
        } = self;
        let fault = fault.clone();
        let addresses = addresses.clone();
        EventKind::Leaked {
            fault,
            since: *since,
            addresses,
            is_adopted,
            is_replaced,
        }
    }

    /// A change of an instance that has leaked already. Only resources have generations.
    pub(crate) fn changed(&self, at: SimTime, kind: EventKind) -> Event {
        Event::new(at, self.id.clone(), 0, kind)
    }
}

/// What leaked in a cloud, by name and by when they leaked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaks(BTreeMap<(ResourceId, SimTime), Leaked>);

impl Leaks {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Leaked> {
        self.0.values()
    }

    pub(crate) fn contains(&self, id: &ResourceId, since: SimTime) -> bool {
        self.0.contains_key(&(id.clone(), since))
    }

    pub(crate) fn insert(&mut self, leaked: Leaked) {
        self.0.insert((leaked.id.clone(), leaked.since), leaked);
    }

    pub(crate) fn remove(&mut self, id: &ResourceId, since: SimTime) -> Option<Leaked> {
        self.0.remove(&(id.clone(), since))
    }

    /// Whether one more resource of this kind can leak.
    pub(crate) fn have_room(&self, kind: ResourceKind) -> bool {
        self.iter().filter(|leaked| leaked.id.kind == kind).count() < Leaked::MAX
    }
}
