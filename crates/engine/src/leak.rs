//! Leaked instances and load balancers: they are deleted for their owner, and still exist in the cloud.
//!
//! ```text
//!   DeleteInstance, DeleteLoadBalancer, hit by a fault ──▶ Leaked, Deleted: what leaked is gone for everybody
//!   CreateInstance, carried out twice ──▶ Leaked: the first instance is gone for everybody, the second one has its name
//!                                         │ its room stays taken
//!                                         ▼
//!   DeleteLeaked, or the end of its catalog ──▶ LeakedDeleted: the room is free
//! ```
//!
//! A leaked instance is no resource: nothing happens on it, no operation finds it, and a new instance may have its name. The
//! same goes for a load balancer, whose endpoint stays its own. Without a catalog of its account, nobody can ask for its deletion. So it goes with the fault that made it leak.

use std::collections::BTreeMap;
use std::time::Duration;

use nephele_model::{Endpoint, GroupId, ResourceId, ResourceKind, SimTime, count_step};
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::operation::{Event, EventKind};
use crate::resource::Resource;
use crate::usage::Footprint;

/// An instance or a load balancer that exists and belongs to nobody: the cloud said that it is deleted, or nobody knows that
/// it was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaked {
    /// The name that it had.
    pub id: ResourceId,
    /// When it leaked. Instances of one name leaked at different times.
    pub since: SimTime,
    /// The name of the fault.
    pub fault: String,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Its address, for a load balancer. No other one may have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,
    /// The room that it takes up.
    #[serde(flatten)]
    pub footprint: Footprint,
}

impl Leaked {
    /// How many leaked instances a catalog has at most, and how many leaked load balancers. Then no more leak: what leaks has
    /// to be remembered over a restart, and each list of a status is as long as this.
    pub const MAX: usize = 100;

    /// The catalog of its account that it is made from.
    pub(crate) fn catalog_id(&self) -> ResourceId {
        ResourceId::catalog(&self.id.account, &self.footprint.catalog)
    }

    fn event(&self, is_adopted: bool, is_replaced: bool) -> EventKind {
        let Self { since, fault, addresses, .. } = self;
        let (fault, addresses) = (fault.clone(), addresses.clone());
        EventKind::Leaked { fault, since: *since, addresses, is_adopted, is_replaced }
    }

    /// A change of an instance that has leaked already. Only resources have generations.
    fn changed(&self, at: SimTime, kind: EventKind) -> Event {
        Event::new(at, self.id.clone(), 0, kind)
    }
}

/// All that leaked, by name and by when they leaked.
pub(crate) type Leaks = BTreeMap<(ResourceId, SimTime), Leaked>;

impl Engine {
    /// The leaked instances and load balancers of a catalog, by name and by when they leaked.
    pub fn leaked<'a>(&'a self, catalog: &'a ResourceId) -> impl Iterator<Item = &'a Leaked> {
        self.leaked_of_account(&catalog.account).filter(|leaked| leaked.catalog_id() == *catalog)
    }

    /// The leaked instances of a group.
    pub fn leaked_of_group<'a>(&'a self, group: &'a GroupId) -> impl Iterator<Item = &'a Leaked> {
        let is_of_group =
            |leaked: &&Leaked| leaked.id.group == group.name && leaked.id.kind == ResourceKind::Instance;
        self.leaked_of_account(&group.account).filter(is_of_group)
    }

    /// The leaked instances and load balancers that a fault made leak and that are of no catalog of its account. Only the end
    /// of the fault deletes them.
    pub fn leaked_by<'a>(&'a self, fault: &'a ResourceId) -> impl Iterator<Item = &'a Leaked> {
        let of_account = self.leaked_of_account(&fault.account);
        of_account
            .filter(|leaked| leaked.fault == fault.name && !self.catalogs.contains_key(&leaked.catalog_id()))
    }

    /// All leaked instances and load balancers.
    pub fn all_leaked(&self) -> impl Iterator<Item = &Leaked> {
        self.leaks.values().inspect(|_| count_step())
    }

