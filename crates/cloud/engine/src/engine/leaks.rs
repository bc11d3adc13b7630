//! What leaks, and what becomes of it.

use std::time::Duration;

use nephele_model::{ClusterId, ResourceId, ResourceKind, SimTime, count_step};

use super::Engine;
use crate::{
    event::{Event, EventKind},
    leak::Leaked,
    resource::Resource,
};

impl Engine {
    /// The leaked instances and load balancers of a cloud, by name and by when they leaked.
    pub fn leaked(&self, cloud_spec: &ResourceId) -> impl Iterator<Item = &Leaked> {
        let cloud = self.clouds.get(cloud_spec);
        cloud.into_iter().flat_map(|cloud| cloud.leaks.iter())
    }

    /// The leaked instances of a cluster.
    pub fn leaked_of_cluster<'a>(&'a self, cluster: &'a ClusterId) -> impl Iterator<Item = &'a Leaked> {
        let of_namespace = self.clouds.of_namespace(&cluster.namespace);
        of_namespace
            .flat_map(|(_, cloud)| cloud.leaks.iter().inspect(|_| count_step()))
            .filter(|leaked| leaked.id.cluster == cluster.name && leaked.id.kind == ResourceKind::Instance)
    }

    /// The leaked instances and load balancers that a fault made leak and that are of no cloud of its namespace. Only the end
    /// of the fault deletes them.
    pub fn leaked_by<'a>(&'a self, fault: &'a ResourceId) -> impl Iterator<Item = &'a Leaked> {
        let of_namespace = self.clouds.of_namespace(&fault.namespace);
        of_namespace
            .filter(|(_, cloud)| cloud.cloud_spec.is_none())
            .flat_map(|(_, cloud)| cloud.leaks.iter().inspect(|_| count_step()))
            .filter(|leaked| leaked.fault == fault.name)
    }

    /// All leaked instances and load balancers.
    pub fn all_leaked(&self) -> impl Iterator<Item = &Leaked> {
        self.clouds
            .iter()
            .flat_map(|(_, cloud)| cloud.leaks.iter())
            .inspect(|_| count_step())
    }

    /// All leaked instances and load balancers, by name and by when they leaked.
    pub(crate) fn leaked_by_name(&self) -> Vec<&Leaked> {
        let mut leaked: Vec<_> = self.all_leaked().collect();
        leaked.sort_by_key(|leaked| (&leaked.id, leaked.since));
        leaked
    }

    /// Whether one more resource of this kind of a cloud can leak.
    pub(crate) fn can_leak(&self, cloud_spec: &ResourceId, kind: ResourceKind) -> bool {
        let cloud = self.clouds.get(cloud_spec);
        cloud.is_none_or(|cloud| cloud.leaks.have_room(kind))
    }

    /// Lets an instance or a load balancer leak that exists. For its owner it is gone at once.
    pub(crate) fn leak(&mut self, now: SimTime, id: &ResourceId, fault: &str, events: &mut Vec<Event>) {
        let Some(resource) = self.take_from_owner(now, id, events) else {
            return;
        };
        let leaked = self.new_leak(now, &resource, fault, resource.spec.addresses.clone());
        let kinds = [leaked.event(false, false), EventKind::Deleted];
        for (kind, after) in kinds.into_iter().zip(1..) {
            let generation = resource.generation + after;
            events.push(Event::new(now, id.clone(), generation, kind));
        }
        self.insert_leak(leaked);
    }

    /// Lets an instance leak that exists, because another one takes its name. That one has the addresses that the owner
    /// knows; those of the first one are not known.
    pub(crate) fn leak_replaced(
        &mut self,
        now: SimTime,
        id: &ResourceId,
        fault: &str,
        events: &mut Vec<Event>,
    ) {
        let Some(resource) = self.take_from_owner(now, id, events) else {
            return;
        };
        let leaked = self.new_leak(now, &resource, fault, Vec::new());
        let generation = resource.generation + 1;
        let kind = leaked.event(false, true);
        events.push(Event::new(now, id.clone(), generation, kind));
        self.insert_leak(leaked);
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
        while self.has_leaked(&id, since) {
            since = since + Duration::from_millis(1);
        }
        let fault = fault.to_owned();
        let endpoint = resource.spec.endpoint.clone();
        Leaked {
            id,
            since,
            fault,
            addresses,
            endpoint,
            footprint: resource.footprint(),
        }
    }

    /// Whether a resource of this name leaked at that time, in whichever cloud of its namespace: events say no more of it.
    fn has_leaked(&self, id: &ResourceId, since: SimTime) -> bool {
        let mut clouds = self.clouds.of_namespace(&id.namespace);
        clouds.any(|(_, cloud)| cloud.leaks.contains(id, since))
    }

    fn insert_leak(&mut self, leaked: Leaked) {
        let cloud = leaked.cloud_id();
        self.clouds.change(&cloud, |cloud| cloud.leaks.insert(leaked));
    }

    /// Takes over what leaked in an earlier process. They take up their room, whatever the limits are. Returns the
    /// events.
    pub(crate) fn adopt_leaked(&mut self, now: SimTime, leaked: &[Leaked]) -> Vec<Event> {
        let mut events = Vec::new();
        for leaked in leaked {
            if matches!(
                leaked.id.kind,
                ResourceKind::Instance | ResourceKind::LoadBalancer
            ) && !self.has_leaked(&leaked.id, leaked.since)
                && self.can_leak(&leaked.cloud_id(), leaked.id.kind)
            {
                self.take(now, &leaked.id, &leaked.footprint);
                self.insert_leak(leaked.clone());
                events.push(leaked.changed(now, leaked.event(true, false)));
            }
        }
        events
    }

    /// Deletes what leaked, and returns the events.
    pub(crate) fn delete_leaked(&mut self, now: SimTime, leaked: &[Leaked]) -> Vec<Event> {
        let mut events = Vec::new();
        for named in leaked {
            let Leaked { id, since, .. } = named;
            let cloud = named.cloud_id();
            let removed = self.clouds.change(&cloud, |cloud| cloud.leaks.remove(id, *since));
            let Some(leaked) = removed else {
                continue;
            };
            self.give_back(now, id, &leaked.footprint);
            events.push(leaked.changed(now, EventKind::LeakedDeleted { since: *since }));
        }
        events
    }
}