    fn leaked_of_account<'a>(&'a self, account: &'a str) -> impl Iterator<Item = &'a Leaked> {
        let first = (ResourceId::first(account, "", ResourceKind::Instance), SimTime::default());
        let leaks = self.leaks.range(first..).map(|(_, leaked)| leaked);
        leaks.inspect(|_| count_step()).take_while(move |leaked| leaked.id.account == account)
    }

    /// Whether one more resource of this kind of a catalog can leak.
    pub(crate) fn can_leak(&self, catalog: &ResourceId, kind: ResourceKind) -> bool {
        self.leaked(catalog).filter(|leaked| leaked.id.kind == kind).count() < Leaked::MAX
    }

    /// Lets an instance or a load balancer leak that exists. For its owner it is gone at once.
    pub(crate) fn leak(&mut self, now: SimTime, id: &ResourceId, fault: &str, events: &mut Vec<Event>) {
        let Some(resource) = self.take_from_owner(now, id, events) else { return };
        let leaked = self.new_leak(now, &resource, fault, resource.spec.addresses.clone());
        let kinds = [leaked.event(false, false), EventKind::Deleted];
        for (kind, after) in kinds.into_iter().zip(1..) {
            let generation = resource.generation + after;
            events.push(Event::new(now, id.clone(), generation, kind));
        }
        self.leaks.insert((leaked.id.clone(), leaked.since), leaked);
    }

    /// Lets an instance leak that exists, because another one takes its name. That one has the addresses that the owner
    /// knows; nobody knows those of the first one.
    pub(crate) fn leak_replaced(
        &mut self,
        now: SimTime,
        id: &ResourceId,
        fault: &str,
        events: &mut Vec<Event>,
    ) {
        let Some(resource) = self.take_from_owner(now, id, events) else { return };
        let leaked = self.new_leak(now, &resource, fault, Vec::new());
        let (generation, kind) = (resource.generation + 1, leaked.event(false, true));
        events.push(Event::new(now, id.clone(), generation, kind));
        self.leaks.insert((leaked.id.clone(), leaked.since), leaked);
    }

    /// Removes a resource, whose room stays taken.
    fn take_from_owner(
        &mut self,
        now: SimTime,
        id: &ResourceId,
        events: &mut Vec<Event>,
    ) -> Option<Resource> {
        let ran = self.resources.get(id)?.running_stages();
        events.extend(self.tell_load_balancers(now, id, EventKind::BackendOutOfService, &ran));
        self.take_out(id)
    }

    fn new_leak(&self, now: SimTime, resource: &Resource, fault: &str, addresses: Vec<String>) -> Leaked {
        let id = resource.spec.id.clone();
        let mut since = now;
        while self.leaks.contains_key(&(id.clone(), since)) {
            since = since + Duration::from_millis(1);
        }
        let (fault, endpoint) = (fault.to_owned(), resource.spec.endpoint.clone());
        Leaked { id, since, fault, addresses, endpoint, footprint: Footprint::of(resource) }
    }

    /// Takes over what leaked in an earlier process. They take up their room, whatever the limits are. Returns the
    /// events.
    pub(crate) fn adopt_leaked(&mut self, now: SimTime, leaked: &[Leaked]) -> Vec<Event> {
        let mut events = Vec::new();
        for leaked in leaked {
            let key = (leaked.id.clone(), leaked.since);
            if matches!(leaked.id.kind, ResourceKind::Instance | ResourceKind::LoadBalancer)
                && !self.leaks.contains_key(&key)
                && self.can_leak(&leaked.catalog_id(), leaked.id.kind)
            {
                self.take(now, &leaked.id, &leaked.footprint);
                self.leaks.insert(key, leaked.clone());
                events.push(leaked.changed(now, leaked.event(true, false)));
            }
        }
        events
    }

    /// Deletes what leaked, and returns the events.
    pub(crate) fn delete_leaked(&mut self, now: SimTime, leaked: &[Leaked]) -> Vec<Event> {
        let mut events = Vec::new();
        for Leaked { id, since, .. } in leaked {
            let Some(leaked) = self.leaks.remove(&(id.clone(), *since)) else { continue };
            self.give_back(now, id, &leaked.footprint);
            events.push(leaked.changed(now, EventKind::LeakedDeleted { since: *since }));
        }
        events
    }
}
